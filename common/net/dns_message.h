// What a DNS server's answer says (RFC 1035, 2782, 3596).
#pragma once

#include "common/base/bytes.h"
#include "common/net/resolve.h"

namespace warpline::net {

/// The addresses in an answer, and the least time to live of all records that lead to them. None: they are empty.
/// @errors malformed
Result<DnsAddresses> read_addresses(BytesView message);

/// The services in an answer, by priority; without a host's address. None: they are empty. @errors malformed
Result<DnsServices> read_services(BytesView message);

}  // namespace warpline::net
