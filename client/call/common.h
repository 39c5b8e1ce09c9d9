#pragma once

// What hooks of several areas share.

#include <cstdint>
#include <memory>
#include <string_view>

#include "client/abi/process.h"
#include "client/call/call.h"
#include "client/call/mapped.h"
#include "client/call/pages.h"
#include "client/call/refuse.h"
#include "client/call/shim.h"
#include "client/session/session.h"
#include "client/state/devices.h"
#include "common/base/region.h"

namespace warpline::client {

/// The device with this ordinal, or nullptr.
const Device* find_device(int ordinal);

/// The context that an argument means: a token of ours, or the current one for null. nullptr: there is none.
Context* context_or_current(const Call& call, CUcontext context);

/// From here on the call is about this context, which may be one that a green context was converted to; for null about the
/// current one. @errors CUDA_ERROR_INVALID_CONTEXT
CUresult work_in(Call& call, CUcontext context);

/// Token of the green context that the current context was converted from; 0: it was not.
inline uint64_t current_green(const Call& call) {
    const Context* scope = call.scope_context();
    return scope ? scope->green : 0;
}

/// A number for a stream that no other stream of the process has; for the special ones it depends on context and thread.
CUresult id_of_stream(State& state, uint64_t context, CUstream stream, uint64_t& id);

/// CUDA_SUCCESS if the handle is a stream of ours or one of the special ones.
inline CUresult check_stream(const Call& call, CUstream stream) {
    return check_handle<HandleKind::stream>(call, to_token(stream), true);
}

/// The stream that travels for an argument: the default stream in a _ptsz form is the thread's own.
inline uint64_t stream_token(const Call& call, CUstream stream) { return stream ? to_token(stream) : call.default_stream(); }

/// Token of the context in which work is that a stream is given. @param stream  token
inline uint64_t context_of_work(const Call& call, uint64_t stream) {
    const Stream* known = call.state.streams.find(stream);
    return known ? known->context : call.context;
}

/// The stream of a copy or a wait. From here on the call is about its context, whichever is current: "A memory copy will
/// succeed even if it is issued to a stream that is not associated to the current device" (CUDA C++ Programming Guide 13.0,
/// Multi-Device System).
///
/// @param token  the one that travels
/// @errors       CUDA_ERROR_INVALID_HANDLE
inline CUresult enter_stream(Call& call, CUstream stream, uint64_t& token) {
    if (const CUresult refused = check_stream(call, stream); refused != CUDA_SUCCESS) return refused;
    token = stream_token(call, stream);
    call.context = context_of_work(call, token);
    return CUDA_SUCCESS;
}

/// Waits for a stream; what was freed in its order is free for everybody then.
CUresult synchronize_stream(Call& call, uint64_t stream);
/// The same for all streams of the call's context.
CUresult synchronize_context(Call& call);
/// The same where the program has not asked for it: what is being captured, in whatever thread, is not waited for, and goes on.
CUresult wait_beside_captures(Call& call);
/// True if all that the device was given before is known to be done.
bool rests(const Call& call, uint64_t context_token);
/// Waits beside captures until the call's context has done what it was given, as CUDA's frees do; not at all where it rests.
CUresult come_to_rest(Call& call);

/// The call that was just answered has waited for the legacy default stream. @param records  State::records() before the call
inline void note_default_idle(const Call& call, uint64_t records) {
    if (Context* context = call.scope_context()) {
        raise_to(context->default_synced, records);
        raise_to(context->default_idle_at, call.number);
        context->default_stream.reached(call.number, call.number);
        call.session.note_told(call.scope());
    }
}

/// True if the address is of memory that the program has registered, by the program's own address.
inline bool is_registered_memory(const State& state, uint64_t address) {
    if (!state.host_memory.any_registered()) [[likely]]
        return false;
    const auto range = state.host_memory.find(address);
    return range && range->origin == HostOrigin::registered && !state.memory.find(address);
}
/// True if synchronous copies and fills there are to be waited for, also those from which CUDA returns at once otherwise.
bool is_synchronous(const Call& call, uint64_t address);
/// True if no access will wait for a copy or a fill there: to registered memory, or where another thread may be fetching pages
/// beside it, and with them what was there before. When a synchronous one returns, the program must not find that.
bool is_looked_at(const Call& call, uint64_t address);
/// For a fill: an address of registered memory becomes the one where the device finds it.
/// @param settles  whether settle_fill() is to follow
CUresult prepare_fill(Call& call, CUdeviceptr& address, bool& settles);
/// Such a fill has been given to a stream. In a default stream, where the call may be a synchronous one, it is over when the
/// call returns, unless it is captured. @blocks for a default stream
CUresult settle_fill(Call& call, CUstream stream);

/// CUDA_SUCCESS if all of a device range is known. Page-locked memory that is named so becomes the device's.
inline CUresult check_device_memory(const Call& call, uint64_t address, uint64_t size_bytes) {
    if (call.state.host_memory.in_window(address) && call.state.host_memory.may_be_passed()) {
        Call own = call;
        uint64_t mapped = 0;
        if (CUresult refused = map_host_memory(own, address, mapped); refused != CUDA_SUCCESS) return refused;
    }
    return call.state.memory.contains(address, size_bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/// The same for what copies and fills use: what of it the program has in its hands is the device's then, and who looks at it
/// waits for them.
inline CUresult check_device_range(const Call& call, uint64_t address, uint64_t size_bytes) {
    if (CUresult refused = check_device_memory(call, address, size_bytes); refused != CUDA_SUCCESS) return refused;
    return give_named_pages(call, address, size_bytes);
}

/// CUDA_SUCCESS if all of a region that is not empty is known, its rows do not overlap, and address and pitch are multiples of
/// `align`.
inline CUresult check_region(const Call& call, const Region& region, uint64_t align) {
    const bool overlaps = !region.rows.at_most(1) && !region.row_bytes.at_most(region.pitch.value());
    if (!region.fits() || overlaps) return CUDA_ERROR_INVALID_VALUE;
    if (region.address.value() % align != 0 || region.pitch.value() % align != 0) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t size_bytes = region.span().value();
    return check_device_range(call, region.address.value(), size_bytes);
}

}  // namespace warpline::client
