// Which descriptors nobody has any more.
#include "client/state/shares.h"

#include <poll.h>

#include <algorithm>

namespace warpline::client {

std::vector<Shares::Ticket> Shares::take_ended() {
    std::vector<Ticket> ended;
    MutexLock lock(m_mutex);
    if (m_given.empty()) return ended;
    std::vector<pollfd> watched;
    watched.reserve(m_given.size());
    for (const Given& given : m_given) watched.push_back({given.end.fd(), 0, 0});
    if (poll(watched.data(), watched.size(), 0) <= 0) return ended;
    // From the last: those before it keep their places.
    for (size_t i = m_given.size(); i-- > 0;) {
        if ((watched[i].revents & POLLHUP) == 0) continue;
        ended.push_back(m_given[i].ticket);
        std::swap(m_given[i], m_given.back());
        m_given.pop_back();
    }
    return ended;
}

}  // namespace warpline::client
