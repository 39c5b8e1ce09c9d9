// Connecting: to the first address of a host that answers, or to a socket of this machine.
#include <fcntl.h>

#include <asio/connect.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include "common/net/local_sockets.h"
#include "common/net/resolve.h"
#include "common/net/socket.h"

namespace warpline::net {

namespace {

using asio::ip::tcp;
using Clock = std::chrono::steady_clock;

std::string describe(const asio::error_code& error) {
    if (error == asio::error::connection_refused) return "connection refused (is gpu-server running there?)";
    if (error == asio::error::timed_out) return "no answer in time (wrong address, or a firewall?)";
    if (error == asio::error::host_unreachable || error == asio::error::network_unreachable) return "not reachable from here";
    return error.message();
}

// One attempt, until the deadline.
asio::error_code attempt(asio::io_context& io, tcp::socket& socket, const tcp::endpoint& address, Clock::time_point deadline) {
    asio::error_code error;
    socket.open(address.protocol(), error);
    if (error) return error;
    bool done = false;
    socket.async_connect(address, [&](const asio::error_code& outcome) {
        error = outcome;
        done = true;
    });
    io.restart();
    io.run_until(deadline);
    if (done) return error;
    asio::error_code ignored;
    socket.close(ignored);
    io.restart();
    io.run();  // lets the cancelled operation end: it refers to this frame
    return asio::error::timed_out;
}

Result<Socket> connect_each(const Endpoint& endpoint, Clock::time_point deadline, std::string& why) {
    std::vector<std::string> addresses = endpoint.addresses;
    if (addresses.empty()) {
        std::string reason;
        auto found = addresses_of_host(endpoint.host, deadline, reason);
        if (!found.ok()) {
            why = endpoint.to_string() + ": " + reason;
            return found.error();
        }
        addresses = std::move(*found);
    }
    asio::io_context io(1);
    asio::error_code error;
    for (size_t i = 0; i < addresses.size(); ++i) {
        const tcp::endpoint address(asio::ip::make_address(addresses[i], error), endpoint.port);
        if (error) continue;
        tcp::socket socket(io);
        // One that does not answer leaves time for those that may.
        const auto share = (deadline - Clock::now()) / static_cast<int64_t>(addresses.size() - i);
        error = attempt(io, socket, address, Clock::now() + share);
        if (error) continue;
        Socket connected(socket.release());
        int flags = ::fcntl(connected.fd(), F_GETFL);
        (void)::fcntl(connected.fd(), F_SETFL, flags & ~O_NONBLOCK);
        (void)::fcntl(connected.fd(), F_SETFD, FD_CLOEXEC);
        tune_stream_socket(connected.fd());
        return connected;
    }
    why = endpoint.to_string() + ": " + describe(error);
    if (error == asio::error::timed_out) return Error{Code::deadline, "the server does not answer"};
    return Error{Code::connect_refused, "the server does not accept connections", static_cast<uint32_t>(error.value())};
}

}  // namespace

Result<Socket> dial(const Endpoint& endpoint, std::chrono::milliseconds timeout, std::string& why) {
    if (endpoint.kind != Endpoint::Kind::tcp) return dial_local(endpoint, timeout, why);
    try {
        return connect_each(endpoint, Clock::now() + timeout, why);
    } catch (const std::exception& e) {
        why = endpoint.to_string() + ": " + e.what();
        return Error{Code::io, "connecting failed"};
    }
}

}  // namespace warpline::net
