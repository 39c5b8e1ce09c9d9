// Numbers of the driver's that a client may name.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "common/base/mutex.h"

namespace warpline::server {

/// Numbers that the driver has given, that kernels use and that therefore travel as they are: a client may name those that it
/// was given, and no others.
///
/// @thread  any
class GivenValues {
public:
    enum class Kind : uint8_t { texture, surface, conditional };
    /// More than any program holds; bounds what a client can make us remember.
    static constexpr size_t k_max_values = 1u << 20;

    bool full() const {
        MutexLock lock(m_mutex);
        return m_owners.size() >= k_max_values;
    }
    /// @param owner  token of what it ends with: a context, a graph
    void add(Kind kind, uint64_t value, uint64_t owner) {
        MutexLock lock(m_mutex);
        m_owners[{kind, value}] = owner;
    }
    bool contains(Kind kind, uint64_t value) const {
        MutexLock lock(m_mutex);
        return m_owners.contains({kind, value});
    }
    void remove(Kind kind, uint64_t value) {
        MutexLock lock(m_mutex);
        m_owners.erase({kind, value});
    }
    void owner_ended(uint64_t owner) {
        MutexLock lock(m_mutex);
        std::erase_if(m_owners, [owner](const auto& item) { return item.second == owner; });
    }

private:
    mutable Mutex m_mutex;
    std::map<std::pair<Kind, uint64_t>, uint64_t> m_owners WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::server
