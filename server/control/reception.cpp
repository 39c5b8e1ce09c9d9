// Who is here, and who has to go.
#include "server/control/reception.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace warpline::server {

size_t Reception::admit(net::Socket socket, std::string host, Serve serve) {
    size_t dropped = 0;
    uint64_t number = 0;
    {
        MutexLock lock(m_mutex);
        while (m_entries.size() >= m_most) {
            drop_one();
            ++dropped;
        }
        const int fd = fcntl(socket.fd(), F_DUPFD_CLOEXEC, 0);
        if (fd < 0) return dropped + 1;
        number = ++m_last_number;
        m_entries.push_back({number, std::move(host), fd});
    }
    Guest guest(*this, number);
    try {
        std::thread([guest, serve = std::move(serve), moved = std::move(socket)]() mutable {
            serve(std::move(moved), guest);
            guest.is_known();
        }).detach();
    } catch (const std::system_error&) {
        guest.is_known();
        ++dropped;
    }
    return dropped;
}

size_t Reception::size() {
    MutexLock lock(m_mutex);
    return m_entries.size();
}

void Reception::forget(const Guest& guest) {
    MutexLock lock(m_mutex);
    const auto entry =
        std::find_if(m_entries.begin(), m_entries.end(), [&](const Entry& other) { return other.number == guest.m_number; });
    if (entry == m_entries.end()) return;
    close(entry->fd);
    m_entries.erase(entry);
}

/// Its thread finds the connection ended, and goes.
void Reception::drop_one() {
    std::map<std::string_view, size_t> by_host;
    for (const Entry& entry : m_entries) ++by_host[entry.host];
    const auto busiest =
        std::max_element(by_host.begin(), by_host.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    // Of several such hosts the one that came first.
    const auto oldest = std::find_if(m_entries.begin(), m_entries.end(),
                                     [&](const Entry& entry) { return by_host[entry.host] == busiest->second; });
    shutdown(oldest->fd, SHUT_RDWR);
    close(oldest->fd);
    m_entries.erase(oldest);
}

}  // namespace warpline::server
