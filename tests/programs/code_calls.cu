// Code by the driver's interface: modules of files and of fat binaries, what is linked at run time, libraries' modules and
// managed variables, when functions are loaded, and how many blocks of them fit.
#include <elf.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "driver_calls.h"

extern "C" __global__ void in_fat_binary(int* to) { *to = 4711; }

// Adds a variable's value to what it is given, by a function that another text has.
static const char k_kernel[] = R"(.version 7.0
.target sm_75
.address_size 64
.extern .func (.param .b32 result) twice(.param .b32 number);
.visible .global .align 4 .u32 extra = 5;
.visible .entry calculate(.param .u64 to, .param .u32 number) {
  .reg .b64 %a; .reg .b32 %n, %e;
  ld.param.u64 %a, [to]; ld.param.u32 %n, [number];
  { .param .b32 in; .param .b32 out;
    st.param.b32 [in], %n;
    call (out), twice, (in);
    ld.param.b32 %n, [out]; }
  ld.global.u32 %e, [extra];
  add.u32 %n, %n, %e;
  st.global.u32 [%a], %n;
  ret;
}
)";
static const char k_function[] = R"(.version 7.0
.target sm_75
.address_size 64
.visible .func (.param .b32 result) twice(.param .b32 number) {
  .reg .b32 %n;
  ld.param.b32 %n, [number];
  add.u32 %n, %n, %n;
  st.param.b32 [result], %n;
  ret;
}
)";
static const char k_library[] = R"(.version 7.0
.target sm_75
.address_size 64
.visible .global .align 4 .u32 plain = 3;
.visible .global .attribute(.managed) .align 4 .u32 managed = 17;
.visible .entry add_plain(.param .u64 to) {
  .reg .b64 %a; .reg .b32 %n, %p;
  ld.param.u64 %a, [to];
  ld.global.u32 %n, [managed];
  ld.global.u32 %p, [plain];
  add.u32 %n, %n, %p;
  st.global.u32 [managed], %n;
  st.global.u32 [%a], %n;
  ret;
}
)";

// One kernel waits for what the other one does.
static const char k_waiting[] = R"(.version 7.0
.target sm_75
.address_size 64
.visible .entry wait_for(.param .u64 word) {
  .reg .b64 %a; .reg .b32 %n; .reg .pred %zero;
  ld.param.u64 %a, [word];
again:
  ld.volatile.global.u32 %n, [%a];
  setp.eq.u32 %zero, %n, 0;
  @%zero bra again;
  ret;
}
.visible .entry set(.param .u64 word) {
  .reg .b64 %a;
  ld.param.u64 %a, [word];
  st.volatile.global.u32 [%a], 1;
  ret;
}
)";

static CUfunction function_of(CUmodule module, const char* name) {
    CUfunction function;
    DRIVER(cuModuleGetFunction(&function, module, name));
    return function;
}

