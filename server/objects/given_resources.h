// Resources of devices that a client may name.
#pragma once

#include <cstdint>
#include <map>

#include "common/base/bytes.h"
#include "common/base/mutex.h"

namespace warpline::server {

/// Resources (CUdevResource) that the driver has given. Their bytes are the driver's own, and may well be addresses in this
/// process: a client may name those that it was given, as they were, and no others.
///
/// @thread  any
class GivenResources {
public:
    /// More than any program holds; bounds what a client can make us remember.
    static constexpr size_t k_max_resources = 1u << 16;

    /// @param owner  token of the green context that it ends with; 0: none
    /// @return       false if there are too many
    bool add(Bytes resource, uint64_t owner) {
        MutexLock lock(m_mutex);
        if (m_owners.size() >= k_max_resources) return false;
        m_owners[std::move(resource)] = owner;
        return true;
    }
    /// False if it was not given. @param owner  whose it is
    bool find(const Bytes& resource, uint64_t& owner) const {
        MutexLock lock(m_mutex);
        const auto found = m_owners.find(resource);
        if (found == m_owners.end()) return false;
        owner = found->second;
        return true;
    }
    void owner_ended(uint64_t owner) {
        MutexLock lock(m_mutex);
        std::erase_if(m_owners, [owner](const auto& item) { return item.second == owner; });
    }

private:
    mutable Mutex m_mutex;
    std::map<Bytes, uint64_t> m_owners WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::server
