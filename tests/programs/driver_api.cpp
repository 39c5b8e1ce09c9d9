// The driver API itself, taken from libcuda.so.1 by name, with a module in PTX text; no CUDA run time in the program.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static void* library;
template <typename F>
static F entry(const char* name) {
    void* p = dlsym(library, name);
    if (p == nullptr) {
        std::fprintf(stderr, "%s is not exported\n", name);
        std::exit(1);
    }
    return reinterpret_cast<F>(p);
}
#define DRIVER(name) entry<decltype(&name)>(#name)
#define STRING(x) #x
#define DRIVER_VERSIONED(name) entry<decltype(&name)>(STRING(name))  // cuda.h maps the plain name to its newest version
#define CHECK(call)                                                                                  \
    do {                                                                                             \
        CUresult r = (call);                                                                         \
        if (r != CUDA_SUCCESS) {                                                                     \
            std::fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, static_cast<int>(r)); \
            std::exit(1);                                                                            \
        }                                                                                            \
    } while (0)
#define EXPECT(condition)                                                                 \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            std::fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition); \
            std::exit(1);                                                                 \
        }                                                                                 \
    } while (0)

static const char k_ptx[] = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .global .align 4 .u32 total;
.visible .entry square(.param .u64 data, .param .u32 count)
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [data];
    ld.param.u32 %r1, [count];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra done;
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r5, 4;
    add.s64 %rd4, %rd2, %rd3;
    ld.global.u32 %r6, [%rd4];
    mul.lo.u32 %r7, %r6, %r6;
    st.global.u32 [%rd4], %r7;
    red.global.add.u32 [total], 1;
done:
    ret;
}
)";

