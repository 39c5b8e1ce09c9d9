// Sockets in the kernel's own name space (unix(7)), and who is at their other end.
#include "client/report/watch_socket.h"

#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace warpline::client {

namespace {

constexpr int k_kind = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;

/// An abstract address: a zero, and the name. Its length is 0 if the name is too long.
socklen_t address_of(const std::string& name, sockaddr_un& address) {
    address = {};
    address.sun_family = AF_UNIX;
    if (name.empty() || name.size() > sizeof(address.sun_path) - 1) return 0;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

bool same_user(int socket, ucred& peer) {
    socklen_t length = sizeof peer;
    return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == ::geteuid();
}

Error io_error(const char* what) { return {Code::io, what, static_cast<uint32_t>(errno)}; }

}  // namespace

Result<net::Socket> listen_for_reports(std::string& name) {
    std::array<uint8_t, 16> random{};
    if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
        return Error{Code::io, "no random numbers"};
    name = "warpline-report-";
    for (const uint8_t byte : random) {
        name += "0123456789abcdef"[byte >> 4];
        name += "0123456789abcdef"[byte & 15];
    }
    sockaddr_un address{};
    const socklen_t length = address_of(name, address);
    net::Socket socket(::socket(AF_UNIX, k_kind, 0));
    if (!socket.valid()) return io_error("no socket for reports");
    if (::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&address), length) != 0 || ::listen(socket.fd(), 4096) != 0)
        return io_error("reports cannot be listened for");
    return socket;
}

Result<net::Socket> connect_to_watcher(const std::string& name) {
    sockaddr_un address{};
    const socklen_t length = address_of(name, address);
    net::Socket socket(length == 0 ? -1 : ::socket(AF_UNIX, k_kind, 0));
    ucred watcher{};
    if (!socket.valid() || ::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
        !same_user(socket.fd(), watcher))
        return Error{Code::connect_refused, "nobody watches this process"};
    return socket;
}

std::optional<pid_t> reporting_process(int socket) {
    ucred peer{};
    if (!same_user(socket, peer) || peer.pid <= 0) return std::nullopt;
    return peer.pid;
}

}  // namespace warpline::client
