// Where the operator's commands (`gpu-server status`, `gpu-server drain`) find the server that runs on this machine.
#pragma once

#include <sys/un.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/net/socket.h"

/// A Unix socket with a name that the kernel keeps (unix(7), abstract), made of the address that the server listens on: as
/// there is one server for an address, there is one for a name; nothing is left behind by a server that was killed. Both sides
/// look at the other's user (SO_PEERCRED): only the server's own user and root are heard, and believed.
///
/// A connection carries one request, a word, and one answer, a line of JSON; it ends when the operator closes it, or the server
/// ends.
namespace warpline::server {

/// The longest answer.
constexpr size_t k_most_answer_bytes = 128 * 1024;

/// "127.0.0.1:14833", "[::]:14833": as `ready` tells it.
std::string listen_address(const std::string& host, uint16_t port);

/// The server's end, not blocking. @errors io (detail errno: EADDRINUSE if somebody else has the name)
Result<int> listen_for_operators(const std::string& address);

/// True if the other end belongs to our user or to root.
bool is_operator(int socket);

/// A connection to the server that listens on this address, on this machine. @errors connect_refused (none does, or it is not
/// ours), io
Result<net::Socket> connect_as_operator(const std::string& address);

}  // namespace warpline::server
