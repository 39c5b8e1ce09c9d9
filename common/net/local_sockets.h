// Sockets that reach no further than one machine and the virtual ones on it.
#pragma once

#include "common/net/socket.h"

namespace warpline::net {

/// dial() for Unix sockets and vsock.
Result<Socket> dial_local(const Endpoint& endpoint, std::chrono::milliseconds timeout, std::string& why);

}  // namespace warpline::net
