// As whom this side comes to servers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/config/settings.h"
#include "common/net/tls.h"
#include "protocol/codec/preamble.h"

namespace warpline::client {

/// What a server is shown: a certificate, or, on a Unix socket, the user that this process runs as. Copies share what they
/// have. @thread any
class Identity {
public:
    /// Nobody but this process's user.
    Identity() = default;
    /// @param user_on_unix  Unix sockets are shown the user all the same
    explicit Identity(const net::TlsCredentials& credentials, bool user_on_unix = false);

    /// As the options certificate, key, ca and unix_identity say. Files that are not there are no error where a Unix socket
    /// could do without: who dials another server hears of it then.
    /// @param why  set when it fails @errors not_configured, io, bad_argument
    static Result<Identity> load(const config::Settings& settings, std::string& why);

    bool has_certificate() const { return m_certificate != nullptr; }
    /// Fails if none of these servers could be shown anything. @param why  set then, for the user @errors not_configured
    Result<void> suits_any(const std::vector<std::string>& servers, std::string& why) const;

    /// Does the handshake on a socket that dial() has connected: the preamble, and TLS or not.
    ///
    /// @param preamble  `plain` is filled in here
    /// @param key       of the session whose lane this is; none: at the door
    /// @param why       set when it fails: one sentence for the user
    /// @errors          not_configured (no certificate), connection_lost, and those of net::TlsChannel::handshake() and
    ///                  net::PlainChannel::connect()
    /// @blocks          up to the timeout
    Result<std::unique_ptr<net::Channel>> greet(net::Socket socket, const net::Endpoint& server, protocol::Preamble preamble,
                                                const std::optional<std::array<std::byte, 32>>& key,
                                                std::chrono::milliseconds timeout, std::string& why) const;

private:
    struct Certificate;
    std::shared_ptr<Certificate> m_certificate;
    bool m_user_on_unix = true;
    std::string m_missing = "there is no certificate";
};

}  // namespace warpline::client
