// Which users of this machine are let in without a certificate, and as which tenants.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/net/socket.h"

namespace warpline::server {

/// The option `unix_tenants`: who comes by a Unix socket and has no certificate is the tenant that his user is given here.
class UnixTenants {
public:
    /// Nobody.
    UnixTenants() = default;
    /// @param entries  "self" (this process's user, and root), a user's name or number, either with "=TENANT" behind it
    /// @param problem  set when it fails: one sentence for the server's owner
    /// @errors         not_configured (no such user), bad_argument
    static Result<UnixTenants> parse(const std::vector<std::string>& entries, std::string& problem);

    /// @param why  set when it fails: for the client @errors denied @thread any
    Result<std::string> tenant_of(const net::PeerUser& user, std::string& why) const;

private:
    Result<void> add(const std::string& entry, std::string& problem);

    std::map<uint32_t, std::string> m_tenants;
};

}  // namespace warpline::server
