// Which side of a copy an address is on.
#include "client/copy/program_memory.h"

#include "client/session/connection_to_server.h"

namespace warpline::client {

Side side_of(const State& state, uint64_t address) {
    return state.memory.in_window(address) || state.memory.find(address) ? Side::device : Side::host;
}

uint64_t device_address_of(const State& state, uint64_t host, uint64_t size_bytes, Use use) {
    // Programs say "host" of memory of the device (a wrong cudaMemcpyKind): by unified addresses a driver knows better.
    if (is_shared_memory(host) || state.memory.in_window(host)) return host;
    if (!state.host_memory.any_registered()) [[likely]]
        return 0;
    const auto range = state.host_memory.find(host);
    if (!range || range->origin != HostOrigin::registered || range->device_base == 0) return 0;
    if (size_bytes > range->base + range->size_bytes - host) return 0;
    // What the device writes there the program would not see.
    if (use == Use::write && (range->flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0) return 0;
    return range->device_base + (host - range->base);
}

bool is_used_here(const State& state, uint64_t address) {
    if (is_shared_memory(address)) return true;
    if (!state.host_memory.any_registered()) [[likely]]
        return false;
    const auto range = state.memory.find(address);
    return range && range->kind == MemoryKind::page_locked;
}

void share_with_body(Call& call, uint64_t graph, const void* memory, uint64_t size_bytes) {
    const Graph* found = call.state.graphs.find(graph);
    if (!found || !found->is_body.load() || !is_page_locked(call.state, memory, size_bytes)) return;
    const auto base = reinterpret_cast<uint64_t>(memory);
    uint64_t device_address = 0;
    if (can_be_mapped(call, base)) static_cast<void>(map_host_memory(call, base, device_address));
}

HostCalls::Function sender_of(Session& session, const CopyTarget& rows, std::shared_ptr<const uint64_t> id) {
    return [&session, rows, id = std::move(id)](CUresult) {
        if (rows.is_linear()) return session.calls().send_host_data(*id, 0, {rows.base, rows.total_bytes()});
        Bytes packed(rows.total_bytes());
        rows.gather(packed.data());
        session.calls().send_host_data(*id, 0, packed);
    };
}

bool is_page_locked(const State& state, const void* address, uint64_t size_bytes) {
    // Registrations may lie side by side.
    auto begin = reinterpret_cast<uint64_t>(address);
    for (;;) {
        const auto range = state.host_memory.find(begin);
        if (!range) return false;
        const uint64_t there = range->base + range->size_bytes - begin;
        if (size_bytes <= there) return true;
        begin += there, size_bytes -= there;
    }
}

}  // namespace warpline::client
