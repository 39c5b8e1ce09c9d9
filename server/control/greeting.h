// What a worker and the door do alike with a connection at its start.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/net/tls.h"
#include "protocol/session/resume.h"
#include "server/control/control.h"

namespace warpline::server {

/// Does TLS as the server. The socket is closed if that fails.
///
/// @param key  the peer is to have; none: it is to have a certificate
/// @param why  set when it fails
/// @blocks     bounded
Result<std::unique_ptr<net::TlsChannel>> greet(const net::TlsContext& tls, net::Socket socket,
                                               std::optional<net::PresharedKey> key, std::string& why);

/// The name of the key that a lane is proved by: its preamble's bytes, as they came.
Bytes lane_identity(const TakeMessage& take);

/// Reads what a lane of a session that goes on begins with. Nothing, with a line in the log, if it is something else.
/// @blocks  bounded
std::optional<protocol::ResumeRequest> read_resume(net::TlsChannel& channel);

/// Sends one last frame, and waits a bounded time until it has been read.
void send_and_end(net::TlsChannel& channel, BytesView frame);

}  // namespace warpline::server
