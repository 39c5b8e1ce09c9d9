#pragma once

#include <functional>
#include <vector>

#include "bench/case.h"
#include "cuda/abi/cuda_types.h"

namespace warpline::bench {

/// The software GPU in this process, through its driver interface, as a program under `warpline run --direct` has it.
class SoftGpu {
public:
    /// Loads libsoftgpu.so of this build and makes a context current.
    Result<void> start();

    Result<CUfunction> load(const char* ptx, const char* kernel);
    Result<CUdeviceptr> allocate(size_t bytes);
    Result<CUdeviceptr> upload(const void* from, size_t bytes);
    /// Launches and waits; the seconds that it took: of the clock, and of all threads of this process.
    struct Times {
        double elapsed, cpu;
    };
    Result<Times> run(CUfunction kernel, const uint32_t (&grid)[2], const uint32_t (&block)[2], void** arguments) const;

    decltype(&::cuLaunchKernel) launch = nullptr;
    CUresult (*synchronize)() = nullptr;
    CUresult (*to_device)(CUdeviceptr, const void*, size_t) = nullptr;
    CUresult (*to_host)(void*, CUdeviceptr, size_t) = nullptr;

private:
    template <typename F>
    bool find(F& function, const char* name);

    void* m_library = nullptr;
    CUresult (*m_alloc)(CUdeviceptr*, size_t) = nullptr;
    CUresult (*m_load)(CUmodule*, const void*) = nullptr;
    CUresult (*m_get)(CUfunction*, CUmodule, const char*) = nullptr;
};

/// Runs `measure` in a child process with a software GPU of so many worker threads (0: one per core), and passes on what it
/// yields. A process of its own each time: the library reads its configuration once.
Result<std::vector<double>> with_softgpu(unsigned workers, const std::function<Result<std::vector<double>>(SoftGpu&)>& measure);

/// PTX of kernels/softgpu.cu; null if there was no nvcc to make it with.
const char* softgpu_ptx();

/// Seconds of CPU time: of the calling thread, of the process. On a machine that others use as well these say more than the
/// clock.
double thread_cpu_seconds();
double process_cpu_seconds();

}  // namespace warpline::bench
