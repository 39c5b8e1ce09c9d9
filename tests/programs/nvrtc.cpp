// Source compiled in the program by NVRTC, loaded and launched through the driver API. Arguments: nothing: PTX; own: machine
// code of the device's architecture; found: the same by an NVRTC that dlsym() finds, as Python's packages do.
#include <cuda.h>
#include <dlfcn.h>
#include <nvrtc.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#define CHECK(call)                                                                \
    do {                                                                           \
        int r = static_cast<int>(call);                                            \
        if (r != 0) {                                                              \
            std::fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, r); \
            std::exit(1);                                                          \
        }                                                                          \
    } while (0)

static const char k_source[] = R"(
template <typename T> __device__ T twice(T x) { return x + x; }
extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = twice(a) * x[i] + y[i];
}
)";

// What a program gets from NVRTC: PTX, or machine code of the device's own architecture.
static std::string compile(const std::string& architecture, bool by_handle) {
    nvrtcProgram program;
    CHECK(nvrtcCreateProgram(&program, k_source, "saxpy.cu", 0, nullptr, nullptr));
    const std::string option = "--gpu-architecture=" + architecture;
    const char* options[] = {option.c_str()};
    auto compile_program = &nvrtcCompileProgram;
    if (by_handle) {
        Dl_info where{};
        CHECK(dladdr(reinterpret_cast<void*>(&nvrtcCreateProgram), &where) == 0);
        void* library = dlopen(where.dli_fname, RTLD_NOW | RTLD_LOCAL);
        compile_program = reinterpret_cast<decltype(compile_program)>(dlsym(library, "nvrtcCompileProgram"));
        CHECK(compile_program == nullptr);
    }
    CHECK(compile_program(program, 1, options));
    const bool machine_code = architecture[0] == 's';
    size_t size = 0;
    CHECK(machine_code ? nvrtcGetCUBINSize(program, &size) : nvrtcGetPTXSize(program, &size));
    std::string code(size, '\0');
    CHECK(machine_code ? nvrtcGetCUBIN(program, code.data()) : nvrtcGetPTX(program, code.data()));
    CHECK(nvrtcDestroyProgram(&program));
    return code;
}

int main(int count, char** arguments_given) {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 1;
    auto symbol = [&](const char* name) { return dlsym(library, name); };
    CHECK(reinterpret_cast<decltype(&cuInit)>(symbol("cuInit"))(0));
    std::string architecture = "compute_80";
    if (count > 1) {
        int major = 0, minor = 0;
        auto attribute = reinterpret_cast<decltype(&cuDeviceGetAttribute)>(symbol("cuDeviceGetAttribute"));
        CHECK(attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
        CHECK(attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
        architecture = "sm_" + std::to_string(10 * major + minor);
    }
    const std::string code = compile(architecture, count > 1 && std::string(arguments_given[1]) == "found");
    CUcontext context;
    CHECK(reinterpret_cast<decltype(&cuDevicePrimaryCtxRetain)>(symbol("cuDevicePrimaryCtxRetain"))(&context, 0));
    CHECK(reinterpret_cast<decltype(&cuCtxSetCurrent)>(symbol("cuCtxSetCurrent"))(context));
    CUmodule module;
    CUfunction saxpy;
    CHECK(reinterpret_cast<decltype(&cuModuleLoadData)>(symbol("cuModuleLoadData"))(&module, code.c_str()));
    CHECK(reinterpret_cast<decltype(&cuModuleGetFunction)>(symbol("cuModuleGetFunction"))(&saxpy, module, "saxpy"));
    int n = 5000;
    float a = 1.5f;
    std::vector<float> x(n), y(n), result(n);
    for (int i = 0; i < n; ++i) x[i] = static_cast<float>(i), y[i] = static_cast<float>(i % 7);
    CUdeviceptr dx, dy;
    auto allocate = reinterpret_cast<CUresult (*)(CUdeviceptr*, size_t)>(symbol("cuMemAlloc_v2"));
    auto to_device = reinterpret_cast<CUresult (*)(CUdeviceptr, const void*, size_t)>(symbol("cuMemcpyHtoD_v2"));
    CHECK(allocate(&dx, n * sizeof(float)));
    CHECK(allocate(&dy, n * sizeof(float)));
    CHECK(to_device(dx, x.data(), n * sizeof(float)));
    CHECK(to_device(dy, y.data(), n * sizeof(float)));
    void* arguments[] = {&a, &dx, &dy, &n};
    CHECK(reinterpret_cast<decltype(&cuLaunchKernel)>(symbol("cuLaunchKernel"))(saxpy, (n + 127) / 128, 1, 1, 128, 1, 1, 0,
                                                                                nullptr, arguments, nullptr));
    CHECK(reinterpret_cast<CUresult (*)(void*, CUdeviceptr, size_t)>(symbol("cuMemcpyDtoH_v2"))(result.data(), dy,
                                                                                                n * sizeof(float)));
    for (int i = 0; i < n; ++i) {
        if (result[i] != 3.0f * x[i] + y[i])
            return std::fprintf(stderr, "entry %d is %g\n", i, static_cast<double>(result[i])), 1;
    }
    std::printf("NVRTC: verified\n");
    return 0;
}
