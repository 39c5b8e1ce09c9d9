// What hooks of several areas ask of devices, contexts and streams.
#include "client/call/common.h"

#include "client/call/ahead.h"
#include "client/call/allocate.h"
#include "client/call/completion.h"
#include "client/call/pages_along.h"
#include "client/call/pooled.h"
#include "client/gen/internal_calls.gen.h"
#include "client/gen/stream_calls.gen.h"

namespace warpline::client {

bool is_device(CUdevice ordinal) { return find_device(ordinal) != nullptr; }

const Device* find_device(int ordinal) {
    const auto& devices = Process::instance().server().devices;
    return ordinal >= 0 && static_cast<size_t>(ordinal) < devices.size() ? &devices[static_cast<size_t>(ordinal)] : nullptr;
}

CUresult detached_stream() { return cuda::abi::detached_stream(Process::instance().driver_version()); }

Context* context_or_current(const Call& call, CUcontext context) {
    return call.state.contexts.find(context ? to_token(context) : call.scope());
}

CUresult work_in(Call& call, CUcontext context) {
    if (!context) return CUDA_SUCCESS;
    const Context* found = call.state.contexts.find(to_token(context));
    if (!found) return CUDA_ERROR_INVALID_CONTEXT;
    call.context = found->base != 0 ? found->base : found->token;
    call.converted = found->base != 0 ? found->token : 0;
    return CUDA_SUCCESS;
}

CUresult id_of_stream(State& state, uint64_t context, CUstream stream, uint64_t& id) {
    if (const Stream* found = state.streams.find(to_token(stream))) {
        id = found->id;
        return CUDA_SUCCESS;
    }
    if (!is_special_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
    const Context* owner = state.contexts.find(context);
    if (!owner) return CUDA_ERROR_INVALID_CONTEXT;
    // The numbers of other streams come from a counter that stays far below these.
    constexpr uint64_t k_default = 1ull << 40, k_per_thread = 1ull << 41;
    id = stream == CU_STREAM_PER_THREAD ? k_per_thread + (owner->id << 24) + this_thread().number : k_default + owner->id;
    return CUDA_SUCCESS;
}

bool is_synchronous(const Call& call, uint64_t address) {
    if (!call.state.any_sync_memops.load(std::memory_order_acquire)) [[likely]]
        return false;
    const Context* context = call.current();
    if (context && (context->flags.load() & CU_CTX_SYNC_MEMOPS) != 0) return true;
    const auto range = call.state.memory.find(address);
    return range && range->sync_memops;
}

/// True if the address is where the device finds memory that the program has registered.
static bool is_copy_of_registered(const State& state, uint64_t address) {
    if (!state.host_memory.any_registered()) [[likely]]
        return false;
    const auto range = state.memory.find(address);
    return range && range->kind == MemoryKind::page_locked && !state.host_memory.in_window(address);
}

bool is_looked_at(const Call& call, uint64_t address) {
    // No access to registered memory waits for the device.
    if (is_copy_of_registered(call.state, address)) return true;
    return is_shared_memory(address) && (call.session.has_other_threads() || call.session.host_calls().has_thread());
}

CUresult prepare_fill(Call& call, CUdeviceptr& address, bool& settles) {
    const bool is_registered = is_registered_memory(call.state, address);
    settles = is_registered || is_synchronous(call, address) || is_looked_at(call, address);
    if (!is_registered) [[likely]]
        return CUDA_SUCCESS;
    Call own = call;
    uint64_t mapped = 0;
    const CUresult result = map_host_memory(own, address, mapped);
    if (result == CUDA_SUCCESS) address = mapped;
    return result;
}

CUresult settle_fill(Call& call, CUstream stream) {
    const uint64_t token = stream_token(call, stream);
    if (!is_special_stream(to_handle<CUstream>(token))) return CUDA_SUCCESS;
    const bool may_be_captured = token == to_token(CU_STREAM_PER_THREAD);
    if (may_be_captured && call.state.captures.any()) return CUDA_SUCCESS;
    return with_pages_along(call, [&] { return synchronize_stream(call, token); });
}

CUresult synchronize_stream(Call& call, uint64_t stream) {
    PoolHeap& pools = call.state.pool_heap;
    const uint64_t mark = pools.mark();
    const uint64_t records = call.state.records();
    const auto settle = [&] {
        settle_pooled(call, pools.settled(PoolHeap::key(stream, call.scope(), call.thread.number), mark));
    };
    if (is_known_done(call, stream)) {
        call.session.note_told(call.identity_of(stream));
        settle();
        return CUDA_SUCCESS;
    }
    CUresult result = stream <= 1 ? wait_for_default_stream(call) : wait_for_stream(call, stream);
    if (result != CUDA_SUCCESS) return result;
    note_done(call, stream);
    if (Stream* synced = call.state.streams.find(stream)) raise_to(synced->synced, records);
    if (stream <= 1) note_default_idle(call, records);
    settle();
    return result;
}

namespace {

/// @param wait  is to say if there was anything that it did not wait for
template <typename Wait>
CUresult settle_context(Call& call, Wait wait) {
    PoolHeap& pools = call.state.pool_heap;
    const uint64_t mark = pools.mark();
    const uint64_t records = call.state.records();
    const auto settle = [&] { settle_pooled(call, pools.context_settled(call.scope(), mark)); };
    if (is_context_known_idle(call)) {
        call.session.note_told(0);
        settle();
        return CUDA_SUCCESS;
    }
    bool whole = true;
    const CUresult result = wait(whole);
    if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) {
        // Whether a driver refuses it is its own affair (DB-04); where it does, every capture of the context is broken.
        for (const uint64_t capture : call.state.captures.of_context(call.context)) call.state.captures.break_off(capture);
    }
    if (result != CUDA_SUCCESS || !whole) return result;
    if (Context* synced = call.scope_context()) {
        raise_to(synced->synced, records);
        raise_to(synced->idle_at, call.number);
        raise_to(synced->default_idle_at, call.number);
    }
    call.session.note_told(0);
    settle();
    return result;
}

}  // namespace

CUresult synchronize_context(Call& call) {
    return settle_context(call, [&](bool&) { return wait_for_context(call); });
}

CUresult wait_beside_captures(Call& call) {
    if (!call.state.captures.ever()) return synchronize_context(call);
    return settle_context(call, [&](bool& whole) {
        gen::WlWaitBesideCapturesValues values;
        const CUresult result = gen::request_wlWaitBesideCaptures(call, values);
        whole = values.whole;
        return result;
    });
}

bool rests(const Call& call, uint64_t context_token) {
    const Context* context = call.state.contexts.find(context_token);
    return context && call.session.last_work() < context->idle_at.load(std::memory_order_acquire);
}

CUresult come_to_rest(Call& call) { return rests(call, call.context) ? CUDA_SUCCESS : wait_beside_captures(call); }

}  // namespace warpline::client
