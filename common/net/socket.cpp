// Reading and writing a socket with deadlines.
#include "common/net/socket.h"

#include <arpa/inet.h>
#include <linux/vm_sockets.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <asio/ip/tcp.hpp>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "common/base/distance.h"
#include "common/net/resolve.h"

namespace warpline::net {

namespace {

using Clock = std::chrono::steady_clock;

// Waits until the socket is ready. False when the deadline passed.
Result<bool> wait_ready(int fd, short events, Clock::time_point deadline) {
    for (;;) {
        auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
        pollfd entry{fd, events, 0};
        int ready = ::poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30)));
        if (ready > 0) return true;
        if (ready == 0) return false;
        if (errno != EINTR) return Error{Code::io, "waiting for a socket failed", static_cast<uint32_t>(errno)};
    }
}

bool is_transient(int error) { return error == EINTR || error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
    if (this != &other) {
        close();
        m_fd = other.release();
    }
    return *this;
}

int Socket::release() { return std::exchange(m_fd, -1); }

void Socket::close() {
    if (m_fd >= 0) ::close(release());
}

void Socket::shutdown() {
    if (m_fd >= 0) ::shutdown(m_fd, SHUT_RDWR);
}

Result<void> Socket::write_all(BytesView bytes, std::chrono::milliseconds timeout) {
    auto deadline = Clock::now() + timeout;
    while (!bytes.empty()) {
        ssize_t sent = ::send(m_fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            bytes = bytes.subspan(static_cast<size_t>(sent));
            continue;
        }
        if (!is_transient(errno)) return Error{Code::connection_lost, "sending failed", static_cast<uint32_t>(errno)};
        if (!WL_TRY(wait_ready(m_fd, POLLOUT, deadline))) return Error{Code::deadline, "sending took too long"};
    }
    return {};
}

Result<void> Socket::read_exact(MutableBytesView bytes, std::chrono::milliseconds timeout) {
    auto deadline = Clock::now() + timeout;
    while (!bytes.empty()) {
        ssize_t got = ::recv(m_fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (got > 0) {
            bytes = bytes.subspan(static_cast<size_t>(got));
            continue;
        }
        if (got == 0) return Error{Code::connection_lost, "the other side has closed the connection"};
        if (!is_transient(errno)) return Error{Code::connection_lost, "receiving failed", static_cast<uint32_t>(errno)};
        if (!WL_TRY(wait_ready(m_fd, POLLIN, deadline))) return Error{Code::deadline, "receiving took too long"};
    }
    return {};
}

std::string Socket::peer_address() const {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    // As a rule it has reset the connection already.
    if (::getpeername(m_fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return "a peer that has left";
    char text[INET6_ADDRSTRLEN] = "";
    if (address.ss_family == AF_INET) {
        auto* v4 = reinterpret_cast<sockaddr_in*>(&address);
        ::inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
        return Endpoint{text, ntohs(v4->sin_port)}.to_string();
    }
    if (address.ss_family == AF_INET6) {
        auto* v6 = reinterpret_cast<sockaddr_in6*>(&address);
        ::inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
        return Endpoint{text, ntohs(v6->sin6_port)}.to_string();
    }
    if (const auto user = peer_user(m_fd)) return "user:" + std::to_string(user->user) + ":" + std::to_string(user->process);
    if (address.ss_family == AF_VSOCK) {
        auto* vsock = reinterpret_cast<sockaddr_vm*>(&address);
        return "vsock:" + std::to_string(vsock->svm_cid) + ":" + std::to_string(vsock->svm_port);
    }
    return "";
}

std::optional<PeerUser> peer_user(int fd) {
    int family = 0;
    socklen_t length = sizeof family;
    ucred peer{};
    socklen_t peer_length = sizeof peer;
    // Of other sockets it has an answer as well, which says nothing.
    if (::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length) != 0 || family != AF_UNIX) return std::nullopt;
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_length) != 0) return std::nullopt;
    return PeerUser{peer.uid, peer.pid};
}

bool peer_has_ended(int fd, int process, std::chrono::milliseconds patience) {
    constexpr int k_peer_pidfd = 77;  // SO_PEERPIDFD, which headers of older kernels do not have
    const auto peer = peer_user(fd);
    if (!peer || process <= 0 || peer->process != process) return false;
    int found = -1;
    socklen_t length = sizeof found;
    // Of one that is not there any more, kernels say one or the other; those without the option say ENOPROTOOPT.
    if (::getsockopt(fd, SOL_SOCKET, k_peer_pidfd, &found, &length) != 0) return errno == ESRCH || errno == EINVAL;
    pollfd ended{found, POLLIN, 0};
    const int ready = ::poll(&ended, 1, static_cast<int>(patience.count()));
    ::close(found);
    return ready == 1;
}

const char* to_string(Endpoint::Kind kind) {
    constexpr const char* k_names[] = {"tcp", "unix", "vsock"};
    return k_names[static_cast<size_t>(kind)];
}

std::string Endpoint::to_string() const {
    if (kind == Kind::unix_socket) return "unix:" + host;
    if (kind == Kind::vsock) return "vsock:" + host + ":" + std::to_string(port);
    bool is_v6 = host.find(':') != std::string::npos;
    std::string text = is_v6 ? "[" + host + "]" : host;
    for (size_t i = 0; i < addresses.size(); ++i) text += (i == 0 ? '[' : ' ') + addresses[i];
    if (!addresses.empty()) text += ']';
    return text + ":" + std::to_string(port);
}

