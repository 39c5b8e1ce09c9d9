// Accepting connections without being kept from stopping.
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <cerrno>

#include "common/net/socket.h"

namespace warpline::net {

namespace {

using asio::ip::tcp;

constexpr int k_backlog = 1024;

std::string describe(const std::string& address, uint16_t port, const asio::error_code& error) {
    std::string where = Endpoint{address, port}.to_string();
    if (error == asio::error::address_in_use) return where + ": the port is in use";
    if (error == asio::error::access_denied) return where + ": not permitted (ports below 1024 need privileges)";
    if (error.value() == EADDRNOTAVAIL) return where + ": this machine has no such address";
    return where + ": " + error.message();
}

}  // namespace

Listener::Listener(Socket socket, Socket wake, uint16_t port)
    : m_socket(std::move(socket)), m_wake(std::move(wake)), m_port(port) {}
Listener::Listener(Listener&&) noexcept = default;
Listener& Listener::operator=(Listener&&) noexcept = default;
Listener::~Listener() = default;

Result<Listener> Listener::open(const std::string& address, uint16_t port, std::string& why) {
    try {
        asio::io_context io(1);
        asio::error_code error;
        tcp::resolver resolver(io);
        auto found =
            resolver.resolve(address, std::to_string(port), tcp::resolver::passive | tcp::resolver::numeric_service, error);
        if (!error && found.empty()) error = asio::error::host_not_found;
        tcp::acceptor acceptor(io);
        uint16_t bound = 0;
        if (!error) {
            tcp::endpoint local = found.begin()->endpoint();
            acceptor.open(local.protocol(), error);
            if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
            if (!error) acceptor.bind(local, error);
            if (!error) acceptor.listen(k_backlog, error);
            if (!error) bound = acceptor.local_endpoint(error).port();
        }
        if (error) {
            why = describe(address, port, error);
            return Error{Code::io, "cannot listen", static_cast<uint32_t>(error.value())};
        }
        Socket wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        if (!wake.valid()) return Error{Code::io, "no event descriptor", static_cast<uint32_t>(errno)};
        Socket socket(acceptor.release());
        // A connection may be gone again between poll() and accept().
        (void)::fcntl(socket.fd(), F_SETFL, ::fcntl(socket.fd(), F_GETFL) | O_NONBLOCK);
        (void)::fcntl(socket.fd(), F_SETFD, FD_CLOEXEC);
        return Listener(std::move(socket), std::move(wake), bound);
    } catch (const std::exception& e) {
        why = Endpoint{address, port}.to_string() + ": " + e.what();
        return Error{Code::io, "cannot listen"};
    }
}

Result<Socket> Listener::accept() {
    for (;;) {
        pollfd entries[2] = {{m_socket.fd(), POLLIN, 0}, {m_wake.fd(), POLLIN, 0}};
        if (::poll(entries, 2, -1) < 0 && errno != EINTR)
            return Error{Code::io, "waiting for connections failed", static_cast<uint32_t>(errno)};
        if (entries[1].revents != 0) return Error{Code::shutting_down, "the listener was stopped"};
        if ((entries[0].revents & POLLIN) == 0) continue;
        int fd = ::accept4(m_socket.fd(), nullptr, nullptr, SOCK_CLOEXEC);
        if (fd >= 0) {
            tune_stream_socket(fd);
            return Socket(fd);
        }
        // What concerns the one connection only, or passes: the next one may be fine.
        bool passing = errno == EINTR || errno == EAGAIN || errno == ECONNABORTED || errno == EPROTO || errno == EPERM ||
                       errno == ENETDOWN || errno == EHOSTUNREACH || errno == ENETUNREACH;
        if (!passing) return Error{Code::io, "accepting a connection failed", static_cast<uint32_t>(errno)};
    }
}

void Listener::stop() {
    uint64_t one = 1;
    (void)!::write(m_wake.fd(), &one, sizeof one);
}

}  // namespace warpline::net
