// Connections over loopback, with throw-away certificates.
#include "bench/connections.h"

#include <thread>

#include "common/net/certificates.h"

namespace warpline::bench {

using namespace std::chrono_literals;

Result<std::pair<net::Socket, net::Socket>> tcp_pair() {
    std::string why;
    net::Listener listener = WL_TRY(net::Listener::open("127.0.0.1", 0, why));
    net::Socket client = WL_TRY(net::dial({"127.0.0.1", listener.port()}, 5s, why));
    net::Socket server = WL_TRY(listener.accept());
    net::tune_stream_socket(client.fd());
    net::tune_stream_socket(server.fd());
    return std::make_pair(std::move(client), std::move(server));
}

Result<TlsPair> tls_pair() {
    std::string why;
    net::ThrowawayCa ca = WL_TRY(net::ThrowawayCa::create("bench CA"));
    auto server_credentials = WL_TRY(ca.issue({.common_name = "server", .role = net::TlsRole::server, .names = {"127.0.0.1"}}));
    auto client_credentials = WL_TRY(ca.issue({.common_name = "bench", .role = net::TlsRole::client, .names = {}}));
    net::TlsContext server_context = WL_TRY(net::TlsContext::create(net::TlsRole::server, server_credentials, why));
    net::TlsContext client_context = WL_TRY(net::TlsContext::create(net::TlsRole::client, client_credentials, why));
    auto sockets = WL_TRY(tcp_pair());
    Result<std::unique_ptr<net::TlsChannel>> server = Error{Code::internal, "no handshake"};
    std::thread other([&] {
        std::string server_why;
        server = net::TlsChannel::handshake(server_context, std::move(sockets.second), "", {}, server_why);
    });
    auto client = net::TlsChannel::handshake(client_context, std::move(sockets.first), "127.0.0.1", {}, why);
    other.join();
    if (!client.ok()) return client.error();
    if (!server.ok()) return server.error();
    return TlsPair{std::move(client).value(), std::move(server).value()};
}

}  // namespace warpline::bench
