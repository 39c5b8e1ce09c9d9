// Contexts, primary contexts, their limits and settings, and access between devices.
#include "softgpu/driver/context/context.h"

#include "softgpu/driver/context/event.h"
#include "softgpu/driver/context/green_context.h"
#include "softgpu/driver/context/stream.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/life/context_end.h"
#include "softgpu/driver/process/process.h"
#include "softgpu/exec/api.h"

namespace warpline::softgpu::driver {

namespace {

/// The bounds of CU_LIMIT_STACK_SIZE, of CUDA: 512 KiB per thread.
constexpr uint64_t k_most_stack_bytes = uint64_t{512} << 10;
/// What cuCtxGetApiVersion answers for contexts of cuCtxCreate_v2 and later.
constexpr uint32_t k_api_version = 3020;

bool valid_flags(unsigned int flags) {
    if ((flags & ~static_cast<unsigned int>(CU_CTX_FLAGS_MASK)) != 0) return false;
    unsigned int scheduling = flags & CU_CTX_SCHED_MASK;
    return scheduling == 0 || (scheduling & (scheduling - 1)) == 0;
}

CUresult create(CUcontext* out, unsigned int flags, CUdevice ordinal) {
    if (out == nullptr || !valid_flags(flags)) return CUDA_ERROR_INVALID_VALUE;
    Device* device = nullptr;
    CU_TRY(find_device(ordinal, device));
    auto context = std::make_shared<Context>(*device, false, flags);
    context->set_handle(as_handle<CUcontext>(process().contexts.add(context)));
    if (CUresult result = context->activate(); result != CUDA_SUCCESS) {
        process().contexts.remove(context->handle());
        return result;
    }
    *out = context->handle();
    thread_state().contexts.push_back({std::move(context), nullptr});
    return CUDA_SUCCESS;
}

/// The context that a call works with. A handle that names none is taken for one of a destroyed context.
CUresult find_living_context(CUcontext handle, NamedContext& named) {
    if (handle == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    const bool found = find_named_context(handle, named) == CUDA_SUCCESS;
    return found && named.context->active() ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/// The same, nullptr meaning the current one.
CUresult find_context(CUcontext handle, NamedContext& named) {
    if (handle != nullptr) return find_living_context(handle, named);
    Context* current = nullptr;
    CU_TRY(current_context_even_failed(current));
    named = thread_state().contexts.back();
    return CUDA_SUCCESS;
}

CUresult synchronise(CUcontext handle) {
    NamedContext named;
    CU_TRY(find_context(handle, named));
    CU_TRY(check_unsafe_call());
    if (process().config().profile.synchronise_breaks_captures) CU_TRY(check_device_wait(named.context->device()));  // DB-04
    return named.green != nullptr ? named.green->synchronise() : named.context->synchronise();
}

CUresult check_not_capturing(const NamedContext& named) {
    return named.green != nullptr ? check_green_not_capturing(*named.green) : check_context_not_capturing(*named.context);
}

CUresult destroy(CUcontext handle) {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto context = process().contexts.find(handle);
    if (context == nullptr && process().contexts.is_of_other_kind(reinterpret_cast<uint64_t>(handle)))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (context == nullptr || context->primary()) return CUDA_ERROR_INVALID_CONTEXT;
    end_context(*context);
    process().contexts.remove(handle);
    auto& stack = thread_state().contexts;
    if (!stack.empty() && stack.back().context == context) stack.pop_back();
    return CUDA_SUCCESS;
}

CUresult set_limit(Context& context, CUlimit limit, size_t value) {
    exec::Engine& engine = context.device().engine();
    exec::Limits limits = engine.limits();
    switch (limit) {
        case CU_LIMIT_STACK_SIZE:
            if (value > k_most_stack_bytes) return CUDA_ERROR_INVALID_VALUE;
            limits.stack_bytes = value;
            break;
        case CU_LIMIT_PRINTF_FIFO_SIZE:
            if (context.printf_ran.load()) return CUDA_ERROR_INVALID_VALUE;
            limits.printf_fifo_bytes = value;
            break;
        case CU_LIMIT_MALLOC_HEAP_SIZE: limits.heap_bytes = value; break;
        case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
            if (value > 128) return CUDA_ERROR_INVALID_VALUE;
            context.l2_fetch_granularity = value;
            return CUDA_SUCCESS;
        // Hints, which are remembered: there is no cache to divide, and nothing limits what kernels have launched.
        case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
            context.persisting_l2 = std::min<uint64_t>(value, Device::k_persisting_l2_bytes);
            return CUDA_SUCCESS;
        case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT: context.pending_launches = value; return CUDA_SUCCESS;
        case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH:
        case CU_LIMIT_SHMEM_SIZE:
        case CU_LIMIT_CIG_ENABLED:
        case CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED: return CUDA_ERROR_UNSUPPORTED_LIMIT;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    engine.set_limits(limits);
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) {
    if (pctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Device* device = nullptr;
    CU_TRY(find_device(dev, device));
    CU_TRY(retain_primary(*device));
    *pctx = device->primary->handle();
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
    Device* device = nullptr;
    CU_TRY(find_device(dev, device));
    return release_primary(*device);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev) {
    Device* device = nullptr;
    CU_TRY(find_device(dev, device));
    end_context(*device->primary);
    MutexLock lock(process().primary_mutex);
    device->primary->retain_count = 0;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
    if (!valid_flags(flags)) return CUDA_ERROR_INVALID_VALUE;
    Device* device = nullptr;
    CU_TRY(find_device(dev, device));
    device->primary->flags = flags;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int* flags, int* active) {
    if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Device* device = nullptr;
    CU_TRY(find_device(dev, device));
    *flags = device->primary->flags;
    *active = device->primary->active() ? 1 : 0;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext* pctx, unsigned int flags, CUdevice dev) { return create(pctx, flags, dev); }

CUresult cuCtxCreate_v3(CUcontext* pctx, CUexecAffinityParam* paramsArray, int numParams, unsigned int flags, CUdevice dev) {
    if (pctx == nullptr || numParams < 0 || (numParams != 0 && paramsArray == nullptr)) return CUDA_ERROR_INVALID_VALUE;
    Device* device = nullptr;
    CU_TRY(find_device(dev, device));
    if (numParams != 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return create(pctx, flags, dev);
}

CUresult cuCtxCreate_v4(CUcontext* pctx, CUctxCreateParams* ctxCreateParams, unsigned int flags, CUdevice dev) {
    Device* device = nullptr;
    CU_TRY(find_device(dev, device));
    if (ctxCreateParams != nullptr && ctxCreateParams->numExecAffinityParams != 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    if (ctxCreateParams != nullptr && ctxCreateParams->cigParams != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    return create(pctx, flags, dev);
}

CUresult cuCtxDestroy_v2(CUcontext ctx) { return destroy(ctx); }

CUresult cuCtxAttach(CUcontext* pctx, unsigned int flags) {
    if (pctx == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    ++context->attach_count;
    *pctx = thread_state().contexts.back().handle();
    return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext ctx) {
    NamedContext named;
    const auto& stack = thread_state().contexts;
    if (stack.empty() || find_living_context(ctx, named) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_CONTEXT;
    if (named.context != stack.back().context || named.context->primary()) return CUDA_ERROR_INVALID_CONTEXT;
    return --named.context->attach_count != 0 ? CUDA_SUCCESS : destroy(ctx);
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx) {
    if (ctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
    NamedContext named;
    CU_TRY(find_named_context(ctx, named));
    thread_state().contexts.push_back(std::move(named));
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext* pctx) {
    auto& stack = thread_state().contexts;
    if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (pctx != nullptr) *pctx = stack.back().handle();
    stack.pop_back();
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext ctx) {
    auto& stack = thread_state().contexts;
    if (ctx == nullptr) {
        if (!stack.empty()) stack.pop_back();
        return CUDA_SUCCESS;
    }
    NamedContext named;
    CU_TRY(find_named_context(ctx, named));
    if (!stack.empty()) stack.pop_back();
    stack.push_back(std::move(named));
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* pctx) {
    if (pctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto& stack = thread_state().contexts;
    *pctx = stack.empty() ? nullptr : stack.back().handle();
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto& stack = thread_state().contexts;
    if (stack.empty() || !stack.back()) return CUDA_ERROR_INVALID_CONTEXT;
    *device = stack.back().context->device().ordinal();
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext ctx) {
    if (ctx == nullptr) return driver::cuCtxGetDevice(device);
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    NamedContext named;
    CU_TRY(find_named_context(ctx, named));
    *device = named.context->device().ordinal();
    return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int* flags) {
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context_even_failed(context));
    *flags = context->flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags) {
    if (!valid_flags(flags)) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    context->flags = flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long* ctxId) {
    if (ctxId == nullptr) return CUDA_ERROR_INVALID_VALUE;
    NamedContext named;
    CU_TRY(find_context(ctx, named));
    *ctxId = named.id();
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() { return synchronise(nullptr); }
CUresult cuCtxSynchronize_v2(CUcontext ctx) { return synchronise(ctx); }

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    Context* context = nullptr;
    CU_TRY(current_context(context));
    return set_limit(*context, limit, value);
}

CUresult cuCtxGetLimit(size_t* pvalue, CUlimit limit) {
    if (pvalue == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    exec::Limits limits = context->device().engine().limits();
    switch (limit) {
        case CU_LIMIT_STACK_SIZE: *pvalue = limits.stack_bytes; return CUDA_SUCCESS;
        case CU_LIMIT_PRINTF_FIFO_SIZE: *pvalue = limits.printf_fifo_bytes; return CUDA_SUCCESS;
        case CU_LIMIT_MALLOC_HEAP_SIZE: *pvalue = limits.heap_bytes; return CUDA_SUCCESS;
        case CU_LIMIT_MAX_L2_FETCH_GRANULARITY: *pvalue = context->l2_fetch_granularity; return CUDA_SUCCESS;
        case CU_LIMIT_PERSISTING_L2_CACHE_SIZE: *pvalue = context->persisting_l2; return CUDA_SUCCESS;
        case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT: *pvalue = context->pending_launches; return CUDA_SUCCESS;
        case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH:
        case CU_LIMIT_SHMEM_SIZE: return CUDA_ERROR_UNSUPPORTED_LIMIT;
        case CU_LIMIT_CIG_ENABLED:
        case CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED: *pvalue = 0; return CUDA_SUCCESS;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* pconfig) {
    if (pconfig == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    *pconfig = static_cast<CUfunc_cache>(context->cache_config.load());
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
    if (config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    context->cache_config = config;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig* pConfig) {
    if (pConfig == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    *pConfig = static_cast<CUsharedconfig>(context->shared_config.load());
    return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
    if (config < CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE || config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    Context* context = nullptr;
    CU_TRY(current_context(context));
    // Banks are of four bytes on every device since compute capability 5.0; the call has no effect there.
    return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int* version) {
    if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto& stack = thread_state().contexts;
    NamedContext named;
    if (ctx != nullptr) CU_TRY(find_named_context(ctx, named));
    if (ctx == nullptr && !stack.empty()) named = stack.back();
    if (!named) return CUDA_ERROR_INVALID_CONTEXT;
    *version = k_api_version;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
    Context* context = nullptr;
    CU_TRY(current_context_even_failed(context));
    if (leastPriority != nullptr) *leastPriority = k_least_priority;
    if (greatestPriority != nullptr) *greatestPriority = k_greatest_priority;
    return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache() {
    Context* context = nullptr;
    return current_context(context);
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam* pExecAffinity, CUexecAffinityType type) {
    if (pExecAffinity == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    // Every context may use all multiprocessors, those of MPS with an affinity apart.
    *pExecAffinity = {};
    pExecAffinity->type = type;
    if (type != CU_EXEC_AFFINITY_TYPE_SM_COUNT) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    pExecAffinity->param.smCount.val =
        static_cast<unsigned int>(context->device().attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
    return CUDA_SUCCESS;
}

CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent) {
    NamedContext named;
    CU_TRY(find_living_context(hCtx, named));
    EventPtr event;
    CU_TRY(find_event(hEvent, event));
    CU_TRY(check_not_capturing(named));
    if (event->context().get() != named.context.get()) return CUDA_ERROR_INVALID_HANDLE;  // DB-46
    auto before = named.green != nullptr ? work_of(*named.green) : Scheduler::instance().pending(*named.context->group());
    event->record([&](std::function<void()> end) {
        return Scheduler::instance().submit_record(*named.context->group(), std::move(end), before, k_greatest_priority);
    });
    return CUDA_SUCCESS;
}

CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent) {
    NamedContext named;
    CU_TRY(find_living_context(hCtx, named));
    EventPtr event;
    CU_TRY(find_event(hEvent, event));
    CU_TRY(check_not_capturing(named));
    CU_TRY(check_event_not_captured(*event));
    FencePtr fence = event->fence();
    if (fence == nullptr) return CUDA_SUCCESS;
    if (named.green != nullptr) {
        named.green->hold_until(fence);
    } else {
        named.context->hold_until(fence);
    }
    return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
    if (Flags != 0) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    NamedContext peer;
    CU_TRY(find_living_context(peerContext, peer));
    if (&peer.context->device() == &context->device()) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    if (!process().config().profile.peers) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;  // DB-21
    return context->enable_peer(*peer.context);
}

CUresult cuCtxDisablePeerAccess(CUcontext peerContext) {
    Context* context = nullptr;
    CU_TRY(current_context(context));
    NamedContext peer;
    CU_TRY(find_living_context(peerContext, peer));
    return context->disable_peer(*peer.context);
}

}  // namespace warpline::softgpu::driver
