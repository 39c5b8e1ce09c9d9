// Memory that graphs have allocated and not freed by a node of theirs: it is there from a launch until somebody frees it.
#pragma once

#include <cstdint>
#include <set>

#include "common/base/mutex.h"

namespace warpline::client {

/// What a graph makes of memory beyond its own launch, by the addresses of allocation nodes.
struct MemoryLeft {
    std::set<uint64_t> allocated, freed;  ///< of others

    void allocate(uint64_t address) { allocated.insert(address); }
    void free(uint64_t address) {
        if (allocated.erase(address) == 0) freed.insert(address);
    }
    /// What another one does becomes part of it.
    void add(const MemoryLeft& other) {
        for (const uint64_t address : other.allocated) allocate(address);
        for (const uint64_t address : other.freed) free(address);
    }
    bool empty() const { return allocated.empty() && freed.empty(); }
};

/// All that there is. A graph cannot be launched again while there is memory of its last launch.
class GraphMemory {
public:
    /// A graph is about to be launched. @returns false if memory may be there that it allocates: the driver has to say
    bool launch(const MemoryLeft& graph) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        bool all_free = true;
        for (const uint64_t address : graph.allocated) all_free = m_there.insert(address).second && all_free;
        return all_free;
    }
    /// These are freed, by the program or a launch.
    void free(const std::set<uint64_t>& addresses) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        for (const uint64_t address : addresses) m_there.erase(address);
    }

private:
    Mutex m_mutex;
    std::set<uint64_t> m_there WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::client
