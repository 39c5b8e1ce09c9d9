// What is done for a program that is dead: its server is told, so that it does not wait for it.
#pragma once

#include "client/identity/identity.h"
#include "client/report/session_report.h"

namespace warpline::cli {

/// Tells the server that the program of this session is dead, again and again until it has heard it, or has forgotten the
/// session by itself. The session's key is the proof.
/// @blocks  up to the session's grace time, if the server cannot be reached
void tell_death(const client::SessionReport& session, const client::Identity& identity);

}  // namespace warpline::cli