/// What a kernel writes into a word.
static int result_of(CUfunction function, unsigned number = 0) {
    DeviceArray<int> to(std::vector<int>{-1});
    auto address = reinterpret_cast<CUdeviceptr>(to.data());
    void* arguments[] = {&address, &number};
    DRIVER(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
    return to.download()[0];
}

/// A file of its own, as long as it lives.
struct File {
    File(const void* bytes, size_t size) {
        const int file = mkstemp(path);
        EXPECT(file >= 0 && write(file, bytes, size) == static_cast<ssize_t>(size));
        close(file);
    }
    ~File() { unlink(path); }
    char path[32] = "/tmp/code_calls.XXXXXX";
};

static void files() {
    CUmodule module;
    {
        const File file(k_library, sizeof k_library - 1);
        DRIVER(cuModuleLoad(&module, file.path));
    }  // it is read by now
    EXPECT_EQ(result_of(function_of(module, "add_plain")), 20);
    DRIVER(cuModuleUnload(module));
    REFUSED(cuModuleLoad(&module, "/nowhere/at/all"), CUDA_ERROR_FILE_NOT_FOUND);
}

/// The fat binaries that this program was built with: what nvcc puts into a section.
static std::vector<unsigned char> section_of_fat_binaries() {
    FILE* self = std::fopen("/proc/self/exe", "rb");
    EXPECT(self != nullptr);
    auto read = [&](void* to, size_t bytes, size_t from) {
        EXPECT(std::fseek(self, static_cast<long>(from), SEEK_SET) == 0 && std::fread(to, 1, bytes, self) == bytes);
    };
    Elf64_Ehdr header;
    read(&header, sizeof header, 0);
    std::vector<Elf64_Shdr> sections(header.e_shnum);
    read(sections.data(), sections.size() * sizeof sections[0], header.e_shoff);
    std::string names(sections[header.e_shstrndx].sh_size, 0);
    read(names.data(), names.size(), sections[header.e_shstrndx].sh_offset);
    std::vector<unsigned char> found;
    for (const Elf64_Shdr& section : sections) {
        if (std::strcmp(&names[section.sh_name], ".nv_fatbin") != 0) continue;
        found.resize(section.sh_size);
        read(found.data(), found.size(), section.sh_offset);
    }
    std::fclose(self);
    return found;
}

static void fat_binaries() {
    const std::vector<unsigned char> section = section_of_fat_binaries();
    // Each begins with 50 ed 55 ba, its version, the size of this header, and the size of the rest.
    bool ran = false;
    for (size_t at = 0; at + 16 <= section.size();) {
        uint32_t magic;
        uint16_t header;
        uint64_t size;
        std::memcpy(&magic, &section[at], sizeof magic);
        std::memcpy(&header, &section[at + 6], sizeof header);
        std::memcpy(&size, &section[at + 8], sizeof size);
        if (magic != 0xba55ed50) {
            at += 8;  // to where the next one may begin
            continue;
        }
        at += header + size;
        CUmodule module;
        const CUresult loaded = cuModuleLoadFatBinary(&module, &section[at - header - size]);
        if (loaded == CUDA_ERROR_NO_BINARY_FOR_GPU) continue;  // the run time's own one, which has nothing for newer devices
        DRIVER(loaded);
        CUfunction function;
        if (cuModuleGetFunction(&function, module, "in_fat_binary") == CUDA_SUCCESS) {
            EXPECT_EQ(result_of(function), 4711);
            ran = true;
        }
        DRIVER(cuModuleUnload(module));
    }
    EXPECT(ran);
}

static void links() {
    char log[1000] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
    CUlinkState link;
    DRIVER(cuLinkCreate(2, options, values, &link));
    DRIVER(cuLinkAddData(link, CU_JIT_INPUT_PTX, const_cast<char*>(k_kernel), sizeof k_kernel, "kernel", 0, nullptr, nullptr));
    const File file(k_function, sizeof k_function - 1);
    DRIVER(cuLinkAddFile(link, CU_JIT_INPUT_PTX, file.path, 0, nullptr, nullptr));
    REFUSED(cuLinkAddFile(link, CU_JIT_INPUT_PTX, "/nowhere/at/all", 0, nullptr, nullptr), CUDA_ERROR_FILE_NOT_FOUND);
    void* image = nullptr;
    size_t size = 0;
    DRIVER(cuLinkComplete(link, &image, &size));
    EXPECT(image != nullptr && size != 0);
    CUmodule module;
    DRIVER(cuModuleLoadData(&module, image));
    DRIVER(cuLinkDestroy(link));  // the image is gone, the module is not
    EXPECT_EQ(result_of(function_of(module, "calculate"), 50), 105);
    DRIVER(cuModuleUnload(module));
    // What another text should have had is missed.
    values[1] = reinterpret_cast<void*>(sizeof log);  // where the log's size was told
    DRIVER(cuLinkCreate(2, options, values, &link));
    CUresult result =
        cuLinkAddData(link, CU_JIT_INPUT_PTX, const_cast<char*>(k_kernel), sizeof k_kernel, "kernel", 0, nullptr, nullptr);
    if (result == CUDA_SUCCESS) result = cuLinkComplete(link, &image, &size);
    EXPECT(result != CUDA_SUCCESS && std::strstr(log, "twice") != nullptr);
    DRIVER(cuLinkDestroy(link));
}

static void libraries() {
    CUlibrary library;
    DRIVER(cuLibraryLoadData(&library, k_library, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CUmodule module;
    DRIVER(cuLibraryGetModule(&module, library));
    // The module is the library's in this context: what it is asked for is where the library says.
    CUdeviceptr of_library = 0, of_module = 1, managed = 0;
    size_t bytes = 0;
    DRIVER(cuLibraryGetGlobal(&of_library, &bytes, library, "plain"));
    EXPECT_EQ(bytes, 4u);
    DRIVER(cuModuleGetGlobal(&of_module, &bytes, module, "plain"));
    EXPECT(of_library == of_module);
    const unsigned other = 30;
    DRIVER(cuMemcpyHtoD(of_library, &other, sizeof other));
    DRIVER(cuLibraryGetManaged(&managed, &bytes, library, "managed"));
    EXPECT(managed != 0 && bytes == 4);
    volatile unsigned* word = reinterpret_cast<unsigned*>(managed);
    EXPECT_EQ(*word, 17u);
    EXPECT_EQ(result_of(function_of(module, "add_plain")), 47);
    EXPECT_EQ(*word, 47u);
    *word = 100;
    CUkernel kernel;
    DRIVER(cuLibraryGetKernel(&kernel, library, "add_plain"));
    CUfunction function;
    DRIVER(cuKernelGetFunction(&function, kernel));
    EXPECT_EQ(result_of(function), 130);
    REFUSED(cuLibraryGetManaged(&managed, &bytes, library, "plain"), CUDA_ERROR_NOT_FOUND);
    REFUSED(cuLibraryGetManaged(&managed, &bytes, library, "elsewhere"), CUDA_ERROR_NOT_FOUND);
    DRIVER(cuLibraryUnload(library));
}

// A function is loaded when it is asked for, where that is not done at once; loading it changes nothing else.
static void loading() {
    CUmodule module;
    DRIVER(cuModuleLoadData(&module, k_library));
    const CUfunction function = function_of(module, "add_plain");
    CUmoduleLoadingMode mode;
    DRIVER(cuModuleGetLoadingMode(&mode));
    CUfunctionLoadingState state;
    DRIVER(cuFuncIsLoaded(&state, function));
    EXPECT(mode == CU_MODULE_LAZY_LOADING || state == CU_FUNCTION_LOADING_STATE_LOADED);
    DRIVER(cuFuncLoad(function));
    DRIVER(cuFuncIsLoaded(&state, function));
    EXPECT(state == CU_FUNCTION_LOADING_STATE_LOADED);
    EXPECT_EQ(result_of(function), 20);
    REFUSED(cuFuncLoad(nullptr), CUDA_ERROR_INVALID_HANDLE);
    DRIVER(cuModuleUnload(module));
}

// What has been asked for is loaded, and need not be when it is launched: while a kernel waits for it, it could not be.
static void waiting() {
    CUmodule module;
    DRIVER(cuModuleLoadData(&module, k_waiting));
    const CUfunction wait_for = function_of(module, "wait_for"), set = function_of(module, "set");
    CUstream first, second;
    for (CUstream* stream : {&first, &second}) DRIVER(cuStreamCreate(stream, CU_STREAM_NON_BLOCKING));
    DeviceArray<int> word(std::vector<int>{0});
    auto address = reinterpret_cast<CUdeviceptr>(word.data());
    void* arguments[] = {&address};
    DRIVER(cuLaunchKernel(wait_for, 1, 1, 1, 1, 1, 1, 0, first, arguments, nullptr));
    DRIVER(cuLaunchKernel(set, 1, 1, 1, 1, 1, 1, 0, second, arguments, nullptr));
    for (const CUstream stream : {second, first}) {
        DRIVER(cuStreamSynchronize(stream));
        DRIVER(cuStreamDestroy(stream));
    }
    EXPECT_EQ(word.download()[0], 1);
    DRIVER(cuModuleUnload(module));
}

// Preferences, of which a program sees nothing but that its kernels run as before and that no others are taken.
static void preferences() {
    CUlibrary library;
    DRIVER(cuLibraryLoadData(&library, k_library, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CUkernel kernel;
    DRIVER(cuLibraryGetKernel(&kernel, library, "add_plain"));
    CUfunction function;
    DRIVER(cuKernelGetFunction(&function, kernel));
    const auto none = static_cast<CUfunc_cache>(4);
    const auto no_size = static_cast<CUsharedconfig>(3);
    REFUSED(cuFuncSetCacheConfig(function, none), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuKernelSetCacheConfig(kernel, none, 0), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuKernelSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_L1, 999), CUDA_ERROR_INVALID_DEVICE);
    REFUSED(cuFuncSetSharedMemConfig(function, no_size), CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuFuncSetCacheConfig(function, CU_FUNC_CACHE_PREFER_SHARED));
    DRIVER(cuKernelSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_L1, 0));
    DRIVER(cuFuncSetSharedMemConfig(function, CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE));
    EXPECT_EQ(result_of(function), 20);
    DRIVER(cuLibraryUnload(library));
}

// What is set of a library's kernel holds for its function. What is set of the function the kernel need not tell
// (docs/driver-behaviour.md).
static void attributes_of_kernels() {
    CUlibrary library;
    DRIVER(cuLibraryLoadData(&library, k_library, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CUkernel kernel;
    DRIVER(cuLibraryGetKernel(&kernel, library, "add_plain"));
    CUfunction function;
    DRIVER(cuKernelGetFunction(&function, kernel));
    constexpr CUfunction_attribute k_shared = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    const int most = [] {
        int bytes = 0;
        DRIVER(cuDeviceGetAttribute(&bytes, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
        return bytes;
    }();
    int by_kernel = 0, by_function = 0;
    DRIVER(cuKernelSetAttribute(k_shared, most, kernel, 0));
    DRIVER(cuKernelGetAttribute(&by_kernel, k_shared, kernel, 0));
    DRIVER(cuFuncGetAttribute(&by_function, k_shared, function));
    EXPECT(by_kernel == most && by_function == most);
    DRIVER(cuFuncSetAttribute(function, k_shared, 1024));
    DRIVER(cuFuncGetAttribute(&by_function, k_shared, function));
    EXPECT_EQ(by_function, 1024);
    REFUSED(cuKernelSetAttribute(k_shared, most + 1, kernel, 0), CUDA_ERROR_INVALID_VALUE);
    constexpr CUfunction_attribute k_policy = CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE;
    REFUSED(cuFuncSetAttribute(function, k_policy, 50), CUDA_ERROR_INVALID_VALUE);  // by the call itself, not by a later one
    REFUSED(cuKernelSetAttribute(k_policy, 50, kernel, 0), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_NUM_REGS, 8, kernel, 0), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuKernelGetAttribute(&by_kernel, k_shared, kernel, 999), CUDA_ERROR_INVALID_DEVICE);
    DRIVER(cuLibraryUnload(library));
}

static __global__ void with_shared_memory(int* to) {
    extern __shared__ int shared[];
    shared[threadIdx.x] = static_cast<int>(threadIdx.x);
    __syncthreads();
    to[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

// The block size that is best by one question is best by another one asked of all sizes.
static void occupancy() {
    CUfunction function;
    CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(with_shared_memory)));
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    const auto resident = [&](int threads, size_t bytes) {
        int blocks = 0;
        DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, threads, bytes));
        return blocks;
    };
    const auto each = [](int threads) { return static_cast<size_t>(threads) * 16; };
    for (const int limit : {0, 160}) {
        for (const bool by_threads : {false, true}) {
            const size_t fixed = by_threads ? 0 : 3000;
            const auto bytes = [&](int threads) { return by_threads ? each(threads) : fixed; };
            int most = 0;
            for (int threads = 32; threads <= (limit != 0 ? limit : device.maxThreadsPerBlock); threads += 32)
                most = std::max(most, threads * resident(threads, bytes(threads)));
            for (const bool with_flags : {false, true}) {
                int grid = 0, block = 0;
                const CUoccupancyB2DSize size = by_threads ? static_cast<CUoccupancyB2DSize>(each) : nullptr;
                DRIVER(with_flags ? cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, function, size, fixed, limit,
                                                                              CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
                                  : cuOccupancyMaxPotentialBlockSize(&grid, &block, function, size, fixed, limit));
                EXPECT(block > 0 && block <= (limit != 0 ? limit : device.maxThreadsPerBlock));
                EXPECT_EQ(block * resident(block, bytes(block)), most);
                EXPECT_EQ(grid, resident(block, bytes(block)) * device.multiProcessorCount);
            }
        }
    }
    int grid = 0, block = 0, blocks = 0;
    for (const unsigned flags : {CU_OCCUPANCY_DEFAULT, CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE}) {
        DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, function, 128, 3000, flags));
        EXPECT_EQ(blocks, resident(128, 3000));
    }
    REFUSED(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, function, 128, 0, 77), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, function, nullptr, 0, 0, 77), CUDA_ERROR_INVALID_VALUE);
    // So much shared memory as is said to be left is: with more, fewer blocks fit.
    size_t left = 0;
    DRIVER(cuOccupancyAvailableDynamicSMemPerBlock(&left, function, 2, 128));
    EXPECT(left > 0);
    CHECK(cudaFuncSetAttribute(with_shared_memory, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(left)));
    EXPECT(resident(128, left) >= 2);
    DeviceArray<int> to(128);
    with_shared_memory<<<2, 128, left>>>(to.data());
    CHECK(cudaGetLastError());
    const std::vector<int> found = to.download();
    for (int i = 0; i < 128; ++i) EXPECT_EQ(found[i], 127 - i);
}

int main() {
    CHECK(cudaFree(nullptr));
    files();
    fat_binaries();
    links();
    waiting();
    libraries();
    loading();
    preferences();
    attributes_of_kernels();
    occupancy();
    return passed("code");
}
