// Addresses to listen on, read and written.
#include "server/daemon/listen_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <memory>

namespace warpline::server {

namespace {

uint16_t port_of(int fd) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
    if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6*>(&address)->sin6_port);
    return ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

Result<int> try_listen(const addrinfo& candidate) {
    const int fd = socket(candidate.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, candidate.ai_protocol);
    if (fd < 0) return Error{Code::io, "socket failed", static_cast<uint32_t>(errno)};
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, candidate.ai_addr, candidate.ai_addrlen) != 0 || listen(fd, 128) != 0) {
        const int error = errno;
        close(fd);
        return Error{Code::io, "the address cannot be listened on", static_cast<uint32_t>(error)};
    }
    return fd;
}

}  // namespace

Result<int> listen_on(const std::string& host, uint16_t port, uint16_t& bound_port) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    const bool anywhere = host.empty() || host == "*";
    if (getaddrinfo(anywhere ? nullptr : host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
        return Error{Code::bad_argument, "the host to listen on does not resolve"};
    }
    std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
    Result<int> result = Error{Code::io, "no address to listen on"};
    for (const addrinfo* candidate = found; candidate != nullptr; candidate = candidate->ai_next) {
        result = try_listen(*candidate);
        if (result.ok()) {
            bound_port = port_of(*result);
            break;
        }
    }
    return result;
}

std::string describe_address(const sockaddr_storage& address) {
    char host[NI_MAXHOST];
    char service[NI_MAXSERV];
    if (getnameinfo(reinterpret_cast<const sockaddr*>(&address), sizeof address, host, sizeof host, service, sizeof service,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        return "unknown address";
    }
    if (address.ss_family == AF_INET6) return "[" + std::string(host) + "]:" + service;
    return std::string(host) + ":" + service;
}

bool split_address(const std::string& text, std::string& host, uint16_t& port) {
    std::string port_text;
    if (!text.empty() && text.front() == '[') {
        const size_t end = text.find(']');
        if (end == std::string::npos) return false;
        host = text.substr(1, end - 1);
        if (end + 1 == text.size()) return true;
        if (text[end + 1] != ':') return false;
        port_text = text.substr(end + 2);
    } else {
        const size_t colon = text.rfind(':');
        if (colon == std::string::npos || text.find(':') != colon) {  // no port, or a bare IPv6 address
            host = text;
            return !text.empty();
        }
        host = text.substr(0, colon);
        port_text = text.substr(colon + 1);
    }
    const auto [end, error] = std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
    return error == std::errc{} && end == port_text.data() + port_text.size();
}

}  // namespace warpline::server
