// A network interface of this machine whose packets a program reads and writes.
#pragma once

#include <string>

#include "common/net/socket.h"

namespace warpline::bench {

/// Makes one in the thread's network namespace, with an address, and a route to one other address; it is gone when the socket
/// is closed. Reading gives a packet that the kernel sends there, and does not wait.
/// @param why  set when it fails: one sentence for the user
/// @errors     io, denied (needs CAP_NET_ADMIN)
Result<net::Socket> open_tun(const std::string& address, const std::string& peer, int mtu, std::string& why);

}  // namespace warpline::bench
