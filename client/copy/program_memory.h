// What copies have to mind about the program's memory: which side an address is on, and who else still writes there.
#pragma once

#include "client/call/common.h"
#include "client/call/mapped.h"

namespace warpline::client {

/// Where a pointer of a copy without a direction points.
enum class Side : uint8_t { host, device };
Side side_of(const State& state, uint64_t address);

/// True if a synchronous copy to the device might wait there for what only another thread of the program can bring about: then
/// the program has to wait, too, because what comes after the copy is held up on the server until it is done.
inline bool copy_may_wait(const Call& call) {
    const Context* context = call.current();
    const bool idle = context && call.session.last_work() < context->default_idle_at.load(std::memory_order_acquire);
    // Another process sees whether the bytes are there.
    if (call.state.shared_with_others.load(std::memory_order_relaxed)) return true;
    return !idle && call.session.last_work() != 0 && call.session.has_other_threads();
}

/// Where the device finds host memory that it copies itself, in the order of its streams: memory that it shares with the
/// program, and registered memory that kernels use. 0: nowhere.
enum class Use : uint8_t { read, write };
uint64_t device_address_of(const State& state, uint64_t host, uint64_t size_bytes, Use use);

/// True if the device's memory at an address is what the program sees, too.
bool is_used_here(const State& state, uint64_t address);

/// Page-locked memory that the body of a conditional node copies to, or from, is read and written there by the device itself
/// from now on, as by a kernel: whether the body is run, and how often, only the device knows. Nothing is done for other
/// graphs, other memory, and memory that copies of graphs use already: the server sees to those as far as they can be seen to.
/// @param graph  token, of the one that gets the copy
void share_with_body(Call& call, uint64_t graph, const void* memory, uint64_t size_bytes);

/// What host call `*id` does: it sends rows of the program's memory to the server, which asks for them when their turn comes.
HostCalls::Function sender_of(Session& session, const CopyTarget& rows, std::shared_ptr<const uint64_t> id);

/// True if CUDA has page-locked all of it.
bool is_page_locked(const State& state, const void* address, uint64_t size_bytes);

}  // namespace warpline::client