namespace {

/// The addresses between the brackets of "host[1.2.3.4 ::1]". False: one of them is none.
bool parse_addresses(std::string_view text, std::vector<std::string>& addresses) {
    for (;;) {
        const size_t space = std::min(text.find(' '), text.size());
        addresses.emplace_back(text.substr(0, space));
        if (!is_numeric_address(addresses.back())) return false;
        if (space == text.size()) return true;
        text.remove_prefix(space + 1);
    }
}

}  // namespace

namespace {

constexpr Error k_bad_port{Code::bad_argument, "a port is a number from 1 to 65535"};

Result<uint16_t> parse_port(std::string_view text) {
    unsigned number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || number == 0 || number > 65535) return k_bad_port;
    return static_cast<uint16_t>(number);
}

Result<Endpoint> parse_unix(std::string_view path) {
    if (path.empty() || path.size() >= sizeof(sockaddr_un::sun_path) || path.find_first_of(" \t\r\n") != std::string::npos)
        return Error{Code::bad_argument, "not a Unix socket: write unix:PATH, of 107 bytes at most"};
    return Endpoint{std::string(path), 0, {}, Endpoint::Kind::unix_socket};
}

Result<Endpoint> parse_vsock(std::string_view text, uint16_t default_port) {
    const size_t colon = std::min(text.find(':'), text.size());
    uint32_t machine = 0;
    const std::string_view cid = text.substr(0, colon);
    const auto [end, error] = std::from_chars(cid.data(), cid.data() + cid.size(), machine);
    if (error != std::errc{} || end != cid.data() + cid.size() || cid.empty())
        return Error{Code::bad_argument, "not a vsock: write vsock:CID or vsock:CID:PORT"};
    Endpoint endpoint{std::to_string(machine), default_port, {}, Endpoint::Kind::vsock};
    if (colon < text.size()) endpoint.port = WL_TRY(parse_port(text.substr(colon + 1)));
    return endpoint;
}

}  // namespace

Result<Endpoint> parse_endpoint(std::string_view text, uint16_t default_port) {
    if (text.starts_with("unix:")) return parse_unix(text.substr(5));
    if (text.starts_with("vsock:")) return parse_vsock(text.substr(6), default_port);
    constexpr Error k_bad{Code::bad_argument, "not a server: write host, host:port or [address]:port"};
    Endpoint endpoint;
    endpoint.port = default_port;
    std::string_view port;
    if (const size_t begin = text.find('['); begin != std::string_view::npos) {
        size_t end = text.find(']');
        if (end == std::string_view::npos || end < begin) return k_bad;
        const std::string_view inside = text.substr(begin + 1, end - begin - 1);
        endpoint.host = begin == 0 ? inside : text.substr(0, begin);
        if (begin > 0 && !parse_addresses(inside, endpoint.addresses)) return k_bad;
        std::string_view rest = text.substr(end + 1);
        if (!rest.empty() && !rest.starts_with(':')) return k_bad;
        if (!rest.empty()) port = rest.substr(1);
        if (!rest.empty() && port.empty()) return k_bad;
    } else {
        size_t colon = text.find(':');
        // More than one colon and no brackets: an IPv6 address without a port.
        bool bare_v6 = colon != std::string_view::npos && text.find(':', colon + 1) != std::string_view::npos;
        endpoint.host = bare_v6 ? text : text.substr(0, colon);
        if (!bare_v6 && colon != std::string_view::npos) {
            port = text.substr(colon + 1);
            if (port.empty()) return k_bad;
        }
    }
    if (endpoint.host.empty() || endpoint.host.find_first_of(" \t\r\n/@") != std::string::npos) return k_bad;
    if (!port.empty()) {
        const auto number = parse_port(port);
        if (!number.ok()) return k_bad;
        endpoint.port = *number;
    }
    return endpoint;
}

namespace {

/// One end of a connection; nothing if it has no address of the internet's.
std::optional<asio::ip::address> address_of(int fd, int (*get)(int, sockaddr*, socklen_t*)) {
    asio::ip::tcp::endpoint end;
    auto size = static_cast<socklen_t>(end.capacity());
    const bool known = get(fd, end.data(), &size) == 0 && size <= end.capacity();
    if (!known || (end.data()->sa_family != AF_INET && end.data()->sa_family != AF_INET6)) return std::nullopt;
    return end.address();
}

std::atomic<bool> g_bbr{true};

bool peer_is_this_machine(int fd) {
    const auto here = address_of(fd, ::getsockname);
    return here && here == address_of(fd, ::getpeername);
}

}  // namespace

void use_bbr(bool wanted) { g_bbr.store(wanted, std::memory_order_relaxed); }

const char* congestion_control_for(bool is_this_machine, uint64_t round_trip_us) {
    // Between two processes of one machine there is nothing to be congested, and a control that paces what it sends (BBR) sets
    // a timer for each piece: with it one connection does half as much. Every kernel has this one.
    if (is_this_machine) return "reno";
    return g_bbr.load(std::memory_order_relaxed) && round_trip_us >= k_far_round_trip_us ? "bbr" : nullptr;
}

void tune_stream_socket(int fd) {
    int on = 1;
    const auto path = tcp_path(fd);
    if (const char* control = congestion_control_for(peer_is_this_machine(fd), path ? path->round_trip_us : 0))
        (void)::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control, static_cast<socklen_t>(std::strlen(control)));
    // No Nagle: what is written is already gathered. Buffer sizes are left to the kernel, which grows them with the link; a
    // fixed size would be cut to net.core.wmem_max, which is small by default. All of this fails harmlessly on Unix sockets.
    (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

void bound_unsent(int fd, uint64_t bytes) {
    const auto most = static_cast<int>(std::min<uint64_t>(bytes, std::numeric_limits<int>::max()));
    (void)::setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most, sizeof most);
}

}  // namespace warpline::net
