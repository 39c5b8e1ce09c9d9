// Tests of connections that one side refuses, and of what the other is told.
#include <openssl/ssl.h>
#include <sys/socket.h>

#include "tests/unit/net/tls_pair.h"

namespace warpline::net {
namespace {

using namespace std::chrono_literals;
using namespace test;

bool says(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(TlsRefusal, AnUnknownClientIsToldOnBothSides_F1) {
    auto stranger = other_ca().issue({"mallory", TlsRole::client, {}}).value();
    stranger.ca_pem = our_ca().ca_pem();  // it does believe in the server
    Pair pair = connect_pair(stranger, server_credentials());
    EXPECT_EQ(pair.server.error.code, Code::auth_failed);
    EXPECT_TRUE(says(pair.server.why, "'mallory'")) << pair.server.why;
    EXPECT_TRUE(says(pair.server.why, "was not issued by our certificate authority")) << pair.server.why;
    // In TLS 1.3 the client is through before the server looks at its certificate: the first read tells it.
    ASSERT_TRUE(pair.client.channel) << pair.client.why;
    EXPECT_EQ(read_bytes(*pair.client.channel, 1).error().code, Code::auth_failed);
    EXPECT_TRUE(says(pair.client.channel->explain(), "the server does not accept our certificate"))
        << pair.client.channel->explain();
}

TEST(TlsRefusal, IsToldEvenToAClientThatHasSentMuch_F1) {
    auto stranger = other_ca().issue({"mallory", TlsRole::client, {}}).value();
    stranger.ca_pem = our_ca().ca_pem();
    Sockets sockets = loopback();
    auto server = std::async(std::launch::async, [&] {
        return shake(context(TlsRole::server, server_credentials()), std::move(sockets.server), "");
    });
    Outcome client = shake(context(TlsRole::client, stranger), std::move(sockets.client), "127.0.0.1");
    ASSERT_TRUE(client.channel) << client.why;
    (void)write_bytes(*client.channel, pattern(100000));
    EXPECT_EQ(read_bytes(*client.channel, 1).error().code, Code::auth_failed);
    EXPECT_EQ(server.get().error.code, Code::auth_failed);
}

TEST(TlsRefusal, AnUnknownServerIsToldOnBothSides_F1) {
    auto impostor = other_ca().issue({"impostor", TlsRole::server, {"127.0.0.1"}}).value();
    impostor.ca_pem = our_ca().ca_pem();
    Pair pair = connect_pair(client_credentials(), impostor);
    EXPECT_EQ(pair.client.error.code, Code::auth_failed);
    EXPECT_TRUE(says(pair.client.why, "the server's certificate ('impostor') was not issued by our certificate authority"))
        << pair.client.why;
    EXPECT_EQ(pair.server.error.code, Code::auth_failed);
    EXPECT_TRUE(says(pair.server.why, "the client does not accept our certificate")) << pair.server.why;
}

TEST(TlsRefusal, AServerOfAnotherNameIsRefused_F1) {
    Pair other = connect_pair(client_credentials(), server_credentials(), "gpu.example.com");
    EXPECT_EQ(other.client.error.code, Code::auth_failed);
    EXPECT_TRUE(says(other.client.why, "is not for 'gpu.example.com'")) << other.client.why;
    Pair address = connect_pair(client_credentials(), server_credentials(), "127.0.0.2");
    EXPECT_EQ(address.client.error.code, Code::auth_failed);
    EXPECT_TRUE(says(address.client.why, "is not for '127.0.0.2'")) << address.client.why;
    Pair right = connect_pair(client_credentials(), server_credentials(), "localhost");
    EXPECT_TRUE(right.client.channel) << right.client.why;
    // The CN does not stand in for a missing name.
    Pair common_name = connect_pair(client_credentials(), server_credentials(), "server");
    EXPECT_EQ(common_name.client.error.code, Code::auth_failed);
}

TEST(TlsRefusal, TimeMatters_F1) {
    ThrowawayCa::Request request{"late", TlsRole::client, {}};
    request.starts_in_seconds = -7200;
    request.valid_seconds = 3600;
    Pair expired = connect_pair(our_ca().issue(request).value(), server_credentials());
    EXPECT_EQ(expired.server.error.code, Code::auth_failed);
    EXPECT_TRUE(says(expired.server.why, "has expired")) << expired.server.why;
    request.starts_in_seconds = 3600;
    Pair early = connect_pair(our_ca().issue(request).value(), server_credentials());
    EXPECT_EQ(early.server.error.code, Code::auth_failed);
    EXPECT_TRUE(says(early.server.why, "is not valid yet")) << early.server.why;
}

TEST(TlsRefusal, ACertificateServesOneRoleOnly_F1) {
    Pair pair = connect_pair(server_credentials(), server_credentials());
    EXPECT_EQ(pair.server.error.code, Code::auth_failed);
    auto client_as_server = our_ca().issue({"tenant", TlsRole::client, {"127.0.0.1"}}).value();
    Pair reverse = connect_pair(client_credentials(), client_as_server);
    EXPECT_EQ(reverse.client.error.code, Code::auth_failed);
}

TEST(TlsRefusal, ANamelessTenantIsRefused_F2) {
    auto nameless = our_ca().issue({"bad\nname", TlsRole::client, {}}).value();
    Pair pair = connect_pair(nameless, server_credentials());
    EXPECT_EQ(pair.server.error.code, Code::auth_failed);
    EXPECT_TRUE(says(pair.server.why, "names nobody")) << pair.server.why;
}

// A client by OpenSSL itself, as ours cannot misbehave like this.
void foreign_client(Socket socket, int highest_version) {
    SSL_CTX* ctx = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_max_proto_version(ctx, highest_version);
    SSL* ssl = SSL_new(ctx);
    SSL_set_fd(ssl, socket.fd());
    if (SSL_connect(ssl) == 1) {
        char byte;
        (void)SSL_read(ssl, &byte, 1);
    }
    SSL_free(ssl);
    SSL_CTX_free(ctx);
}

Outcome server_meets(int highest_version) {
    Sockets sockets = loopback();
    auto client = std::async(std::launch::async, [&] { foreign_client(std::move(sockets.client), highest_version); });
    return shake(context(TlsRole::server, server_credentials()), std::move(sockets.server), "");
}

TEST(TlsRefusal, Tls12IsRefused_F1) {
    Outcome outcome = server_meets(TLS1_2_VERSION);
    EXPECT_EQ(outcome.error.code, Code::malformed);
    EXPECT_TRUE(says(outcome.why, "does not speak TLS 1.3")) << outcome.why;
}

TEST(TlsRefusal, AClientWithoutCertificateIsRefused_F1) {
    Outcome outcome = server_meets(TLS1_3_VERSION);
    EXPECT_EQ(outcome.error.code, Code::auth_failed);
    EXPECT_TRUE(says(outcome.why, "presents no certificate")) << outcome.why;
}

Outcome server_gets(BytesView bytes, bool then_close) {
    Sockets sockets = loopback();
    EXPECT_TRUE(sockets.client.write_all(bytes, 5s).ok());
    if (then_close) sockets.client.close();
    TlsChannel::Options options;
    options.handshake_timeout = 200ms;
    return shake(context(TlsRole::server, server_credentials()), std::move(sockets.server), "", options);
}

TEST(TlsRefusal, WhatIsNotTlsIsTold_F3) {
    constexpr std::string_view k_texts[] = {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n",
                                            std::string_view("\x16\x03\x01\x00\x05hello", 10)};
    for (std::string_view text : k_texts) {
        Outcome outcome = server_gets(as_bytes(text), true);
        EXPECT_EQ(outcome.error.code, Code::malformed) << text << ": " << outcome.why;
        EXPECT_FALSE(outcome.why.empty());
    }
    Outcome http = server_gets(as_bytes("GET / HTTP/1.1\r\n\r\n"), true);
    EXPECT_TRUE(says(http.why, "does not speak TLS")) << http.why;
}

TEST(TlsRefusal, SilenceAndAnEarlyEndAreTold_F3) {
    Outcome silent = server_gets(as_bytes("\x16\x03\x01"), false);
    EXPECT_EQ(silent.error.code, Code::deadline);
    EXPECT_TRUE(says(silent.why, "took too long")) << silent.why;
    Outcome ended = server_gets(as_bytes("\x16\x03\x01"), true);
    EXPECT_EQ(ended.error.code, Code::connection_lost);
    EXPECT_TRUE(says(ended.why, "closed the connection")) << ended.why;
}

TEST(TlsRefusal, UnusableCredentialsAreTold_F1) {
    std::string why;
    auto refused = [&](TlsCredentials credentials) {
        auto made = TlsContext::create(TlsRole::client, credentials, why);
        return !made.ok() && made.error().code == Code::auth_failed;
    };
    TlsCredentials good = client_credentials();
    TlsCredentials bad = good;
    bad.ca_pem = "nonsense";
    EXPECT_TRUE(refused(bad) && says(why, "CA file")) << why;
    bad = good;
    bad.certificate_pem = "";
    EXPECT_TRUE(refused(bad) && says(why, "certificate file")) << why;
    bad = good;
    bad.key_pem = bad.certificate_pem;
    EXPECT_TRUE(refused(bad) && says(why, "private key")) << why;
    bad = good;
    bad.key_pem = server_credentials().key_pem;
    EXPECT_TRUE(refused(bad) && says(why, "does not belong")) << why;
}

TEST(TlsRefusal, UnusableCredentialsAreToldByTheHandshakeThatDecodesThem_F1) {
    TlsCredentials bad = client_credentials();
    bad.key_pem = server_credentials().key_pem;
    auto undecoded = TlsContext::create_undecoded(TlsRole::client, bad);
    ASSERT_TRUE(undecoded.ok());
    for (int attempt = 0; attempt < 2; ++attempt) {  // and by each one after it
        Sockets sockets = loopback();
        auto server = std::async(std::launch::async, [&] {
            return shake(context(TlsRole::server, server_credentials()), std::move(sockets.server), "");
        });
        const Outcome client = shake(*undecoded, std::move(sockets.client), "127.0.0.1");
        EXPECT_EQ(client.error.code, Code::auth_failed);
        EXPECT_TRUE(says(client.why, "does not belong")) << client.why;
        EXPECT_EQ(server.get().error.code, Code::connection_lost);
    }
}

TEST(TlsRefusal, AMissingFileIsNamed) {
    std::string why;
    auto loaded = load_credentials("no-such-directory/ca.pem", "a", "b", why);
    EXPECT_EQ(loaded.error().code, Code::not_configured);
    EXPECT_TRUE(says(why, "no-such-directory/ca.pem")) << why;
}

}  // namespace
}  // namespace warpline::net
