// The driver interface as the benchmark's cases call it.
#pragma once

#include <dlfcn.h>

#include "bench/driver_error.h"

namespace warpline::bench {

/// The driver, initialised once, with a context and a kernel of four parameters.
class Driver {
public:
    static Result<Driver*> instance();

    /// What each step of the start has taken, in nanoseconds.
    struct Start {
        uint64_t initialise = 0, context = 0;
    };
    const Start& start_times() const { return m_start; }

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
    // Of the report:
    decltype(&::cuDeviceGetName) device_name = nullptr;
    decltype(&::cuModuleLoadData) load = nullptr;
    decltype(&::cuModuleGetFunction) function = nullptr;
    CUresult (*set_words)(CUdeviceptr, unsigned, size_t) = nullptr;
    CUresult (*alloc_async)(CUdeviceptr*, size_t, CUstream) = nullptr;
    CUresult (*free_async)(CUdeviceptr, CUstream) = nullptr;
    decltype(&::cuEventCreate) event_create = nullptr;
    decltype(&::cuEventRecord) event_record = nullptr;
    decltype(&::cuEventQuery) event_query = nullptr;
    decltype(&::cuEventSynchronize) event_synchronize = nullptr;
    CUresult (*event_elapsed)(float*, CUevent, CUevent) = nullptr;
    CUresult (*event_destroy)(CUevent) = nullptr;
    CUresult (*begin_capture)(CUstream, CUstreamCaptureMode) = nullptr;
    decltype(&::cuStreamEndCapture) end_capture = nullptr;
    CUresult (*instantiate)(CUgraphExec*, CUgraph, unsigned long long) = nullptr;
    CUresult (*graph_launch)(CUgraphExec, CUstream) = nullptr;
    decltype(&::cuGraphExecDestroy) graph_exec_destroy = nullptr;
    decltype(&::cuGraphDestroy) graph_destroy = nullptr;

private:
    template <typename F>
    bool find(F& function, const char* name) {
        function = reinterpret_cast<F>(dlsym(m_library, name));
        return function != nullptr;
    }

    Result<void> find_all();
    Result<void> start();

    void* m_library = nullptr;
    CUcontext m_context = nullptr;
    CUresult (*m_init)(unsigned) = nullptr;
    CUresult (*m_retain)(CUcontext*, CUdevice) = nullptr;
    CUresult (*m_set_current)(CUcontext) = nullptr;
    Start m_start;
    bool m_tried = false;
    Result<void> m_ready;
};

}  // namespace warpline::bench
