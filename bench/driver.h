// The driver interface as the benchmark's cases call it.
#pragma once

#include <dlfcn.h>

#include "bench/driver_error.h"

namespace warpline::bench {

/// The driver, initialised once, with a context and a kernel of four parameters.
class Driver {
public:
    static Result<Driver*> instance();

    /// Makes the context the calling thread's.
    CUresult make_current() { return m_set_current(m_context); }

    decltype(&::cuLaunchKernel) launch = nullptr;
    CUresult (*synchronize)() = nullptr;
    CUresult (*mem_alloc)(CUdeviceptr*, size_t) = nullptr;
    CUresult (*mem_free)(CUdeviceptr) = nullptr;
    CUresult (*to_device)(CUdeviceptr, const void*, size_t) = nullptr;
    CUresult (*to_host)(void*, CUdeviceptr, size_t) = nullptr;
    CUresult (*host_alloc)(void**, size_t) = nullptr;
    CUresult (*host_free)(void*) = nullptr;
    CUresult (*stream_create)(CUstream*, unsigned) = nullptr;
    CUresult (*stream_synchronize)(CUstream) = nullptr;
    CUresult (*to_device_async)(CUdeviceptr, const void*, size_t, CUstream) = nullptr;
    CUfunction kernel = nullptr;

private:
    template <typename F>
    bool find(F& function, const char* name) {
        function = reinterpret_cast<F>(dlsym(m_library, name));
        return function != nullptr;
    }

    Result<void> start();

    void* m_library = nullptr;
    CUcontext m_context = nullptr;
    CUresult (*m_set_current)(CUcontext) = nullptr;
    bool m_tried = false;
    Result<void> m_ready;
};

}  // namespace warpline::bench
