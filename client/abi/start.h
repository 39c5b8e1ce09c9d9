// How a session begins.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "client/session/session.h"
#include "client/state/state.h"
#include "common/config/settings.h"

namespace warpline::client {

/// Connects to the best of the configured servers (docs/session.md, "Choosing a server"), or the next best if that one refuses;
/// prepares the state for its devices.
///
/// @param on_end  see Session::connect
/// @param why     set when it fails: one line for the user that says what to do
Result<std::unique_ptr<Session>> start_session(State& state, const config::Settings& settings,
                                               std::function<void(CUresult)> on_end, std::string& why);

}  // namespace warpline::client
