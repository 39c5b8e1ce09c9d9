// How a session is opened: what is asked of the door, and what it answers (docs/session.md#start).
#pragma once

#include <array>
#include <string>

#include "protocol/codec/preamble.h"
#include "protocol/session/single_frame.h"

namespace warpline::protocol {

/// Who has it is who has the session: lanes are proved by it.
using SessionKey = std::array<std::byte, 32>;

struct OpenRequest {
    std::string client_version;
    uint64_t driver_settings = 0;  ///< what the driver must be told before it starts (cuda/abi/driver_settings.h)
};

struct OpenAnswer {
    SessionId session{};
    SessionKey key{};
    uint32_t expires_seconds = 0;  ///< for the first lane to come
    Code refused = Code::ok;
    std::string reason;  ///< in plain words, when refused
};

/// A whole frame. @errors alloc_failed
Result<Bytes> encode_open(const OpenRequest& request);
Result<Bytes> encode_open_answer(const OpenAnswer& answer);

/// @errors malformed
Result<OpenRequest> decode_open(const Frame& frame);
Result<OpenAnswer> decode_open_answer(const Frame& frame);

}  // namespace warpline::protocol
