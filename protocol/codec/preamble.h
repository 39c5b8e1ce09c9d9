// What comes first on a connection.
#pragma once

#include <array>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace warpline::protocol {

using SessionId = std::array<std::byte, 16>;

/// Lanes of a session by their purpose.
inline constexpr uint16_t k_command_lane = 0;
inline constexpr uint16_t k_max_bulk_lanes = 4;  ///< lanes 1 to 4 carry parts of long payloads
inline constexpr size_t k_max_lanes = 1 + k_max_bulk_lanes;
inline constexpr bool is_bulk_lane(uint16_t lane) { return lane != k_command_lane && lane < k_max_lanes; }
inline constexpr uint16_t k_death_lane = 0xffff;  ///< of who watches the program, and tells that it is dead

/// What a connection says in clear text before TLS, so that the supervisor can pass the socket to the right process: to the
/// door, or to the worker of a session. The bytes are the name of the session's key as well, so that a handshake with it shows
/// that nobody has changed them. docs/session.md#start
struct Preamble {
    enum class Kind : uint16_t { door = 1, lane = 2 };
    Kind kind = Kind::door;
    SessionId session{};  ///< these three of lanes only; zeros for the door
    uint16_t lane = 0;
    uint32_t epoch = 0;  ///< 0: the session begins; grows with each attempt to continue it
    bool plain = false;  ///< no TLS follows: only on Unix sockets, where the kernel says who comes
};
inline constexpr size_t k_preamble_bytes = 32;

std::array<std::byte, k_preamble_bytes> encode_preamble(const Preamble& preamble);
/// @errors  malformed, version_mismatch
Result<Preamble> decode_preamble(BytesView bytes);

}  // namespace warpline::protocol
