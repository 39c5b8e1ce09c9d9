// Two ends of a TLS connection over loopback, for tests.
#pragma once

#include <gtest/gtest.h>

#include <future>

#include "common/net/certificates.h"
#include "common/net/tls.h"

namespace warpline::net::test {

/// A CA that all tests of a program share: making keys takes time.
inline ThrowawayCa& our_ca() {
    static ThrowawayCa ca = ThrowawayCa::create("test CA").value();
    return ca;
}
inline ThrowawayCa& other_ca() {
    static ThrowawayCa ca = ThrowawayCa::create("another CA").value();
    return ca;
}

inline TlsCredentials server_credentials() {
    static TlsCredentials made = our_ca().issue({"server", TlsRole::server, {"localhost", "127.0.0.1"}}).value();
    return made;
}
inline TlsCredentials client_credentials() {
    static TlsCredentials made = our_ca().issue({"tenant-a", TlsRole::client, {}}).value();
    return made;
}

inline TlsContext context(TlsRole role, const TlsCredentials& credentials) {
    std::string why;
    auto made = TlsContext::create(role, credentials, why);
    EXPECT_TRUE(made.ok()) << why;
    return std::move(made).value();
}

/// Two sockets that are connected over loopback.
struct Sockets {
    Socket client;
    Socket server;
};
inline Sockets loopback() {
    std::string why;
    auto listener = Listener::open("127.0.0.1", 0, why);
    EXPECT_TRUE(listener.ok()) << why;
    auto client = dial({"127.0.0.1", listener->port()}, std::chrono::seconds(5), why);
    EXPECT_TRUE(client.ok()) << why;
    auto server = listener->accept();
    EXPECT_TRUE(server.ok());
    return {std::move(client).value(), std::move(server).value()};
}

/// What one side's handshake came to.
struct Outcome {
    std::unique_ptr<TlsChannel> channel;
    Error error{Code::ok};
    std::string why;
};

inline Outcome shake(const TlsContext& context, Socket socket, const std::string& name, TlsChannel::Options options = {}) {
    Outcome outcome;
    auto made = TlsChannel::handshake(context, std::move(socket), name, options, outcome.why);
    if (made.ok())
        outcome.channel = std::move(made).value();
    else
        outcome.error = made.error();
    return outcome;
}

struct Pair {
    Outcome client;
    Outcome server;
};
inline Pair connect_pair(const TlsCredentials& client, const TlsCredentials& server, const std::string& name = "127.0.0.1",
                         TlsChannel::Options options = {}) {
    Sockets sockets = loopback();
    TlsContext server_context = context(TlsRole::server, server);
    auto accepted =
        std::async(std::launch::async, [&] { return shake(server_context, std::move(sockets.server), "", options); });
    Pair pair;
    pair.client = shake(context(TlsRole::client, client), std::move(sockets.client), name, options);
    pair.server = accepted.get();
    return pair;
}
inline Pair good_pair(TlsChannel::Options options = {}) {
    Pair pair = connect_pair(client_credentials(), server_credentials(), "127.0.0.1", options);
    EXPECT_TRUE(pair.client.channel) << pair.client.why;
    EXPECT_TRUE(pair.server.channel) << pair.server.why;
    return pair;
}

/// Reads until `count` bytes are there or the channel fails.
inline Result<Bytes> read_bytes(Channel& channel, size_t count) {
    Bytes out(count);
    for (size_t have = 0; have < count;) have += WL_TRY(channel.read(MutableBytesView(out).subspan(have)));
    return out;
}
inline Result<void> write_bytes(Channel& channel, BytesView bytes) { return channel.write({&bytes, 1}); }

inline Bytes pattern(size_t size, uint8_t seed = 1) {
    Bytes out(size);
    for (size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(i * 131 + seed + (i >> 8));
    return out;
}

}  // namespace warpline::net::test
