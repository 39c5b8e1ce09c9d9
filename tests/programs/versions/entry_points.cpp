// What a program with the driver API sees of the driver's age: its version, the functions that it finds by name and version,
// and what becomes of PTX. The PTX comes from the NVRTC that is named, so that it is of that version.
//   entry_points LIBNVRTC
#include <cuda.h>
#include <dlfcn.h>
#include <nvrtc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#define CHECK(call)                                                                            \
    do {                                                                                       \
        int check_result = static_cast<int>(call);                                             \
        if (check_result != 0) {                                                               \
            std::fprintf(stderr, "%s:%d: %s (%d)\n", __FILE__, __LINE__, #call, check_result); \
            std::exit(1);                                                                      \
        }                                                                                      \
    } while (0)

static const char k_source[] = R"(
extern "C" __global__ void square(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * in[i];
}
)";

template <typename F>
static F* function(void* library, const char* name) {
    void* found = dlsym(library, name);
    if (found == nullptr) {
        std::fprintf(stderr, "no %s\n", name);
        std::exit(1);
    }
    return reinterpret_cast<F*>(found);
}

static std::string compile(const char* path) {
    void* nvrtc = dlopen(path, RTLD_NOW);
    if (nvrtc == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
        std::exit(1);
    }
    nvrtcProgram program;
    CHECK(function<decltype(nvrtcCreateProgram)>(nvrtc, "nvrtcCreateProgram")(&program, k_source, "square.cu", 0, nullptr,
                                                                              nullptr));
    const char* options[] = {"--gpu-architecture=compute_80"};
    CHECK(function<decltype(nvrtcCompileProgram)>(nvrtc, "nvrtcCompileProgram")(program, 1, options));
    size_t size = 0;
    CHECK(function<decltype(nvrtcGetPTXSize)>(nvrtc, "nvrtcGetPTXSize")(program, &size));
    std::string ptx(size, '\0');
    CHECK(function<decltype(nvrtcGetPTX)>(nvrtc, "nvrtcGetPTX")(program, ptx.data()));
    return ptx;
}

int main(int, char** arguments) {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 1;
    int before = 0, after = 0;
    auto* get_version = function<CUresult(int*)>(library, "cuDriverGetVersion");
    auto* init = function<CUresult(unsigned)>(library, "cuInit");
    CHECK(get_version(&before));
    // Whoever has asked for the version only leaves CUDA to its children.
    const pid_t child = fork();
    if (child == 0) _exit(init(0) == CUDA_SUCCESS && get_version(&after) == CUDA_SUCCESS && after == before ? 0 : 1);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        return std::fprintf(stderr, "no CUDA in a child: %d\n", status), 1;
    CHECK(init(0));
    CHECK(get_version(&after));
    if (before != after) return std::fprintf(stderr, "version %d before cuInit, %d after it\n", before, after), 1;
    std::printf("driver %d\n", after);
    auto* look_up = function<CUresult(const char*, void**, int, cuuint64_t)>(library, "cuGetProcAddress");
    for (const char* row :
         {"cuLibraryLoadData 12000", "cuGraphAddNode 12020", "cuGraphAddNode 12030", "cuFuncGetParamInfo 12040",
          "cuCheckpointProcessLock 12080", "cuEventElapsedTime 12080", "cuCtxGetDevice 13000"}) {
        char name[64];
        int version = 0;
        std::sscanf(row, "%63s %d", name, &version);
        void* found = nullptr;
        const CUresult result = look_up(name, &found, version, 0);
        const CUresult expected = version <= after ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        if (result != expected || (result == CUDA_SUCCESS) != (found != nullptr)) {
            return std::fprintf(stderr, "cuGetProcAddress(%s): %d, expected %d\n", row, result, expected), 1;
        }
    }
    void* newer = nullptr;
    const CUresult hidden = look_up("cuCheckpointProcessLock", &newer, 11080, 0);
    if (hidden != CUDA_ERROR_NOT_FOUND || newer != nullptr)
        return std::fprintf(stderr, "an ABI of 12.8 for 11.8: %d\n", hidden), 1;

    CUcontext context;
    CHECK(function<CUresult(CUcontext*, CUdevice)>(library, "cuDevicePrimaryCtxRetain")(&context, 0));
    CHECK(function<CUresult(CUcontext)>(library, "cuCtxSetCurrent")(context));
    const std::string ptx = compile(arguments[1]);
    std::printf("PTX %s\n", ptx.substr(ptx.find(".version") + 9, 3).c_str());
    CUmodule module;
    CUfunction square;
    CHECK(function<CUresult(CUmodule*, const void*)>(library, "cuModuleLoadData")(&module, ptx.c_str()));
    CHECK(function<CUresult(CUfunction*, CUmodule, const char*)>(library, "cuModuleGetFunction")(&square, module, "square"));
    int n = 1000;
    std::vector<float> in(n), out(n);
    for (int i = 0; i < n; ++i) in[i] = static_cast<float>(i);
    CUdeviceptr from, to;
    auto* allocate = function<CUresult(CUdeviceptr*, size_t)>(library, "cuMemAlloc_v2");
    CHECK(allocate(&from, n * sizeof(float)));
    CHECK(allocate(&to, n * sizeof(float)));
    CHECK(function<CUresult(CUdeviceptr, const void*, size_t)>(library, "cuMemcpyHtoD_v2")(from, in.data(), n * sizeof(float)));
    void* parameters[] = {&from, &to, &n};
    CHECK(function<decltype(cuLaunchKernel)>(library, "cuLaunchKernel")(square, (n + 127) / 128, 1, 1, 128, 1, 1, 0, nullptr,
                                                                        parameters, nullptr));
    CHECK(function<CUresult(void*, CUdeviceptr, size_t)>(library, "cuMemcpyDtoH_v2")(out.data(), to, n * sizeof(float)));
    for (int i = 0; i < n; ++i) {
        if (out[i] != in[i] * in[i]) return std::fprintf(stderr, "element %d is %g\n", i, out[i]), 1;
    }
    std::printf("entry points: verified\n");
    return 0;
}
