// First bytes, looked at where they are: what belongs to TLS stays in the socket.
#include "server/daemon/lobby.h"

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/log/log.h"
#include "server/control/control.h"

namespace warpline::server {

namespace {

constexpr size_t k_record_header_bytes = 5;
constexpr uint8_t k_handshake_record = 22;
/// What a record holds at most (RFC 8446, 5.1).
constexpr size_t k_most_record_bytes = 16 * 1024;

/// Lets poll() report the socket once so much is there.
void wake_at(int fd, size_t bytes) {
    const int count = static_cast<int>(bytes);
    setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &count, sizeof count);
}

size_t bytes_there(int fd) {
    int count = 0;
    return ioctl(fd, FIONREAD, &count) == 0 && count > 0 ? static_cast<size_t>(count) : 0;
}

}  // namespace

Lobby::~Lobby() {
    for (const Visitor& visitor : m_visitors) close(visitor.fd);
}

void Lobby::admit(int fd, std::string peer, bool is_unix) {
    ++m_by_host[std::string(host_of(peer))];
    m_visitors.push_back({fd, std::move(peer), is_unix, Clock::now() + m_patience, {}, 0, {}});
    if (m_visitors.size() <= m_most) return;
    const auto busiest =
        std::max_element(m_by_host.begin(), m_by_host.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    // Of several such hosts the one that came first: who has just come, and is about to speak, is nobody's victim.
    const auto oldest = std::find_if(m_visitors.begin(), m_visitors.end(), [&](const Visitor& visitor) {
        return m_by_host.find(host_of(visitor.peer))->second == busiest->second;
    });
    drop(static_cast<size_t>(oldest - m_visitors.begin()), "too many connections have not said what they want");
}

std::optional<Lobby::Guest> Lobby::hear(size_t index, bool ended, bool trusts) {
    Visitor& visitor = m_visitors[index];
    const bool had_preamble = visitor.have == protocol::k_preamble_bytes;
    Progress progress = had_preamble ? Progress::ready : read_preamble(visitor);
    // How much of a record is there, poll() does not tell of Unix sockets; and whoever floods us there is a user of this
    // machine.
    if (progress == Progress::ready && !trusts && !visitor.is_unix) progress = look_for_tls(visitor);
    if (progress == Progress::waits && ended) {
        // Who has sent nothing at all only looked whether the port is open.
        if (visitor.have > 0) {
            drop(index, "closed in the middle of its first bytes");
        } else {
            close(take(index).fd);
        }
        return std::nullopt;
    }
    if (progress == Progress::waits) return std::nullopt;
    if (progress == Progress::refused) {
        close(take(index).fd);
        return std::nullopt;
    }
    Visitor guest = take(index);
    wake_at(guest.fd, 1);
    return Guest{guest.fd, std::move(guest.peer), guest.preamble};
}

Lobby::Progress Lobby::read_preamble(Visitor& visitor) {
    const ssize_t got = recv(visitor.fd, visitor.bytes.data() + visitor.have, protocol::k_preamble_bytes - visitor.have, 0);
    if (got < 0 && errno != EAGAIN && errno != EINTR) return Progress::refused;
    if (got <= 0) return Progress::waits;
    visitor.have += static_cast<size_t>(got);
    if (visitor.have < protocol::k_preamble_bytes) return Progress::waits;
    auto preamble = protocol::decode_preamble(visitor.bytes);
    if (preamble.ok() && preamble->plain && !visitor.is_unix)
        preamble = Error{Code::denied, "a connection without TLS that is no Unix socket"};
    if (preamble.ok()) {
        visitor.preamble = *preamble;
        return Progress::ready;
    }
    if (const uint64_t dropped = m_notice.count(); dropped > 0) {
        WL_LOG(warn, "server", "{}: dropped: {}{}", visitor.peer, preamble.error().what,
               dropped > 1 ? log::format(" ({} dropped since the last such line)", dropped) : "");
    }
    return Progress::refused;
}

/// Whether all of the first record is there: a client's Hello, for which nobody has to be kept waiting.
Lobby::Progress Lobby::look_for_tls(Visitor& visitor) {
    std::array<uint8_t, k_record_header_bytes> header{};
    const ssize_t got = recv(visitor.fd, header.data(), header.size(), MSG_PEEK);
    if (got < 0 && errno != EAGAIN && errno != EINTR) return Progress::refused;
    if (got > 0 && header[0] != k_handshake_record) {
        if (const uint64_t dropped = m_notice.count(); dropped > 0)
            WL_LOG(warn, "server", "{}: dropped: it does not speak TLS ({} dropped since the last such line)", visitor.peer,
                   dropped);
        return Progress::refused;
    }
    if (got < static_cast<ssize_t>(header.size())) {
        wake_at(visitor.fd, header.size());
        return Progress::waits;
    }
    const size_t needed = header.size() + std::min<size_t>(k_most_record_bytes, header[3] * size_t{256} + header[4]);
    if (bytes_there(visitor.fd) >= needed) return Progress::ready;
    wake_at(visitor.fd, needed);
    return Progress::waits;
}

void Lobby::expire() {
    const auto now = Clock::now();
    while (!m_visitors.empty() && m_visitors.front().deadline <= now) drop(0, "no first bytes in time");
}

Lobby::Clock::time_point Lobby::next_deadline() const {
    return m_visitors.empty() ? Clock::time_point::max() : m_visitors.front().deadline;
}

void Lobby::drop(size_t index, const char* why) {
    const Visitor visitor = take(index);
    close(visitor.fd);
    if (const uint64_t dropped = m_notice.count(); dropped > 0)
        WL_LOG(warn, "server", "{}: dropped: {} ({} dropped since the last such line)", visitor.peer, why, dropped);
}

Lobby::Visitor Lobby::take(size_t index) {
    Visitor visitor = std::move(m_visitors[index]);
    m_visitors.erase(m_visitors.begin() + static_cast<std::ptrdiff_t>(index));
    const auto host = m_by_host.find(host_of(visitor.peer));
    if (--host->second == 0) m_by_host.erase(host);
    return visitor;
}

}  // namespace warpline::server
