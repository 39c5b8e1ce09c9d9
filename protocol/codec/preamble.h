// What comes before TLS.
#pragma once

#include <array>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace warpline::protocol {

using SessionId = std::array<std::byte, 16>;

/// What a connection says in clear text before TLS, so that the supervisor can pass the socket to the right process.
/// docs/session.md#start
struct Preamble {
    enum class Kind : uint16_t { new_session = 1, further_connection = 2, status = 3 };
    Kind kind = Kind::new_session;
    SessionId session{};  ///< zeros for a new one
    /// What the driver must be told before it starts (cuda/abi/driver_settings.h); of new sessions only. In clear text,
    /// before anybody is known: no setting may give a program more than it has without.
    uint64_t driver_settings = 0;
};
inline constexpr size_t k_preamble_bytes = 32;

std::array<std::byte, k_preamble_bytes> encode_preamble(const Preamble& preamble);
/// @errors  malformed, version_mismatch
Result<Preamble> decode_preamble(BytesView bytes);

}  // namespace warpline::protocol
