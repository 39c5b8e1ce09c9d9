#pragma once

#include <array>
#include <cstdint>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace warpline::server {

/// What a connection says in clear text before TLS, so that the supervisor can route it. docs/session.md#start
struct Preamble {
    static constexpr size_t k_bytes = 32;
    enum class Kind : uint16_t { new_session = 1, further_connection = 2, ping = 3 };

    Kind kind{};
    std::array<uint8_t, 16> session_id{};
};

/// Reads a preamble of exactly k_bytes. @errors malformed (wrong magic, unknown kind, non-zero reserved bytes, an id where none
/// belongs), version_mismatch
Result<Preamble> parse_preamble(BytesView bytes);

}  // namespace warpline::server
