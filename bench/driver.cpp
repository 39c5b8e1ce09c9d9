// Finding libcuda.so.1 and making it ready: once, for all cases.
#include "bench/driver.h"

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

Result<void> Driver::start() {
    m_library = dlopen("libcuda.so.1", RTLD_NOW);
    if (m_library == nullptr) return Error{Code::not_configured, "no libcuda.so.1: run this under `warpline run`"};
    CUresult (*init)(unsigned) = nullptr;
    CUresult (*retain)(CUcontext*, CUdevice) = nullptr;
    CUresult (*load)(CUmodule*, const void*) = nullptr;
    CUresult (*get)(CUfunction*, CUmodule, const char*) = nullptr;
    if (!find(init, "cuInit") || !find(retain, "cuDevicePrimaryCtxRetain") || !find(m_set_current, "cuCtxSetCurrent") ||
        !find(load, "cuModuleLoadData") || !find(get, "cuModuleGetFunction") || !find(launch, "cuLaunchKernel") ||
        !find(synchronize, "cuCtxSynchronize") || !find(mem_alloc, "cuMemAlloc_v2") || !find(mem_free, "cuMemFree_v2") ||
        !find(to_device, "cuMemcpyHtoD_v2") || !find(to_host, "cuMemcpyDtoH_v2") || !find(host_alloc, "cuMemAllocHost_v2") ||
        !find(host_free, "cuMemFreeHost") || !find(stream_create, "cuStreamCreate") ||
        !find(stream_synchronize, "cuStreamSynchronize") || !find(to_device_async, "cuMemcpyHtoDAsync_v2"))
        return Error{Code::unsupported, "a function of the driver is missing"};
    CUmodule module;
    if (init(0) != CUDA_SUCCESS || retain(&m_context, 0) != CUDA_SUCCESS || make_current() != CUDA_SUCCESS)
        return Error{Code::not_configured, "cuInit failed: is a server running?"};
    if (load(&module, k_ptx) != CUDA_SUCCESS || get(&kernel, module, "nothing") != CUDA_SUCCESS)
        return Error{Code::internal, "the kernel does not load"};
    return {};
}

}  // namespace warpline::bench
