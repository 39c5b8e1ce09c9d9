// Contexts. Which one is current is known here alone: each call that travels names it.
#include <algorithm>

#include "client/call/allocate.h"
#include "client/call/completion.h"
#include "client/call/managed.h"
#include "client/call/mapped.h"
#include "client/call/pages_along.h"
#include "client/call/pooled.h"
#include "client/call/share.h"
#include "client/gen/context_calls.gen.h"
#include "client/gen/green_calls.gen.h"
#include "client/graph/capture.h"
#include "common/base/function_ref.h"
#include "cuda/abi/export_tables.h"

namespace warpline::client {

namespace {

/// Of every context, whichever form of cuCtxCreate has made it.
constexpr unsigned k_api_version = 3020;

/// Forgets everything that a context owned, after the server was told that it ends: tokens of streams, events and modules,
/// memory.
template <typename Table>
void remove_of_context(Table& table, uint64_t context) {
    std::vector<uint64_t> tokens;
    table.for_each([&](uint64_t token, auto& object) {
        if (object.context == context) tokens.push_back(token);
    });
    for (uint64_t token : tokens) table.remove(token);
}

/// What green contexts of a primary context were converted to.
void remove_converted(State& state, uint64_t context) {
    std::vector<uint64_t> tokens;
    state.contexts.for_each([&](uint64_t token, const Context& object) {
        if (object.base == context) tokens.push_back(token);
    });
    for (uint64_t token : tokens) {
        cuda::abi::context_storage_clear(to_handle<CUcontext>(token));
        state.contexts.remove(token);
    }
}

void forget_objects(Call& call, uint64_t context) {
    State& state = call.state;
    state.resources.forget();
    forget_captures_of_context(call, context);
    release_host_memory_of_context(call, context);
    remove_of_context(state.streams, context);
    remove_of_context(state.green_contexts, context);
    remove_converted(state, context);
    remove_of_context(state.events, context);
    remove_of_context(state.functions, context);
    remove_of_context(state.modules, context);
    remove_of_context(state.arrays, context);
    remove_of_context(state.mipmapped_arrays, context);
    for (const DeviceRange& range : state.pool_heap.context_settled(context, UINT64_MAX)) release_pooled(call, range);
    release_kept_of_context(call, context);
    for (const DeviceRange& range : state.memory.forget_context(context)) {
        if (range.kind == MemoryKind::device) {
            note_freed(call, range);
            release_pooled(call, range);
        }
        if (range.kind == MemoryKind::managed) release_managed(call, range);
        if (range.kind != MemoryKind::imported) continue;
        if (const auto opened = call.state.shares.forget(range.base)) close_memory(call, *opened);
    }
    release_postponed_of_context(call, context);
    // A library has its variables once in each context.
    state.libraries.for_each([&](uint64_t, Library& library) {
        MutexLock lock(library.code->mutex);
        library.code->variables.clear();
    });
}

Context* primary_context(const Call& call, CUdevice device) {
    const Device* found = find_device(device);
    return found ? call.state.contexts.find(found->primary_context) : nullptr;
}

/// The end of a primary context: at the last release, or by a reset.
void end_primary(Call& call, Context& context) {
    cuda::abi::context_storage_clear(to_handle<CUcontext>(context.token));
    forget_objects(call, context.token);
    call.session.forget_deferred(call.context);
    context.ended.store(true);
    context.flags.store(0);
    ++context.settings;
    MutexLock lock(context.mutex);
    context.limits.fill(std::nullopt);
    context.peers = 0;
}

/// @errors  invalid value (also two ways of waiting at once), not supported
CUresult check_flags(const char* function, unsigned flags) {
    const unsigned scheduling = flags & CU_CTX_SCHED_MASK;
    if ((flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) != 0 || (scheduling & (scheduling - 1)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if ((flags & (CU_CTX_COREDUMP_ENABLE | CU_CTX_USER_COREDUMP_ENABLE)) == 0) return CUDA_SUCCESS;
    static std::atomic<bool> told{false};
    return static_cast<CUresult>(refuse(function, "core dumps of the GPU are files on the server", told));
}

void note_context_used(State& state) {
    if (state.contexts_used.fetch_add(1) != 0) state.works_beside_default.store(true);
}

void set_flags(const Call& call, Context& context, unsigned flags) {
    context.flags.store(flags);
    if ((flags & CU_CTX_SYNC_MEMOPS) != 0) call.state.any_sync_memops.store(true, std::memory_order_release);
}

CUresult create_context(Call& call, CUcontext* pctx, unsigned flags, CUdevice dev) {
    if (!find_device(dev)) return CUDA_ERROR_INVALID_DEVICE;
    if (CUresult refused = check_flags("cuCtxCreate", flags); refused != CUDA_SUCCESS) return refused;
    auto made = call.state.contexts.make();
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    made.object->token = made.token;
    made.object->id = call.state.next_id();
    made.object->device = dev;
    set_flags(call, *made.object, flags);
    made.object->retained.store(1);
    note_context_used(call.state);
    CUresult result = gen::issue_cuCtxCreate_v2(call, made.token, flags, dev);
    if (result != CUDA_SUCCESS) {
        call.state.contexts.remove(made.token);
        return result;
    }
    call.thread.contexts.push_back({made.token, 0});
    *pctx = to_handle<CUcontext>(made.token);
    return CUDA_SUCCESS;
}

/// What cuCtxDestroy answers to a handle that names no context: one that has been destroyed, or an object of another kind.
CUresult unknown_context(uint64_t token) {
    return cuda::abi::token_is(HandleKind::context, token) ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/// Sets up the current context differently. What fits on a multiprocessor is asked for again afterwards, also if it was asked
/// for while this was on its way.
CUresult set_up(Call& call, FunctionRef<CUresult()> issue) {
    Context& context = *call.current();
    ++context.settings;
    const CUresult result = issue();
    ++context.settings;
    return result;
}

}  // namespace

CUresult hook_client_cuDevicePrimaryCtxRetain(Call& call, CUcontext* pctx, CUdevice dev) {
    Context* context = primary_context(call, dev);
    if (!context) return CUDA_ERROR_INVALID_DEVICE;
    context->ended.store(false);
    // The server's worker holds the primary contexts of its devices: retaining one is a matter of counting.
    if (context->retained.fetch_add(1, std::memory_order_acq_rel) == 0) note_context_used(call.state);
    *pctx = to_handle<CUcontext>(context->token);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuDevicePrimaryCtxRelease_v2(Call& call, CUdevice dev) {
    Context* context = primary_context(call, dev);
    if (!context) return CUDA_ERROR_INVALID_DEVICE;
    unsigned count = context->retained.load();
    do {
        if (count == 0) return CUDA_ERROR_INVALID_CONTEXT;
    } while (!context->retained.compare_exchange_weak(count, count - 1));
    if (count > 1) return CUDA_SUCCESS;
    call.context = context->token;
    end_primary(call, *context);
    return gen::issue_cuDevicePrimaryCtxRelease_v2(call, dev);
}

CUresult hook_client_cuDevicePrimaryCtxReset_v2(Call& call, CUdevice dev) {
    Context* context = primary_context(call, dev);
    if (!context) return CUDA_ERROR_INVALID_DEVICE;
    if (!context->active()) return CUDA_SUCCESS;
    call.context = context->token;
    end_primary(call, *context);
    context->retained.store(0);
    // Waits, so that a program which measures or times the reset sees it done, and errors from before it cannot arrive after
    // it.
    CUresult result = gen::request_cuDevicePrimaryCtxReset_v2(call, dev);
    call.session.forget_deferred(call.context);
    return result;
}

CUresult hook_client_cuDevicePrimaryCtxSetFlags_v2(Call& call, CUdevice dev, unsigned int flags) {
    Context* context = primary_context(call, dev);
    if (!context) return CUDA_ERROR_INVALID_DEVICE;
    if (CUresult refused = check_flags("cuDevicePrimaryCtxSetFlags", flags); refused != CUDA_SUCCESS) return refused;
    set_flags(call, *context, flags);
    return gen::issue_cuDevicePrimaryCtxSetFlags_v2(call, dev, flags);
}

CUresult hook_client_cuDevicePrimaryCtxGetState(Call& call, CUdevice dev, unsigned int* flags, int* active) {
    const Context* context = primary_context(call, dev);
    if (!context) return CUDA_ERROR_INVALID_DEVICE;
    *flags = context->flags.load();
    *active = context->active();
    return CUDA_SUCCESS;
}

CUresult hook_client_cuCtxCreate_v2(Call& call, CUcontext* pctx, unsigned int flags, CUdevice dev) {
    return create_context(call, pctx, flags, dev);
}

CUresult hook_client_cuCtxCreate_v3(Call& call, CUcontext* pctx, CUexecAffinityParam* paramsArray, int numParams,
                                    unsigned int flags, CUdevice dev) {
    if (!find_device(dev)) return CUDA_ERROR_INVALID_DEVICE;
    if (numParams < 0 || (numParams != 0 && !paramsArray)) return CUDA_ERROR_INVALID_VALUE;
    // It needs an MPS server on the program's machine.
    if (numParams != 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return create_context(call, pctx, flags, dev);
}

CUresult hook_client_cuCtxCreate_v4(Call& call, CUcontext* pctx, CUctxCreateParams* ctxCreateParams, unsigned int flags,
                                    CUdevice dev) {
    if (!find_device(dev)) return CUDA_ERROR_INVALID_DEVICE;
    if (ctxCreateParams && (ctxCreateParams->numExecAffinityParams != 0 || ctxCreateParams->cigParams)) {
        return WL_REFUSE_CALL("cuCtxCreate_v4", "execution affinity and graphics interoperation need a GPU in this machine");
    }
    return create_context(call, pctx, flags, dev);
}

CUresult hook_client_cuCtxDestroy_v2(Call& call, CUcontext ctx) {
    if (!ctx) return CUDA_ERROR_INVALID_VALUE;
    uint64_t token = to_token(ctx);
    Context* context = call.state.contexts.find(token);
    if (!context) return unknown_context(token);
    if (context->primary || context->base != 0) return CUDA_ERROR_INVALID_CONTEXT;
    cuda::abi::context_storage_clear(ctx);
    auto& stack = call.thread.contexts;
    if (!stack.empty() && stack.back().context == token) stack.pop_back();
    call.context = token;
    forget_objects(call, token);
    context->retained.store(0);
    CUresult result = gen::issue_cuCtxDestroy_v2(call, token);
    call.session.forget_failure(token);
    call.state.contexts.remove(token);
    return result;
}

CUresult hook_client_cuCtxAttach(Call& call, CUcontext* pctx, unsigned int flags) {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    Context* context = call.current();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    context->attached.fetch_add(1);
    *pctx = to_handle<CUcontext>(call.scope());
    return CUDA_SUCCESS;
}

CUresult hook_client_cuCtxDetach(Call& call, CUcontext ctx) {
    Context* context = call.state.contexts.find(to_token(ctx));
    if (context && context->base != 0) context = call.state.contexts.find(context->base);
    if (!context || context->primary || context->token != call.context) return CUDA_ERROR_INVALID_CONTEXT;
    if (context->attached.fetch_sub(1) > 1) return CUDA_SUCCESS;
    return hook_client_cuCtxDestroy_v2(call, ctx);
}

CUresult hook_client_cuCtxGetCurrent(Call& call, CUcontext* pctx) {
    *pctx = to_handle<CUcontext>(call.thread.current().handle());
    return CUDA_SUCCESS;
}

namespace {

/// What is on a thread's stack for a context.
CurrentContext as_current(const Context& context) {
    return context.base == 0 ? CurrentContext{context.token, 0} : CurrentContext{context.base, context.token};
}

}  // namespace

CUresult hook_client_cuCtxSetCurrent(Call& call, CUcontext ctx) {
    const Context* context = ctx ? call.state.contexts.find(to_token(ctx)) : nullptr;
    if (ctx && !context) return CUDA_ERROR_INVALID_CONTEXT;
    auto& stack = call.thread.contexts;
    // CUDA replaces the top of the stack; for null it takes it away.
    if (!stack.empty()) stack.pop_back();
    if (context) stack.push_back(as_current(*context));
    return CUDA_SUCCESS;
}

CUresult hook_client_cuCtxPushCurrent_v2(Call& call, CUcontext ctx) {
    if (!ctx) return CUDA_ERROR_INVALID_VALUE;
    const Context* context = call.state.contexts.find(to_token(ctx));
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    constexpr size_t k_max_depth = 4096;
    if (call.thread.contexts.size() >= k_max_depth) return CUDA_ERROR_OUT_OF_MEMORY;
    call.thread.contexts.push_back(as_current(*context));
    return CUDA_SUCCESS;
}

CUresult hook_client_cuCtxPopCurrent_v2(Call& call, CUcontext* pctx) {
    auto& stack = call.thread.contexts;
    if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (pctx) *pctx = to_handle<CUcontext>(stack.back().handle());
    stack.pop_back();
    return CUDA_SUCCESS;
}

CUresult hook_client_cuCtxGetDevice(Call& call, CUdevice* device) {
    return hook_client_cuCtxGetDevice_v2(call, device, nullptr);
}

CUresult hook_client_cuCtxGetDevice_v2(Call& call, CUdevice* device, CUcontext ctx) {
    const Context* context = context_or_current(call, ctx);
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    *device = context->device;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuCtxGetFlags(Call& call, unsigned int* flags) {
    const Context* context = call.current();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    *flags = context->flags.load();
    return CUDA_SUCCESS;
}

CUresult hook_client_cuCtxSetFlags(Call& call, unsigned int flags) {
    Context* context = call.current();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (CUresult refused = check_flags("cuCtxSetFlags", flags); refused != CUDA_SUCCESS) return refused;
    set_flags(call, *context, flags);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuCtxGetId(Call& call, CUcontext ctx, unsigned long long* ctxId) {
    const Context* context = context_or_current(call, ctx);
    if (!context) return ctx ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
    *ctxId = context->id;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuCtxGetApiVersion(Call& call, CUcontext ctx, unsigned int* version) {
    const Context* context = context_or_current(call, ctx);
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    *version = k_api_version;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuCtxGetStreamPriorityRange(Call& call, int* leastPriority, int* greatestPriority) {
    const Context* context = call.current();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    const Device* device = find_device(context->device);
    if (leastPriority) *leastPriority = device->least_priority;
    if (greatestPriority) *greatestPriority = device->greatest_priority;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuCtxSynchronize(Call& call) {
    return with_pages_along(call, [&] { return synchronize_context(call); });
}

namespace {

/// Token of the green context that a context was converted from; 0: it was not.
uint64_t green_of(const Call& call, CUcontext handle) {
    const Context* context = call.state.contexts.find(to_token(handle));
    return context ? context->green : 0;
}

/// All streams of a context are concerned: none may be captured.
CUresult check_whole_context(Call& call, CUcontext handle, const Context*& context) {
    if (!handle) return CUDA_ERROR_INVALID_CONTEXT;
    context = call.state.contexts.find(to_token(handle));
    if (!context || !context->active()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return call.state.captures.break_for_context(context->token) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

}  // namespace

CUresult hook_client_cuCtxRecordEvent(Call& call, CUcontext hCtx, CUevent hEvent) {
    if (!hCtx) return CUDA_ERROR_INVALID_CONTEXT;
    const Context* context = nullptr;
    Event* event = call.state.events.find(to_token(hEvent));
    if (!event) return unknown_handle<HandleKind::event>(to_token(hEvent));
    const uint64_t green = green_of(call, hCtx);
    if (CUresult refused = green != 0 ? check_green_not_captured(call, green) : check_whole_context(call, hCtx, context);
        refused != CUDA_SUCCESS)
        return refused;
    if (green != 0) return hook_client_cuGreenCtxRecordEvent(call, reinterpret_cast<CUgreenCtx>(hCtx), hEvent);
    if (event->context != context->token) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult result = gen::issue_cuCtxRecordEvent(call, context->token, to_token(hEvent));
    if (result == CUDA_SUCCESS) note_recorded_behind_all(call, *event);
    return result;
}

CUresult hook_client_cuCtxWaitEvent(Call& call, CUcontext hCtx, CUevent hEvent) {
    if (!hCtx) return CUDA_ERROR_INVALID_CONTEXT;
    const Context* context = nullptr;
    const Event* event = call.state.events.find(to_token(hEvent));
    if (!event) return unknown_handle<HandleKind::event>(to_token(hEvent));
    if (green_of(call, hCtx) != 0) return hook_client_cuGreenCtxWaitEvent(call, reinterpret_cast<CUgreenCtx>(hCtx), hEvent);
    if (CUresult refused = check_whole_context(call, hCtx, context); refused != CUDA_SUCCESS) return refused;
    if (const uint64_t id = event->capture_id.load(); call.state.captures.active(id)) {
        call.state.captures.break_off(id);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return gen::issue_cuCtxWaitEvent(call, context->token, to_token(hEvent));
}

CUresult hook_client_cuCtxSynchronize_v2(Call& call, CUcontext ctx) {
    const Context* context = context_or_current(call, ctx);
    if (!context || !context->active()) {
        return ctx ? CUDA_ERROR_CONTEXT_IS_DESTROYED : no_context(call, context);
    }
    static_cast<void>(work_in(call, ctx));  // it is there
    return with_pages_along(call, [&] { return synchronize_context(call); });
}

CUresult hook_client_cuCtxGetLimit(Call& call, size_t* pvalue, CUlimit limit) {
    Context* context = call.current();
    if (limit < 0 || static_cast<size_t>(limit) >= k_limit_count) return CUDA_ERROR_INVALID_VALUE;
    {
        MutexLock lock(context->mutex);
        if (context->limits[limit]) {
            *pvalue = *context->limits[limit];
            return CUDA_SUCCESS;
        }
    }
    const Device* device = find_device(context->device);
    if (static_cast<size_t>(limit) < device->limits.size() && device->limits[limit]) {
        *pvalue = *device->limits[limit];
        return CUDA_SUCCESS;
    }
    gen::CuCtxGetLimitValues values;
    CUresult result = gen::request_cuCtxGetLimit(call, static_cast<uint32_t>(limit), values);
    if (result != CUDA_SUCCESS) return result;
    *pvalue = values.pvalue;
    MutexLock lock(context->mutex);
    context->limits[limit] = values.pvalue;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuCtxSetLimit(Call& call, CUlimit limit, size_t value) {
    Context* context = call.current();
    if (limit < 0 || static_cast<size_t>(limit) >= k_limit_count) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = gen::request_cuCtxSetLimit(call, static_cast<uint32_t>(limit), value);
    if (result != CUDA_SUCCESS) return result;
    // The driver may round: what it made of it is asked for once, here.
    gen::CuCtxGetLimitValues values;
    if (CUresult asked = gen::request_cuCtxGetLimit(call, static_cast<uint32_t>(limit), values); asked != CUDA_SUCCESS)
        return asked;
    MutexLock lock(context->mutex);
    context->limits[limit] = values.pvalue;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuCtxSetCacheConfig(Call& call, CUfunc_cache config) {
    return set_up(call, [&] { return gen::issue_cuCtxSetCacheConfig(call, static_cast<uint32_t>(config)); });
}

CUresult hook_client_cuCtxSetSharedMemConfig(Call& call, CUsharedconfig config) {
    return set_up(call, [&] { return gen::issue_cuCtxSetSharedMemConfig(call, static_cast<uint32_t>(config)); });
}

}  // namespace warpline::client
