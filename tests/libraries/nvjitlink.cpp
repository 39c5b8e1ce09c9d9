// NVRTC and nvJitLink: two units that are compiled and linked while the program runs, and what they compute.
#include <cuda.h>
#include <nvJitLink.h>
#include <nvrtc.h>

#include <string>

#include "library.h"

#define COMPILE(call) check(call, NVRTC_SUCCESS, #call, __LINE__)
#define LINK(call) check(call, NVJITLINK_SUCCESS, #call, __LINE__)
#define DRIVER(call) check(call, CUDA_SUCCESS, #call, __LINE__)

static std::string ptx_of(const char* source, const std::string& architecture) {
    nvrtcProgram program;
    const std::string option = "--gpu-architecture=compute_" + architecture;
    const char* options[] = {option.c_str(), "--relocatable-device-code=true"};
    COMPILE(nvrtcCreateProgram(&program, source, "unit.cu", 0, nullptr, nullptr));
    COMPILE(nvrtcCompileProgram(program, 2, options));
    size_t bytes = 0;
    COMPILE(nvrtcGetPTXSize(program, &bytes));
    std::string ptx(bytes, '\0');
    COMPILE(nvrtcGetPTX(program, &ptx[0]));
    COMPILE(nvrtcDestroyProgram(&program));
    return ptx;
}

int main() {
    CUDA(cudaFree(nullptr));
    cudaDeviceProp device;
    CUDA(cudaGetDeviceProperties(&device, 0));
    const std::string architecture = std::to_string(device.major * 10 + device.minor);
    const std::string half = ptx_of("__device__ int twice(int x) { return 2 * x; }", architecture);
    const std::string whole = ptx_of(
        "__device__ int twice(int); extern \"C\" __global__ void run(int* p) { p[threadIdx.x] = "
        "twice(p[threadIdx.x]) + 1; }",
        architecture);
    const std::string machine = "-arch=sm_" + architecture;
    const char* machine_options[] = {machine.c_str(), "-lineinfo"};
    nvJitLinkHandle linker;
    LINK(nvJitLinkCreate(&linker, 2, machine_options));
    LINK(nvJitLinkAddData(linker, NVJITLINK_INPUT_PTX, half.data(), half.size(), "half"));
    LINK(nvJitLinkAddData(linker, NVJITLINK_INPUT_PTX, whole.data(), whole.size(), "whole"));
    LINK(nvJitLinkComplete(linker));
    size_t bytes = 0;
    LINK(nvJitLinkGetLinkedCubinSize(linker, &bytes));
    std::vector<char> cubin(bytes);
    LINK(nvJitLinkGetLinkedCubin(linker, cubin.data()));
    LINK(nvJitLinkDestroy(&linker));
    CUmodule module;
    CUfunction run;
    DRIVER(cuModuleLoadData(&module, cubin.data()));
    DRIVER(cuModuleGetFunction(&run, module, "run"));
    int* data = filled(32, 20);
    void* args[] = {&data};
    DRIVER(cuLaunchKernel(run, 1, 1, 1, 32, 1, 1, 0, nullptr, args, nullptr));
    int seen[32];
    CUDA(cudaMemcpy(seen, data, sizeof seen, cudaMemcpyDeviceToHost));
    for (int value : seen) check(value, 41, "twice 20 and one", __LINE__);
    DRIVER(cuModuleUnload(module));
    return done("nvjitlink");
}
