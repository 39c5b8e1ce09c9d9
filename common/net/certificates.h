// Certificates that are made for one run or one test.
#pragma once

#include <string>
#include <vector>

#include "common/net/tls.h"

namespace warpline::net {

/// A certificate authority that lives in memory: for `warpline run --local` and for tests.
class ThrowawayCa {
public:
    /// @errors  internal
    static Result<ThrowawayCa> create(const std::string& name);
    ThrowawayCa(ThrowawayCa&&) noexcept;
    ThrowawayCa& operator=(ThrowawayCa&&) noexcept;
    ~ThrowawayCa();

    std::string ca_pem() const;

    struct Request {
        std::string common_name;  ///< on a client's certificate: the tenant
        TlsRole role = TlsRole::client;
        std::vector<std::string> names;  ///< host names and IP addresses, for a server
        int valid_seconds = 24 * 3600;
        int starts_in_seconds = -300;  ///< clocks differ
    };
    /// Makes a P-256 key and a certificate for it. @errors internal, bad_argument (a name that is none, or the authority's own)
    Result<TlsCredentials> issue(const Request& request) const;

private:
    struct State;
    explicit ThrowawayCa(std::unique_ptr<State> state);
    std::unique_ptr<State> m_state;
};

/// A CA, a server certificate for localhost, 127.0.0.1 and ::1, and a client certificate of tenant "local", written to a
/// directory as ca.pem, server.pem, server.key, client.pem, client.key, readable by the owner only. The CA's key is not kept.
/// @errors  io, internal
Result<void> write_local_certificates(const std::string& directory);

}  // namespace warpline::net
