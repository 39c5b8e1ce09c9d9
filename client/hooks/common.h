#pragma once

// What hooks of several areas share.

#include <cstdint>
#include <memory>
#include <string_view>

#include "client/abi/call.h"
#include "client/abi/process.h"
#include "client/abi/refuse.h"
#include "client/abi/shim.h"
#include "client/session/session.h"
#include "client/state/devices.h"

namespace warpline::client {

/// The device with this ordinal, or nullptr.
const Device* find_device(int ordinal);

/// The context that an argument means: a token of ours, or the current one for null. nullptr: there is none.
Context* context_or_current(const Call& call, CUcontext context);

/// A number for a stream that no other stream of the process has; for the special ones it depends on context and thread.
CUresult id_of_stream(State& state, uint64_t context, CUstream stream, uint64_t& id);

/// CUDA_SUCCESS if the handle is a stream of ours or one of the special ones.
inline CUresult check_stream(const Call& call, CUstream stream) {
    return check_handle<HandleKind::stream>(call, to_token(stream), true);
}

/// The stream that travels for an argument: the default stream in a _ptsz form is the thread's own.
inline uint64_t stream_token(const Call& call, CUstream stream) { return stream ? to_token(stream) : call.default_stream(); }

/// Waits for a stream; what was freed in its order is free for everybody then.
CUresult synchronize_stream(Call& call, uint64_t stream);
/// The same for all streams of the call's context.
CUresult synchronize_context(Call& call);

/// The call that was just answered has waited for the legacy default stream.
inline void note_default_idle(const Call& call) {
    if (Context* context = call.current()) raise_to(context->default_idle_at, call.number);
}
/// True if a synchronous copy to the device might wait there for what only another thread of the program can bring about: then
/// the program has to wait, too, because what comes after the copy is held up on the server until it is done.
inline bool copy_may_wait(const Call& call) {
    const Context* context = call.current();
    const bool idle = context && call.session.last_work() < context->default_idle_at.load(std::memory_order_acquire);
    return !idle && call.session.last_work() != 0 && call.session.has_other_threads();
}

// --- memory (memory.cpp) ---

/// Device memory of the current context's device.
/// @param pool  token of the pool that it counts for, or 0
CUresult allocate_device_memory(Call& call, uint64_t size_bytes, uint64_t& address, uint64_t pool = 0);
/// Gives a range back that forget() has returned, and that nothing on the device uses any more.
CUresult release_device_memory(Call& call, const DeviceRange& range);

/// Where a pointer of a copy without a direction points.
enum class Side : uint8_t { host, device };
Side side_of(const State& state, uint64_t address);

/// CUDA_SUCCESS if all of a device range is known.
inline CUresult check_device_range(const Call& call, uint64_t address, uint64_t size_bytes) {
    return call.state.memory.contains(address, size_bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/// Asynchronous copies from host memory read it when their turn comes in CUDA; here the bytes are taken when the call is made.
/// So what is still to be written there by earlier work has to arrive first.
void settle_host_memory(Call& call, const void* address, uint64_t size_bytes);

}  // namespace warpline::client
