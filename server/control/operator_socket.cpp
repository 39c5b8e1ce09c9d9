// Names of the kernel's, and whom they belong to.
#include "server/control/operator_socket.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace warpline::server {

namespace {

constexpr int k_waiting_operators = 8;

/// The first byte is 0: a name of the kernel's, and no file's.
socklen_t operator_socket_name(const std::string& address, sockaddr_un& name) {
    name = {};
    name.sun_family = AF_UNIX;
    const std::string text = "warpline-gpu-server/" + address;
    const size_t length = std::min(text.size(), sizeof name.sun_path - 1);
    std::memcpy(name.sun_path + 1, text.data(), length);
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

bool user_of(int socket, uid_t& user) {
    ucred peer{};
    socklen_t length = sizeof peer;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
    user = peer.uid;
    return true;
}

}  // namespace

std::string listen_address(const std::string& host, uint16_t port) {
    const bool bracketed = host.find(':') != std::string::npos;
    return (bracketed ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<int> listen_for_operators(const std::string& address) {
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return Error{Code::io, "no Unix socket", static_cast<uint32_t>(errno)};
    sockaddr_un name;
    const socklen_t length = operator_socket_name(address, name);
    if (bind(fd, reinterpret_cast<sockaddr*>(&name), length) == 0 && listen(fd, k_waiting_operators) == 0) return fd;
    const int error = errno;
    close(fd);
    return Error{Code::io, "the operator's socket cannot be had", static_cast<uint32_t>(error)};
}

bool is_operator(int socket) {
    uid_t user = 0;
    return user_of(socket, user) && (user == 0 || user == geteuid());
}

Result<net::Socket> connect_as_operator(const std::string& address) {
    net::Socket socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!socket.valid()) return Error{Code::io, "no Unix socket", static_cast<uint32_t>(errno)};
    sockaddr_un name;
    const socklen_t length = operator_socket_name(address, name);
    if (connect(socket.fd(), reinterpret_cast<sockaddr*>(&name), length) != 0)
        return Error{Code::connect_refused, "no gpu-server runs there", static_cast<uint32_t>(errno)};
    // Root may look after a server that runs as somebody else.
    uid_t user = 0;
    if (!user_of(socket.fd(), user) || (user != 0 && user != geteuid() && geteuid() != 0))
        return Error{Code::connect_refused, "the gpu-server there is another user's"};
    return socket;
}

}  // namespace warpline::server