/// Fills of elements and of rows, and those that are refused before they reach the device.
static void check_fills() {
    CUdeviceptr p = 0;
    CHECK(DRIVER_VERSIONED(cuMemAlloc)(&p, 4096));
    auto words = DRIVER_VERSIONED(cuMemsetD32);
    auto halves = DRIVER_VERSIONED(cuMemsetD16);
    auto rows = DRIVER_VERSIONED(cuMemsetD2D32);
    CHECK(DRIVER_VERSIONED(cuMemsetD8)(p, 0, 4096));
    CHECK(words(p, 0x01020304, 4));
    CHECK(halves(p + 2, 0x0506, 1));
    CHECK(rows(p + 64, 64, 7, 2, 3));
    unsigned back[64] = {};
    CHECK(DRIVER_VERSIONED(cuMemcpyDtoH)(back, p, sizeof back));
    EXPECT(back[0] == 0x05060304 && back[3] == 0x01020304 && back[4] == 0);
    for (int i = 16; i < 64; ++i) EXPECT(back[i] == (i % 16 < 2 ? 7u : 0u));
    EXPECT(words(p + 2, 0, 1) == CUDA_ERROR_INVALID_VALUE);  // no multiple of an element
    EXPECT(halves(p + 1, 0, 1) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(words(p, 0, 1025) == CUDA_ERROR_INVALID_VALUE);       // beyond the end
    EXPECT(rows(p, 6, 0, 1, 2) == CUDA_ERROR_INVALID_VALUE);     // a pitch that is none of whole elements
    EXPECT(rows(p, 8, 0, 4, 2) == CUDA_ERROR_INVALID_VALUE);     // rows that overlap
    EXPECT(rows(p, 2048, 0, 1, 3) == CUDA_ERROR_INVALID_VALUE);  // the last row is beyond the end
    CHECK(words(p, 1, 0));
    CHECK(rows(p, 64, 1, 0, 3));
    CHECK(DRIVER_VERSIONED(cuMemFree)(p));
}

/// Copies between host memory and an array of one row, which the run time knows no more.
static void check_array_copies() {
    std::vector<unsigned char> there(8192), back(4096, 0xee);
    for (size_t i = 0; i < there.size(); ++i) there[i] = static_cast<unsigned char>(i * 7 + i / 256);
    CUDA_ARRAY_DESCRIPTOR row{};
    row.Width = there.size(), row.Format = CU_AD_FORMAT_UNSIGNED_INT8, row.NumChannels = 1;
    CUarray array;
    CHECK(DRIVER_VERSIONED(cuArrayCreate)(&array, &row));
    CHECK(DRIVER_VERSIONED(cuMemcpyHtoA)(array, 0, there.data(), there.size()));
    auto to_host = DRIVER_VERSIONED(cuMemcpyAtoH);
    CHECK(to_host(back.data() + 1, array, 1000, 4000));
    EXPECT(back[0] == 0xee && back[4001] == 0xee && std::memcmp(back.data() + 1, there.data() + 1000, 4000) == 0);
    CHECK(to_host(back.data(), array, 0, 0));
    EXPECT(to_host(back.data(), array, 8000, 1000) == CUDA_ERROR_INVALID_VALUE);
    CHECK(DRIVER(cuArrayDestroy)(array));
}

/// Options that take the place of what the text says of its kernels.
static void check_bounds_by_options() {
    const char* text =
        ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry bounded()\n.maxntid 32, 1, 1\n{\n    ret;\n}\n";
    for (uintptr_t overrides : {0, 1}) {
        CUjit_option options[] = {CU_JIT_MAX_THREADS_PER_BLOCK, CU_JIT_OVERRIDE_DIRECTIVE_VALUES};
        void* values[] = {reinterpret_cast<void*>(128), reinterpret_cast<void*>(overrides)};
        CUmodule module;
        CUfunction bounded;
        int threads = 0;
        CHECK(DRIVER(cuModuleLoadDataEx)(&module, text, 2, options, values));
        CHECK(DRIVER(cuModuleGetFunction)(&bounded, module, "bounded"));
        CHECK(DRIVER(cuFuncGetAttribute)(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, bounded));
        EXPECT(threads == (overrides ? 128 : 32));
        auto launch = DRIVER(cuLaunchKernel);
        CHECK(launch(bounded, 1, 1, 1, threads, 1, 1, 0, nullptr, nullptr, nullptr));
        EXPECT(launch(bounded, 1, 1, 1, threads + 1, 1, 1, 0, nullptr, nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
        CHECK(DRIVER(cuCtxSynchronize)());
        CHECK(DRIVER(cuModuleUnload)(module));
    }
}

int main() {
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    int count = 0;
    EXPECT(DRIVER(cuDeviceGetCount)(&count) == CUDA_ERROR_NOT_INITIALIZED);
    EXPECT(DRIVER(cuInit)(1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(DRIVER(cuInit)(0));
    CHECK(DRIVER(cuDeviceGetCount)(&count));
    EXPECT(count >= 1);
    CUdevice device = -1;
    CHECK(DRIVER(cuDeviceGet)(&device, 0));
    EXPECT(DRIVER(cuDeviceGet)(&device, count) == CUDA_ERROR_INVALID_DEVICE);
    CUcontext context = nullptr, current = nullptr;
    CHECK(DRIVER(cuDevicePrimaryCtxRetain)(&context, 0));
    EXPECT(entry<CUresult (*)(CUdeviceptr*, size_t)>("cuMemAlloc_v2")(nullptr, 16) != CUDA_SUCCESS);
    CHECK(DRIVER(cuCtxSetCurrent)(context));
    CHECK(DRIVER(cuCtxGetCurrent)(&current));
    EXPECT(current == context);
    CHECK(entry<CUresult (*)(CUcontext*)>("cuCtxPopCurrent_v2")(&current));
    EXPECT(current == context);
    CHECK(DRIVER(cuCtxGetCurrent)(&current));
    EXPECT(current == nullptr);
    CHECK(entry<CUresult (*)(CUcontext)>("cuCtxPushCurrent_v2")(context));

    CUmodule module;
    CUfunction square;
    EXPECT(DRIVER(cuModuleLoadData)(&module, "this is no image") != CUDA_SUCCESS);
    char log[1024] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log, reinterpret_cast<void*>(sizeof(log))};
    CHECK(DRIVER(cuModuleLoadDataEx)(&module, k_ptx, 2, options, values));
    EXPECT(DRIVER(cuModuleGetFunction)(&square, module, "no_such_kernel") == CUDA_ERROR_NOT_FOUND);
    CHECK(DRIVER(cuModuleGetFunction)(&square, module, "square"));
    int threads = 0;
    CHECK(DRIVER(cuFuncGetAttribute)(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, square));
    EXPECT(threads >= 128);

    const unsigned n = 1000;
    std::vector<unsigned> host(n), result(n);
    for (unsigned i = 0; i < n; ++i) host[i] = i * 3;
    CUdeviceptr data, total;
    size_t total_bytes = 0;
    CHECK(entry<CUresult (*)(CUdeviceptr*, size_t)>("cuMemAlloc_v2")(&data, n * sizeof(unsigned)));
    CHECK(entry<CUresult (*)(CUdeviceptr*, size_t*, CUmodule, const char*)>("cuModuleGetGlobal_v2")(&total, &total_bytes,
                                                                                                    module, "total"));
    EXPECT(total_bytes == 4);
    auto to_device = entry<CUresult (*)(CUdeviceptr, const void*, size_t)>("cuMemcpyHtoD_v2");
    auto to_host = entry<CUresult (*)(void*, CUdeviceptr, size_t)>("cuMemcpyDtoH_v2");
    CHECK(to_device(data, host.data(), n * sizeof(unsigned)));
    CHECK(to_device(data, nullptr, 0));
    EXPECT(to_device(data, nullptr, 4) == CUDA_ERROR_INVALID_VALUE);
    void* arguments[] = {&data, const_cast<unsigned*>(&n)};
    CHECK(DRIVER(cuLaunchKernel)(square, (n + 127) / 128, 1, 1, 128, 1, 1, 0, nullptr, arguments, nullptr));
    // The other way to hand over parameters: one buffer.
    struct {
        CUdeviceptr data;
        unsigned count;
    } packed = {data, 10};
    size_t packed_bytes = sizeof packed.data + sizeof packed.count;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &packed_bytes, CU_LAUNCH_PARAM_END};
    CHECK(DRIVER(cuLaunchKernel)(square, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, extra));
    // The structure's padding is no parameter.
    packed_bytes = sizeof packed;
    EXPECT(DRIVER(cuLaunchKernel)(square, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, extra) == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    CHECK(to_host(result.data(), data, n * sizeof(unsigned)));
    for (unsigned i = 0; i < n; ++i) {
        unsigned once = host[i] * host[i];
        EXPECT(result[i] == (i < 10 ? once * once : once));
    }
    check_array_copies();
    check_fills();
    unsigned launched = 0;
    CHECK(to_host(&launched, total, sizeof(launched)));
    EXPECT(launched == n + 10);
    EXPECT(DRIVER(cuLaunchKernel)(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr) != CUDA_SUCCESS);
    EXPECT(DRIVER(cuStreamSynchronize)(reinterpret_cast<CUstream>(0x12345670)) != CUDA_SUCCESS);
    CUdeviceptr base = 0;
    size_t size = 0;
    CHECK(entry<CUresult (*)(CUdeviceptr*, size_t*, CUdeviceptr)>("cuMemGetAddressRange_v2")(&base, &size, data + 100));
    EXPECT(base == data && size == n * sizeof(unsigned));
    const char* name = nullptr;
    CHECK(DRIVER(cuGetErrorName)(CUDA_ERROR_ILLEGAL_ADDRESS, &name));
    EXPECT(std::strcmp(name, "CUDA_ERROR_ILLEGAL_ADDRESS") == 0);
    void* address = nullptr;
    CUdriverProcAddressQueryResult status;
    auto get =
        entry<CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*)>("cuGetProcAddress_v2");
    CHECK(get("cuMemAlloc", &address, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    EXPECT(status == CU_GET_PROC_ADDRESS_SUCCESS && address == dlsym(library, "cuMemAlloc_v2"));
    CHECK(get("cuNoSuchCall", &address, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    EXPECT(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND && address == nullptr);
    CHECK(entry<CUresult (*)(CUdeviceptr)>("cuMemFree_v2")(data));
    EXPECT(entry<CUresult (*)(CUdeviceptr)>("cuMemFree_v2")(data) == CUDA_ERROR_INVALID_VALUE);
    CHECK(DRIVER(cuModuleUnload)(module));
    check_bounds_by_options();
    CHECK(entry<CUresult (*)(CUdevice)>("cuDevicePrimaryCtxRelease_v2")(0));
    std::printf("driver API: verified\n");
    return 0;
}
