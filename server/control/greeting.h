// What a worker and the door do alike with a connection at its start.
#pragma once

#include <memory>
#include <string>

#include "common/config/settings.h"
#include "common/net/tls.h"
#include "protocol/session/resume.h"
#include "server/control/control.h"

namespace warpline::server {

/// The server's side of TLS, from the files that the settings name. @errors as net::load_credentials() and
/// net::TlsContext::create(), with `problem`
Result<net::TlsContext> server_tls(const config::Settings& settings, std::string& problem);

/// Does TLS with a socket whose preamble names a session, and reads what it wants. The socket is closed if that fails.
///
/// @return  the channel; null, with a line in the log, if it is not to be served
/// @blocks  bounded
std::unique_ptr<net::TlsChannel> greet_again(const net::TlsContext& tls, const TakeMessage& take, net::Socket socket,
                                             protocol::ResumeRequest& request);

/// Sends one last frame, and waits a bounded time until it has been read.
void send_and_end(net::TlsChannel& channel, BytesView frame);

}  // namespace warpline::server
