// The socket at which clients arrive.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "common/base/result.h"

namespace warpline::server {

/// A non-blocking listening socket. Port 0 takes a free one. @errors bad_argument (no such host), io (detail errno)
Result<int> listen_on(const std::string& host, uint16_t port, uint16_t& bound_port);

/// "address:port" of a socket address, for logs; IPv6 in brackets.
std::string describe_address(const sockaddr_storage& address);

/// Splits "host:port", "[v6]:port", "host" or ":port". False if the text is none of them.
bool split_address(const std::string& text, std::string& host, uint16_t& port);

}  // namespace warpline::server
