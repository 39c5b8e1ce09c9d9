#include "bench/softgpu_driver.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench/driver_error.h"

namespace warpline::bench {

namespace {

double seconds_of(clockid_t clock) {
    timespec at{};
    clock_gettime(clock, &at);
    return static_cast<double>(at.tv_sec) + static_cast<double>(at.tv_nsec) * 1e-9;
}

/// lib/libsoftgpu.so beside the bin/ that this program is in.
std::string library_path() {
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    std::string self(path, n > 0 ? static_cast<size_t>(n) : 0);
    std::string bin = self.substr(0, self.rfind('/'));
    return bin.substr(0, bin.rfind('/')) + "/lib/libsoftgpu.so";
}

/// What a child sends through its pipe. The text of an error is a literal of this program: it is at the same address in the
/// parent.
struct Answer {
    bool good = false;
    Error error;
    size_t count = 0;
    double values[16] = {};
};

}  // namespace

double thread_cpu_seconds() { return seconds_of(CLOCK_THREAD_CPUTIME_ID); }
double process_cpu_seconds() { return seconds_of(CLOCK_PROCESS_CPUTIME_ID); }

template <typename F>
bool SoftGpu::find(F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(m_library, name));
    return function != nullptr;
}

Result<void> SoftGpu::start() {
    m_library = dlopen(library_path().c_str(), RTLD_NOW);
    if (m_library == nullptr) return Error{Code::not_configured, "lib/libsoftgpu.so is not there: build the target products"};
    CUresult (*init)(unsigned) = nullptr;
    CUresult (*retain)(CUcontext*, CUdevice) = nullptr;
    CUresult (*set_current)(CUcontext) = nullptr;
    if (!find(init, "cuInit") || !find(retain, "cuDevicePrimaryCtxRetain") || !find(set_current, "cuCtxSetCurrent") ||
        !find(m_load, "cuModuleLoadData") || !find(m_get, "cuModuleGetFunction") || !find(launch, "cuLaunchKernel") ||
        !find(synchronize, "cuCtxSynchronize") || !find(m_alloc, "cuMemAlloc_v2") || !find(to_device, "cuMemcpyHtoD_v2") ||
        !find(to_host, "cuMemcpyDtoH_v2"))
        return Error{Code::unsupported, "a function of the driver is missing"};
    CUcontext context = nullptr;
    if (init(0) != CUDA_SUCCESS || retain(&context, 0) != CUDA_SUCCESS || set_current(context) != CUDA_SUCCESS)
        return Error{Code::internal, "the software GPU does not start"};
    return {};
}

Result<CUfunction> SoftGpu::load(const char* ptx, const char* kernel) {
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    if (CUresult r = m_load(&module, ptx); r != CUDA_SUCCESS) return refused("cuModuleLoadData", r);
    if (CUresult r = m_get(&function, module, kernel); r != CUDA_SUCCESS) return refused("cuModuleGetFunction", r);
    return function;
}

Result<CUdeviceptr> SoftGpu::allocate(size_t bytes) {
    CUdeviceptr memory = 0;
    if (CUresult r = m_alloc(&memory, bytes); r != CUDA_SUCCESS) return refused("cuMemAlloc", r);
    return memory;
}

Result<CUdeviceptr> SoftGpu::upload(const void* from, size_t bytes) {
    CUdeviceptr memory = WL_TRY(allocate(bytes));
    if (CUresult r = to_device(memory, from, bytes); r != CUDA_SUCCESS) return refused("cuMemcpyHtoD", r);
    return memory;
}

Result<SoftGpu::Times> SoftGpu::run(CUfunction kernel, const uint32_t (&grid)[2], const uint32_t (&block)[2],
                                    void** arguments) const {
    double cpu = process_cpu_seconds();
    uint64_t began = now_ns();
    CUresult r = launch(kernel, grid[0], grid[1], 1, block[0], block[1], 1, 0, nullptr, arguments, nullptr);
    if (r == CUDA_SUCCESS) r = synchronize();
    if (r != CUDA_SUCCESS) return refused("cuLaunchKernel", r);
    return Times{static_cast<double>(now_ns() - began) * 1e-9, process_cpu_seconds() - cpu};
}

Result<std::vector<double>> with_softgpu(unsigned workers,
                                         const std::function<Result<std::vector<double>>(SoftGpu&)>& measure) {
    int ends[2];
    if (pipe(ends) != 0) return Error{Code::io, "pipe"};
    std::fflush(nullptr);
    pid_t child = fork();
    if (child == 0) {
        setenv("SOFTGPU_WORKERS", std::to_string(workers).c_str(), 1);
        unsetenv("SOFTGPU_EXECUTE");
        Answer answer;
        SoftGpu gpu;
        Result<void> started = gpu.start();
        Result<std::vector<double>> values = started.ok() ? measure(gpu) : Result<std::vector<double>>(started.error());
        answer.good = values.ok();
        if (!values.ok()) answer.error = values.error();
        for (size_t i = 0; values.ok() && i < values->size() && i < std::size(answer.values); ++i) {
            answer.values[answer.count++] = (*values)[i];
        }
        _exit(write(ends[1], &answer, sizeof(answer)) == sizeof(answer) ? 0 : 1);
    }
    close(ends[1]);
    Answer answer;
    bool whole = child > 0 && read(ends[0], &answer, sizeof(answer)) == sizeof(answer);
    close(ends[0]);
    if (child > 0) waitpid(child, nullptr, 0);
    if (!whole) return Error{Code::internal, "the process with the software GPU ended early"};
    if (!answer.good) return answer.error;
    return std::vector<double>(answer.values, answer.values + answer.count);
}

}  // namespace warpline::bench
