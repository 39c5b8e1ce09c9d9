// Certificates as the settings name them, and the first bytes of a connection.
#include "client/identity/identity.h"

#include <algorithm>
#include <mutex>

#include "common/net/plain_channel.h"

namespace warpline::client {

/// Decoded when it is shown for the first time.
struct Identity::Certificate {
    explicit Certificate(const net::TlsCredentials& files) : credentials(files) {}

    const net::TlsCredentials credentials;
    std::once_flag once;
    std::optional<Result<net::TlsContext>> context;

    const Result<net::TlsContext>& tls() {
        std::call_once(once, [this] { context.emplace(net::TlsContext::create_undecoded(net::TlsRole::client, credentials)); });
        return *context;
    }
};

Identity::Identity(const net::TlsCredentials& credentials, bool user_on_unix)
    : m_certificate(std::make_shared<Certificate>(credentials)), m_user_on_unix(user_on_unix) {}

Result<Identity> Identity::load(const config::Settings& settings, std::string& why) {
    const std::string& on_unix = settings.text("unix_identity");
    if (on_unix != "auto" && on_unix != "user" && on_unix != "certificate") {
        why = "'" + on_unix + "' is no identity (WARPLINE_UNIX_IDENTITY): auto, user or certificate";
        return Error{Code::bad_argument, "no such identity"};
    }
    std::string missing;
    auto credentials = net::load_credentials(settings.path("ca"), settings.path("certificate"), settings.path("key"), missing);
    if (credentials.ok()) return Identity(*credentials, on_unix == "user");
    missing += "; set WARPLINE_CERT, WARPLINE_KEY and WARPLINE_CA to the files that the server's owner gave you";
    if (on_unix == "certificate" || credentials.error().code != Code::not_configured) {
        why = missing;
        return credentials.error();
    }
    Identity user;
    user.m_missing = std::move(missing);
    return user;
}

Result<void> Identity::suits_any(const std::vector<std::string>& servers, std::string& why) const {
    const auto is_local = [](const std::string& server) {
        const auto endpoint = net::parse_endpoint(server);
        return endpoint.ok() && endpoint->is_local();
    };
    if (m_certificate || std::any_of(servers.begin(), servers.end(), is_local)) return {};
    why = m_missing;
    return Error{Code::not_configured, "there is no certificate"};
}

Result<std::unique_ptr<net::Channel>> Identity::greet(net::Socket socket, const net::Endpoint& server,
                                                      protocol::Preamble preamble,
                                                      const std::optional<std::array<std::byte, 32>>& key,
                                                      std::chrono::milliseconds timeout, std::string& why) const {
    preamble.plain = server.is_local() && (m_user_on_unix || !m_certificate);
    if (!preamble.plain && !m_certificate) {
        why = m_missing;
        return Error{Code::not_configured, "there is no certificate"};
    }
    const auto bytes = protocol::encode_preamble(preamble);
    if (auto sent = socket.write_all(bytes, timeout); !sent.ok()) {
        why = server.to_string() + ": the server closed the connection at once";
        return sent.error();
    }
    std::optional<net::PresharedKey> proof;
    if (key) proof = net::PresharedKey{*key, Bytes(bytes.begin(), bytes.end())};
    if (preamble.plain) {
        std::string reason;
        auto channel = net::PlainChannel::connect(std::move(socket), proof, timeout, reason);
        if (!channel.ok()) why = server.to_string() + ": " + (reason.empty() ? channel.error().what : reason);
        return channel;
    }
    // The context is made behind the preamble: it takes milliseconds, in which the server finds who shall answer.
    const Result<net::TlsContext>& tls = m_certificate->tls();
    if (!tls.ok()) return tls.error();
    net::TlsChannel::Options options;
    options.handshake_timeout = timeout;
    options.key = std::move(proof);
    options.any_server_of_ca = server.kind != net::Endpoint::Kind::tcp;
    return std::unique_ptr<net::Channel>(
        WL_TRY(net::TlsChannel::handshake(*tls, std::move(socket), server.host, options, why)));
}

}  // namespace warpline::client
