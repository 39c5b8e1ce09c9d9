// What started this server and wants to know how it is: systemd, or who speaks its protocol.
#pragma once

namespace warpline::server {

/// Tells the service manager a state (sd_notify(3): "READY=1", "STATUS=draining"), if one asked to be told by NOTIFY_SOCKET.
/// Its socket not taking it is a line in the log.
///
/// @blocks no
void tell_service_manager(const char* state);

}  // namespace warpline::server
