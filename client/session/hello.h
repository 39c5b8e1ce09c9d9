// What client and server tell each other first.
#pragma once

#include "client/session/connection_to_server.h"

namespace warpline::client {

/// The Hello of this process, encoded.
Result<protocol::Buffer> make_hello(const ConnectionSettings& settings, bool shares_memory);

/// Reads a HelloReply.
///
/// @param why  the server's words if it refused
/// @errors     malformed, and the code that the server refused with
Result<ServerInfo> read_hello_reply(BytesView body, protocol::CreditLimits& credit, std::string& why);

}  // namespace warpline::client
