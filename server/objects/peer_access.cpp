// The table of who may use whose memory.
#include "server/objects/peer_access.h"

#include <algorithm>
#include <iterator>

namespace warpline::server {

std::vector<PeerAccess::Leave> PeerAccess::ended_by(uint64_t context, Ending ending) const {
    std::vector<Leave> found;
    std::copy_if(m_leaves.begin(), m_leaves.end(), std::back_inserter(found), [&](const Leave& leave) {
        return leave.peer_context == context || (leave.owner_context == context && ending == Ending::destroyed);
    });
    return found;
}

void PeerAccess::share_pool(CUdevice owner, CUdevice peer, uint64_t pool, bool on) {
    std::set<uint64_t>& pools = m_pools[owner][peer];
    on ? static_cast<void>(pools.insert(pool)) : static_cast<void>(pools.erase(pool));
}

bool PeerAccess::is_open(CUdevice owner, CUdevice peer) const {
    const std::vector<CUdevice> peers = peers_of(owner);
    return std::find(peers.begin(), peers.end(), peer) != peers.end();
}

std::vector<CUdevice> PeerAccess::peers_of(CUdevice owner) const {
    std::set<CUdevice> peers;
    for (const Leave& leave : m_leaves) {
        if (leave.owner == owner) peers.insert(leave.peer);
    }
    if (const auto shared = m_pools.find(owner); shared != m_pools.end()) {
        for (const auto& [peer, pools] : shared->second) {
            if (!pools.empty()) peers.insert(peer);
        }
    }
    peers.erase(owner);  // contexts of one device
    return {peers.begin(), peers.end()};
}

}  // namespace warpline::server
