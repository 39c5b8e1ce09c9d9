// One successor for each region, trusted as often as it has come.
#include "client/managed/succession.h"

#include <algorithm>

namespace warpline::client {

void Succession::came_to(uint64_t region, uint64_t address, bool is_neighbour) {
    if (region == m_last) return;
    m_run = is_neighbour ? m_run + 1 : 0;
    if (m_last != 0) {
        if (m_successors.size() >= k_most_known && !m_successors.contains(m_last)) m_successors.clear();
        Successor& known = m_successors[m_last];
        if (known.region == region)
            known = {region, address, std::min(known.trust + 1, k_most_trust)};
        else if (--known.trust <= 0)
            known = {region, address, 1};
    }
    m_last = region;
}

std::optional<uint64_t> Succession::next(uint64_t region) const {
    const auto found = m_successors.find(region);
    if (found == m_successors.end() || found->second.trust <= 0) return std::nullopt;
    return found->second.address;
}

}  // namespace warpline::client
