// What a program says of its session to who watches it, so that the server learns of its death (docs/session.md, End).
#pragma once

#include <chrono>
#include <string>

#include "common/base/result.h"
#include "protocol/codec/buffer.h"
#include "protocol/session/open.h"

namespace warpline::client {

struct SessionReport {
    protocol::SessionId session{};
    protocol::SessionKey session_key{};
    std::string server;                  ///< as net::parse_endpoint() reads it
    std::string ca, certificate, key;    ///< files, with absolute paths; "": the program has none
    std::chrono::milliseconds grace{0};  ///< how long the server may keep the session
    bool finished = false;               ///< the session has ended in peace: nothing is left to be told
};

/// @errors alloc_failed
Result<protocol::Buffer> encode_report(const SessionReport& report);

/// @errors malformed
Result<SessionReport> decode_report(BytesView message);

}  // namespace warpline::client
