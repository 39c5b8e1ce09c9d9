// Finding libcuda.so.1 and making it ready: once, for all cases.
#include "bench/driver.h"

#include "bench/case.h"

namespace warpline::bench {

namespace {

constexpr const char* k_ptx = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .entry nothing(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
    ret;
}
)";

}  // namespace

Result<Driver*> Driver::instance() {
    static Driver driver;
    if (!driver.m_tried) {
        driver.m_tried = true;
        driver.m_ready = driver.start();
    }
    if (!driver.m_ready.ok()) return driver.m_ready.error();
    return &driver;
}

Result<void> Driver::find_all() {
    m_library = dlopen("libcuda.so.1", RTLD_NOW);
    if (m_library == nullptr) return Error{Code::not_configured, "no libcuda.so.1: run this under `warpline run`"};
    const bool all =
        find(m_init, "cuInit") && find(m_retain, "cuDevicePrimaryCtxRetain") && find(m_set_current, "cuCtxSetCurrent") &&
        find(load, "cuModuleLoadData") && find(function, "cuModuleGetFunction") && find(launch, "cuLaunchKernel") &&
        find(synchronize, "cuCtxSynchronize") && find(mem_alloc, "cuMemAlloc_v2") && find(mem_free, "cuMemFree_v2") &&
        find(to_device, "cuMemcpyHtoD_v2") && find(to_host, "cuMemcpyDtoH_v2") && find(host_alloc, "cuMemAllocHost_v2") &&
        find(host_free, "cuMemFreeHost") && find(stream_create, "cuStreamCreate") &&
        find(stream_synchronize, "cuStreamSynchronize") && find(to_device_async, "cuMemcpyHtoDAsync_v2") &&
        find(device_name, "cuDeviceGetName") && find(set_words, "cuMemsetD32_v2") && find(alloc_async, "cuMemAllocAsync") &&
        find(free_async, "cuMemFreeAsync") && find(event_create, "cuEventCreate") && find(event_record, "cuEventRecord") &&
        find(event_query, "cuEventQuery") && find(event_synchronize, "cuEventSynchronize") &&
        find(event_elapsed, "cuEventElapsedTime") && find(event_destroy, "cuEventDestroy_v2") &&
        find(begin_capture, "cuStreamBeginCapture_v2") && find(end_capture, "cuStreamEndCapture") &&
        find(instantiate, "cuGraphInstantiateWithFlags") && find(graph_launch, "cuGraphLaunch") &&
        find(graph_exec_destroy, "cuGraphExecDestroy") && find(graph_destroy, "cuGraphDestroy");
    if (!all) return Error{Code::unsupported, "a function of the driver is missing"};
    return {};
}

Result<void> Driver::start() {
    WL_TRY(find_all());
    const uint64_t began = now_ns();
    if (m_init(0) != CUDA_SUCCESS) return Error{Code::not_configured, "cuInit failed: is a server running?"};
    const uint64_t initialised = now_ns();
    if (m_retain(&m_context, 0) != CUDA_SUCCESS || make_current() != CUDA_SUCCESS)
        return Error{Code::not_configured, "no context on the first device"};
    m_start = {initialised - began, now_ns() - initialised};
    CUmodule module;
    if (load(&module, k_ptx) != CUDA_SUCCESS || function(&kernel, module, "nothing") != CUDA_SUCCESS)
        return Error{Code::internal, "the kernel does not load"};
    return {};
}

}  // namespace warpline::bench
