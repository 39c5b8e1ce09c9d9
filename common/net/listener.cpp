// Listening on TCP, and taking connections without being kept from stopping.
#include <fcntl.h>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <atomic>
#include <cerrno>
#include <optional>

#include "common/net/socket.h"

namespace warpline::net {

namespace {

using asio::ip::tcp;

constexpr int k_backlog = 1024;

std::string describe(const std::string& host, uint16_t port, const asio::error_code& error) {
    std::string where = Endpoint{host, port}.to_string();
    if (error == asio::error::address_in_use) return where + ": the port is in use";
    if (error == asio::error::access_denied) return where + ": not permitted (ports below 1024 need privileges)";
    if (error.value() == EADDRNOTAVAIL) return where + ": this machine has no such address";
    return where + ": " + error.message();
}

asio::error_code listen_at(tcp::acceptor& acceptor, const tcp::endpoint& address) {
    asio::error_code error;
    if (acceptor.is_open()) acceptor.close(error);
    acceptor.open(address.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(address, error);
    if (!error) acceptor.listen(k_backlog, error);
    return error;
}

/// Has the acceptor listen on the first address of the host's that it can. The port that it became.
Result<uint16_t> listen_on(tcp::acceptor& acceptor, asio::io_context& io, const std::string& host, uint16_t port,
                           std::string& why) {
    asio::error_code error;
    tcp::resolver resolver(io);
    const auto found = resolver.resolve(host == "*" ? std::string() : host, std::to_string(port),
                                        tcp::resolver::passive | tcp::resolver::numeric_service, error);
    if (error || found.empty()) {
        why = describe(host, port, error ? error : asio::error::host_not_found);
        return Error{Code::bad_argument, "the host to listen on does not resolve"};
    }
    for (const auto& candidate : found) {
        error = listen_at(acceptor, candidate.endpoint());
        if (!error) break;
    }
    const uint16_t bound = error ? 0 : acceptor.local_endpoint(error).port();
    if (!error) return bound;
    why = describe(host, port, error);
    return Error{Code::io, "the address cannot be listened on", static_cast<uint32_t>(error.value())};
}

}  // namespace

Result<Socket> listen_on_tcp(const std::string& host, uint16_t port, uint16_t& bound, std::string& why) {
    try {
        asio::io_context io(1);
        tcp::acceptor acceptor(io);
        bound = WL_TRY(listen_on(acceptor, io, host, port, why));
        Socket socket(acceptor.release());
        // A connection may be gone again between epoll and accept().
        (void)::fcntl(socket.fd(), F_SETFL, ::fcntl(socket.fd(), F_GETFL) | O_NONBLOCK);
        (void)::fcntl(socket.fd(), F_SETFD, FD_CLOEXEC);
        return socket;
    } catch (const std::exception& e) {
        why = Endpoint{host, port}.to_string() + ": " + e.what();
        return Error{Code::io, "cannot listen"};
    }
}

struct Listener::Acceptor {
    asio::io_context io{1};
    tcp::acceptor acceptor{io};
    std::atomic<bool> stopped{false};
};

Listener::Listener(std::unique_ptr<Acceptor> acceptor, uint16_t port) : m_acceptor(std::move(acceptor)), m_port(port) {}
Listener::Listener(Listener&&) noexcept = default;
Listener& Listener::operator=(Listener&&) noexcept = default;
Listener::~Listener() = default;

Result<Listener> Listener::open(const std::string& host, uint16_t port, std::string& why) {
    try {
        auto acceptor = std::make_unique<Acceptor>();
        const uint16_t bound = WL_TRY(listen_on(acceptor->acceptor, acceptor->io, host, port, why));
        return Listener(std::move(acceptor), bound);
    } catch (const std::exception& e) {
        why = Endpoint{host, port}.to_string() + ": " + e.what();
        return Error{Code::io, "cannot listen"};
    }
}

Result<Socket> Listener::accept() {
    Acceptor& own = *m_acceptor;
    tcp::socket peer(own.io);
    std::optional<asio::error_code> outcome;
    own.acceptor.async_accept(peer, [&](const asio::error_code& error) { outcome = error; });
    own.io.restart();
    // Of a connection that has been taken already there may be word, too.
    while (!outcome && !own.stopped.load()) own.io.run_one();
    if (own.stopped.load()) {
        // The handler is not to outlive what it refers to.
        own.acceptor.cancel();
        own.io.restart();
        own.io.run();
        return Error{Code::shutting_down, "the listener was stopped"};
    }
    if (*outcome) return Error{Code::io, "accepting a connection failed", static_cast<uint32_t>(outcome->value())};
    Socket socket(peer.release());
    (void)::fcntl(socket.fd(), F_SETFD, FD_CLOEXEC);
    tune_stream_socket(socket.fd());
    return socket;
}

void Listener::stop() {
    m_acceptor->stopped.store(true);
    m_acceptor->io.stop();
}

}  // namespace warpline::net
