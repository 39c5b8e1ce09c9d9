// What a worker and the door do alike with a connection at its start.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/net/plain_channel.h"
#include "protocol/session/resume.h"
#include "server/control/control.h"

namespace warpline::server {

/// Does TLS as the server, with a peer that has a certificate. The socket is closed if that fails.
///
/// @param why  set when it fails
/// @blocks     bounded
Result<std::unique_ptr<net::Channel>> greet(const net::TlsContext& tls, net::Socket socket, std::string& why);
/// The same with a peer that is to have the session's key, as it has said: with TLS, or on a Unix socket without.
Result<std::unique_ptr<net::Channel>> greet_by_key(const net::TlsContext& tls, const TakeMessage& take, net::Socket socket,
                                                   const net::PresharedKey& key, std::string& why);
/// The same without TLS with a peer that the kernel names.
Result<std::unique_ptr<net::Channel>> greet_user(const TakeMessage& take, net::Socket socket,
                                                 const net::PlainChannel::WhoIs& who_is, std::string& why);

/// The name of the key that a lane is proved by: its preamble's bytes, as they came.
Bytes lane_identity(const TakeMessage& take);

/// Reads what a lane of a session that goes on begins with. Nothing, with a line in the log, if it is something else.
/// @blocks  bounded
std::optional<protocol::ResumeRequest> read_resume(net::Channel& channel);

/// Sends one last frame, and waits a bounded time until it has been read.
void send_and_end(net::Channel& channel, BytesView frame);

}  // namespace warpline::server
