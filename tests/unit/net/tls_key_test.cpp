// Channels with a pre-shared key in place of certificates: who has it, who does not, and what a client falls back to.
#include "tests/unit/net/tls_pair.h"

namespace warpline::net {
namespace {

using namespace test;

PresharedKey key_of(uint8_t seed, std::string_view name = "a session") {
    PresharedKey key;
    key.key.fill(static_cast<std::byte>(seed));
    key.identity = Bytes(as_bytes(name).begin(), as_bytes(name).end());
    return key;
}

TlsChannel::Options with(const std::optional<PresharedKey>& key) {
    TlsChannel::Options options;
    options.key = key;
    options.handshake_timeout = std::chrono::milliseconds(5000);
    return options;
}

TlsContext for_keys(TlsRole role) { return TlsContext::create_for_keys(role).value(); }

Pair shake_both(const TlsContext& client, const std::optional<PresharedKey>& clients, const TlsContext& server,
                const std::optional<PresharedKey>& servers) {
    Sockets sockets = loopback();
    auto accepted = std::async(std::launch::async, [&] { return shake(server, std::move(sockets.server), "", with(servers)); });
    Pair pair;
    pair.client = shake(client, std::move(sockets.client), "127.0.0.1", with(clients));
    pair.server = accepted.get();
    return pair;
}

void expect_bytes_pass(Pair& pair) {
    ASSERT_TRUE(pair.client.channel) << pair.client.why;
    ASSERT_TRUE(pair.server.channel) << pair.server.why;
    const Bytes there = pattern(100'000);
    const Bytes back = pattern(50'000, 7);
    auto echoed = std::async(std::launch::async, [&] {
        const auto read = read_bytes(*pair.server.channel, there.size());
        return read.ok() && *read == there && write_bytes(*pair.server.channel, back).ok();
    });
    EXPECT_TRUE(write_bytes(*pair.client.channel, there).ok());
    EXPECT_EQ(read_bytes(*pair.client.channel, back.size()).value(), back);
    EXPECT_TRUE(echoed.get());
}

TEST(TlsKey, WhoHasItNeedsNoCertificate_F1) {
    const TlsContext client = for_keys(TlsRole::client);
    const TlsContext server = for_keys(TlsRole::server);
    Pair pair = shake_both(client, key_of(1), server, key_of(1));
    expect_bytes_pass(pair);
    EXPECT_TRUE(pair.client.channel->proved_by_key());
    EXPECT_TRUE(pair.server.channel->proved_by_key());
    EXPECT_EQ(pair.server.channel->peer_name(), "") << "no certificate was seen";
    EXPECT_EQ(pair.client.channel->cipher(), "TLS_AES_128_GCM_SHA256");
}

TEST(TlsKey, AClientWithCertificatesOffersBothAndShowsNone_F1) {
    const TlsContext client = context(TlsRole::client, client_credentials());
    const TlsContext server = for_keys(TlsRole::server);
    Pair pair = shake_both(client, key_of(1), server, key_of(1));
    expect_bytes_pass(pair);
    EXPECT_TRUE(pair.client.channel->proved_by_key());
}

TEST(TlsKey, WhoHasAnotherIsRefused_F1) {
    const TlsContext client = context(TlsRole::client, client_credentials());
    const TlsContext server = for_keys(TlsRole::server);
    Pair pair = shake_both(client, key_of(2), server, key_of(1));
    EXPECT_FALSE(pair.client.channel);
    EXPECT_FALSE(pair.server.channel);
    EXPECT_EQ(pair.server.error.code, Code::auth_failed) << pair.server.why;
    EXPECT_EQ(pair.client.error.code, Code::auth_failed) << pair.client.why;
    EXPECT_NE(pair.server.why.find("the client does not have the session's key"), std::string::npos) << pair.server.why;
}

TEST(TlsKey, ByAnotherNameItIsRefused_F1) {
    const TlsContext client = context(TlsRole::client, client_credentials());
    const TlsContext server = for_keys(TlsRole::server);
    for (const char* name : {"b session", "a sessio", "a session and more"}) {
        Pair pair = shake_both(client, key_of(1, name), server, key_of(1));
        EXPECT_FALSE(pair.client.channel);
        EXPECT_FALSE(pair.server.channel);
        EXPECT_EQ(pair.server.error.code, Code::auth_failed) << pair.server.why;
    }
}

TEST(TlsKey, ACertificateIsNoKey_F1) {
    const TlsContext client = context(TlsRole::client, client_credentials());
    const TlsContext server = for_keys(TlsRole::server);
    Pair pair = shake_both(client, std::nullopt, server, key_of(1));
    EXPECT_FALSE(pair.client.channel);
    EXPECT_FALSE(pair.server.channel);
    EXPECT_EQ(pair.server.error.code, Code::auth_failed) << pair.server.why;
}

TEST(TlsKey, AServerThatDoesNotHaveItShowsACertificateOrIsRefused_F1) {
    const TlsContext server = context(TlsRole::server, server_credentials());
    Pair pair = shake_both(context(TlsRole::client, client_credentials()), key_of(1), server, std::nullopt);
    expect_bytes_pass(pair);
    EXPECT_FALSE(pair.client.channel->proved_by_key());
    EXPECT_FALSE(pair.server.channel->proved_by_key());
    EXPECT_EQ(pair.server.channel->peer_name(), "tenant-a");

    auto impostor = other_ca().issue({"impostor", TlsRole::server, {"127.0.0.1"}}).value();
    impostor.ca_pem = our_ca().ca_pem();
    const TlsContext false_server = context(TlsRole::server, impostor);
    Pair refused = shake_both(context(TlsRole::client, client_credentials()), key_of(1), false_server, std::nullopt);
    EXPECT_FALSE(refused.client.channel);
    EXPECT_EQ(refused.client.error.code, Code::auth_failed);
    // Who has no certificates to check others with believes nobody.
    Pair blind = shake_both(for_keys(TlsRole::client), key_of(1), server, std::nullopt);
    EXPECT_FALSE(blind.client.channel);
    EXPECT_EQ(blind.client.error.code, Code::auth_failed);
}

TEST(TlsKey, HasToHaveAName_F1) {
    Sockets sockets = loopback();
    const TlsContext client = for_keys(TlsRole::client);
    EXPECT_EQ(shake(client, std::move(sockets.client), "127.0.0.1", with(key_of(1, ""))).error.code, Code::bad_argument);
}

}  // namespace
}  // namespace warpline::net
