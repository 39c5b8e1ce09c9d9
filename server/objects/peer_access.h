// Which devices may use the memory of which others.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "cuda/abi/cuda_types.h"

namespace warpline::server {

/// A device may use another one's memory as long as one of its contexts is let (cuCtxEnablePeerAccess), or a pool is shared
/// with it. What is let ends with that context, and with the other one; but where the other is a primary one that is reset, and
/// will have the same handle, drivers may keep it.
class PeerAccess {
public:
    /// One context is let use what was allocated in another one.
    struct Leave {
        CUdevice owner = -1;
        CUdevice peer = -1;
        uint64_t owner_context = 0;  ///< tokens
        uint64_t peer_context = 0;
        auto operator<=>(const Leave&) const = default;
    };
    /// False: it was so before.
    bool let(const Leave& leave) { return m_leaves.insert(leave).second; }
    /// False: it was not.
    bool end(const Leave& leave) { return m_leaves.erase(leave) != 0; }
    enum class Ending : uint8_t { reset, destroyed };
    std::vector<Leave> ended_by(uint64_t context, Ending ending) const;
    void share_pool(CUdevice owner, CUdevice peer, uint64_t pool, bool on);

    bool is_open(CUdevice owner, CUdevice peer) const;
    /// The devices that may use this one's memory, but for itself.
    std::vector<CUdevice> peers_of(CUdevice owner) const;

private:
    std::set<Leave> m_leaves;
    std::map<CUdevice, std::map<CUdevice, std::set<uint64_t>>> m_pools;  // owner → peer → pools that it may use
};

}  // namespace warpline::server
