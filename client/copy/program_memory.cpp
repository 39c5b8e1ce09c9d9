// The order between a copy and what was asked for before it.
#include "client/copy/program_memory.h"

#include "client/session/connection_to_server.h"

namespace warpline::client {

Side side_of(const State& state, uint64_t address) {
    return state.memory.in_window(address) || state.memory.find(address) ? Side::device : Side::host;
}

bool is_page_locked(const State& state, const void* address, uint64_t size_bytes) {
    const auto base = reinterpret_cast<uint64_t>(address);
    const auto range = state.host_memory.find(base);
    return range && size_bytes <= range->base + range->size_bytes - base;
}

void settle_host_memory(Call& call, const void* address, uint64_t size_bytes) {
    Session& session = call.session;
    const auto base = reinterpret_cast<uint64_t>(address);
    const bool copies = session.copy_pending(base, size_bytes);
    const bool functions = !session.host_calls().idle() || session.graph_functions_pending();
    if ((!functions && !copies) || HostCalls::in_callback()) return;
    // From pageable memory CUDA takes the bytes when the call is made, as we do; and what it copies to it is there when that
    // call returns.
    if (!copies && !call.state.host_memory.find(base)) return;
    const uint64_t last_call = session.host_calls().last_id();
    const uint64_t last_number = session.last_number();
    Call own = call;
    // Its result is not ours to report: whoever waits for the streams gets it.
    CUresult result = synchronize_context(own);
    if (result != CUDA_SUCCESS) session.defer(result);
    session.host_calls().settled(last_call);
    session.copies_settled(base, size_bytes, last_number);
}

void take_back_host_memory(Call& call, const void* address, uint64_t size_bytes) {
    settle_host_memory(call, address, size_bytes);
    call.session.calls().outbox().give_back(as_bytes(address, size_bytes));
}

}  // namespace warpline::client
