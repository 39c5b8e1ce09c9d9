// Connections of which nobody knows yet what they want.
#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/codec/preamble.h"
#include "server/control/drop_notice.h"

namespace warpline::server {

/// Where connections wait until their first bytes are there: the preamble, and what TLS begins with. Whoever sends neither
/// costs a descriptor here, and no process's attention. When the lobby is full, the host that has the most connections in it
/// loses its oldest one: who comes with one, and speaks, is never turned away for the sake of others.
///
/// Belongs to one thread; nothing blocks.
class Lobby {
public:
    using Clock = std::chrono::steady_clock;
    struct Guest {
        int fd = -1;
        std::string peer;
        protocol::Preamble preamble;
    };

    /// @param most      connections at a time
    /// @param patience  for a connection's first bytes
    Lobby(size_t most, std::chrono::milliseconds patience) : m_most(most), m_patience(patience) {}
    ~Lobby();
    Lobby(const Lobby&) = delete;
    Lobby& operator=(const Lobby&) = delete;

    /// Takes a non-blocking socket in, which is ours from now on.
    /// @param is_unix  the kernel says who is at its other end: TLS need not follow
    void admit(int fd, std::string peer, bool is_unix = false);
    /// @return how many are here
    size_t size() const { return m_visitors.size(); }
    /// To be polled for POLLIN and POLLRDHUP. Which connection is which changes with each other call.
    int fd(size_t index) const { return m_visitors[index].fd; }
    /// Reads what has come. A connection that is done with leaves the lobby; those behind it move up.
    ///
    /// @param ended   the other side sends nothing more
    /// @param trusts  the preamble will do: there is no pressure, and who may continue while TLS is still on its way is faster
    /// @return        what is to be routed, whose socket is the caller's then
    std::optional<Guest> hear(size_t index, bool ended, bool trusts);
    /// Drops those who have not spoken in time.
    void expire();
    /// When the next one's time is over. Time_point::max(): nobody waits
    Clock::time_point next_deadline() const;

private:
    struct Visitor {
        int fd;
        std::string peer;
        bool is_unix;
        Clock::time_point deadline;
        std::array<std::byte, protocol::k_preamble_bytes> bytes;
        size_t have = 0;
        protocol::Preamble preamble;
    };
    enum class Progress : uint8_t { waits, ready, refused };

    Progress read_preamble(Visitor& visitor);
    Progress look_for_tls(Visitor& visitor);
    void drop(size_t index, const char* why);
    Visitor take(size_t index);

    const size_t m_most;
    const std::chrono::milliseconds m_patience;
    std::deque<Visitor> m_visitors;  // oldest first
    std::map<std::string, size_t, std::less<>> m_by_host;
    DropNotice m_notice;
};

}  // namespace warpline::server
