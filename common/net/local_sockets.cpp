// Unix sockets and vsock: connecting and listening.
#include "common/net/local_sockets.h"

#include <linux/vm_sockets.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

namespace warpline::net {

namespace {

constexpr int k_local_backlog = 128;

Error socket_error(const char* what) { return {Code::io, what, static_cast<uint32_t>(errno)}; }

timeval as_timeval(std::chrono::milliseconds time) {
    timeval value{};
    value.tv_sec = time.count() / 1000;
    value.tv_usec = static_cast<suseconds_t>(time.count() % 1000 * 1000);
    return value;
}

Result<sockaddr_un> unix_name(const std::string& path) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof name.sun_path)
        return Error{Code::bad_argument, "the path of a Unix socket has 1 to 107 bytes"};
    std::memcpy(name.sun_path, path.data(), path.size());
    return name;
}

int connect_unix(int fd, const Endpoint& endpoint) {
    const auto name = unix_name(endpoint.host);
    if (!name.ok()) return ENAMETOOLONG;
    return ::connect(fd, reinterpret_cast<const sockaddr*>(&*name), sizeof *name) == 0 ? 0 : errno;
}

int connect_vsock(int fd, const Endpoint& endpoint, std::chrono::milliseconds timeout) {
    const timeval limit = as_timeval(timeout);
    (void)::setsockopt(fd, AF_VSOCK, SO_VM_SOCKETS_CONNECT_TIMEOUT, &limit, sizeof limit);
    sockaddr_vm name{};
    name.svm_family = AF_VSOCK;
    name.svm_port = endpoint.port;
    std::from_chars(endpoint.host.data(), endpoint.host.data() + endpoint.host.size(), name.svm_cid);
    return ::connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0 ? 0 : errno;
}

/// In words for the user.
std::string describe(const Endpoint& endpoint, int error) {
    switch (error) {
        case ENOENT: return "there is no such socket (is gpu-server running?)";
        case ECONNREFUSED: return "connection refused (is gpu-server running there?)";
        case EACCES:
        case EPERM: return "this user may not connect to it (see the server's unix_mode)";
        case EAGAIN:
        case ETIMEDOUT: return "no answer in time";
        case ECONNRESET: return endpoint.kind == Endpoint::Kind::vsock ? "nobody listens there" : std::strerror(error);
        default: return std::strerror(error);
    }
}

}  // namespace

Result<Socket> dial_local(const Endpoint& endpoint, std::chrono::milliseconds timeout, std::string& why) {
    const bool is_unix = endpoint.kind == Endpoint::Kind::unix_socket;
    Socket socket(::socket(is_unix ? AF_UNIX : AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket.valid()) {
        const Error none = socket_error("no such socket can be had");
        why = endpoint.to_string() + ": this machine has no such sockets (" + std::strerror(errno) + ")";
        return none;
    }
    // Of a Unix socket: how long connect() waits for a server that is slow to accept.
    const timeval limit = as_timeval(timeout);
    (void)::setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    const int error = is_unix ? connect_unix(socket.fd(), endpoint) : connect_vsock(socket.fd(), endpoint, timeout);
    const timeval none{};
    (void)::setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &none, sizeof none);
    if (error == 0) return socket;
    why = endpoint.to_string() + ": " + describe(endpoint, error);
    const auto detail = static_cast<uint32_t>(error);
    if (error == EAGAIN || error == ETIMEDOUT) return Error{Code::deadline, "the server does not answer", detail};
    if (error == EACCES || error == EPERM) return Error{Code::denied, "the socket is for others", detail};
    return Error{Code::connect_refused, "the server does not accept connections", detail};
}

Result<Socket> listen_on_unix(const std::string& path, unsigned mode) {
    const sockaddr_un name = WL_TRY(unix_name(path));
    const auto* address = reinterpret_cast<const sockaddr*>(&name);
    // A file that nobody listens at is what a server has left behind; one that is no socket is somebody's.
    struct stat found {};
    if (::lstat(path.c_str(), &found) == 0 && S_ISSOCK(found.st_mode)) {
        const Socket probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (probe.valid() && ::connect(probe.fd(), address, sizeof name) != 0 && errno == ECONNREFUSED)
            (void)::unlink(path.c_str());
    }
    Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket.valid()) return socket_error("socket failed");
    // The file is made with the socket's own mode (Linux): nobody else connects before chmod.
    (void)::fchmod(socket.fd(), 0600);
    if (::bind(socket.fd(), address, sizeof name) != 0) return socket_error("the address cannot be listened on");
    if (::chmod(path.c_str(), mode) != 0 || ::listen(socket.fd(), k_local_backlog) != 0) {
        const Error failed = socket_error("the address cannot be listened on");
        (void)::unlink(path.c_str());
        return failed;
    }
    return socket;
}

Result<Socket> listen_on_vsock(uint16_t port) {
    Socket socket(::socket(AF_VSOCK, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket.valid()) return socket_error("this machine has no vsock");
    sockaddr_vm name{};
    name.svm_family = AF_VSOCK;
    name.svm_cid = VMADDR_CID_ANY;
    name.svm_port = port;
    if (::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0 ||
        ::listen(socket.fd(), k_local_backlog) != 0)
        return socket_error("the address cannot be listened on");
    return socket;
}

}  // namespace warpline::net
