// Memory that graphs have allocated: its addresses, and what of it is there.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "client/state/device_memory.h"
#include "common/base/mutex.h"

namespace warpline::client {

/// An address that an allocation node has: shared by the graph, those that are made of it, and a capture before.
using GraphAddress = std::shared_ptr<const DeviceRange>;

/// What the nodes of a graph that allocate and free come to.
struct MemoryNodes {
    /// What there is beyond a launch, from that until somebody frees it; and what of others it frees.
    std::set<uint64_t> allocated, freed;
    std::vector<GraphAddress> addresses;  ///< of all allocation nodes

    void allocate(GraphAddress address) {
        allocated.insert(address->base);
        addresses.push_back(std::move(address));
    }
    void free(uint64_t address) {
        if (allocated.erase(address) == 0) freed.insert(address);
    }
    /// What another graph does becomes part of it.
    void add(const MemoryNodes& other) {
        allocated.insert(other.allocated.begin(), other.allocated.end());
        for (const uint64_t address : other.freed) free(address);
        addresses.insert(addresses.end(), other.addresses.begin(), other.addresses.end());
    }
    bool leaves_nothing() const { return allocated.empty() && freed.empty(); }
};

/// All that there is. An address is known as long as a graph has it or memory is there.
///
/// @thread  any
class GraphMemory {
public:
    explicit GraphMemory(DeviceMemory& memory) : m_memory(memory) {}

    /// Makes the address of an allocation node known. The server's driver has given it: graphs of before have it no more.
    GraphAddress know(DeviceRange range) WL_EXCLUDES(m_mutex);

    /// A graph is about to be launched. @returns false if memory may be there that it allocates: the driver has to say
    bool launch(const MemoryNodes& graph) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        bool all_free = true;
        for (const uint64_t address : graph.allocated) all_free = m_there.insert(address).second && all_free;
        return all_free;
    }
    /// A graph was launched that frees first what is there of its launch before.
    void launched_anew(const std::set<uint64_t>& addresses) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        m_there.insert(addresses.begin(), addresses.end());
    }
    bool is_there(uint64_t address) const WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        return m_there.contains(address);
    }
    /// These are freed, by the program or a launch.
    void free(const std::set<uint64_t>& addresses) WL_EXCLUDES(m_mutex);

private:
    void no_graph_has(const DeviceRange& range) WL_EXCLUDES(m_mutex);

    DeviceMemory& m_memory;
    mutable Mutex m_mutex;
    std::set<uint64_t> m_there WL_GUARDED_BY(m_mutex);
    std::vector<DeviceRange> m_left_alone WL_GUARDED_BY(m_mutex);  // there, and no graph has the address any more
};

}  // namespace warpline::client
