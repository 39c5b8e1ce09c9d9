// What a server says of its devices, for NVML.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "client/identity/identity.h"
#include "common/base/result.h"
#include "protocol/session/status.h"

namespace warpline::client::nvml {

/// A server that is asked at its door: it costs no session and no worker.
class ServerView {
public:
    /// Reads the settings, and finds the server: of several the one that this program's session is on, else the one that the
    /// policy prefers, which is asked for no place.
    /// @param why  set when it fails: one sentence for the user @errors as those of Identity, Names and Poll @blocks as cuInit
    static Result<std::unique_ptr<ServerView>> open(std::string& why);

    /// @errors as StatusConnection @blocks one round trip, after that of the connection; `connect_timeout` at most @thread any
    Result<protocol::ServerStatus> ask(std::string& why) const;

private:
    ServerView(std::string server, Identity identity, std::chrono::milliseconds patience)
        : m_server(std::move(server)), m_identity(std::move(identity)), m_patience(patience) {}

    const std::string m_server;
    const Identity m_identity;
    const std::chrono::milliseconds m_patience;
};

}  // namespace warpline::client::nvml
