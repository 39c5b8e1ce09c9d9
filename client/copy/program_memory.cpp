// Which side of a copy an address is on.
#include "client/copy/program_memory.h"

namespace warpline::client {

Side side_of(const State& state, uint64_t address) {
    return state.memory.in_window(address) || state.memory.find(address) ? Side::device : Side::host;
}

bool is_page_locked(const State& state, const void* address, uint64_t size_bytes) {
    const auto base = reinterpret_cast<uint64_t>(address);
    const auto range = state.host_memory.find(base);
    return range && size_bytes <= range->base + range->size_bytes - base;
}

}  // namespace warpline::client
