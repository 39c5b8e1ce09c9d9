// Until when the addresses of graphs' memory are known.
#include "client/state/graph_memory.h"

namespace warpline::client {

GraphAddress GraphMemory::know(DeviceRange range) {
    range.buffer_id = m_memory.register_range(range);
    return {new DeviceRange(range), [this](const DeviceRange* known) {
                no_graph_has(*known);
                delete known;
            }};
}

void GraphMemory::no_graph_has(const DeviceRange& range) {
    {
        MutexLock lock(m_mutex);
        if (m_there.contains(range.base)) {
            m_left_alone.push_back(range);
            return;
        }
    }
    m_memory.forget_buffer(range);
}

void GraphMemory::free(const std::set<uint64_t>& addresses) {
    std::vector<DeviceRange> gone;
    {
        MutexLock lock(m_mutex);
        for (const uint64_t address : addresses) m_there.erase(address);
        std::erase_if(m_left_alone, [&](const DeviceRange& range) {
            if (!addresses.contains(range.base)) return false;
            gone.push_back(range);
            return true;
        });
    }
    for (const DeviceRange& range : gone) m_memory.forget_buffer(range);
}

}  // namespace warpline::client
