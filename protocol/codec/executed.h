// When a server executed which call: a list in few bytes (docs/wire-format.md#executed-calls).
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace warpline::protocol {

/// A call as the server executed it, on the server's steady clock.
struct ExecutedCall {
    uint64_t number = 0;
    uint16_t id = 0;      ///< CallId
    uint16_t thread = 0;  ///< of the server's: calls of one thread follow upon each other
    uint64_t begin_ns = 0;
    uint64_t duration_ns = 0;  ///< until its reply was ready to be sent; of a call without one, until it was done

    bool operator==(const ExecutedCall&) const = default;
};

/// No list is longer: who receives one makes room for so many.
inline constexpr size_t k_most_executed_calls = 4096;

/// As they travel: about ten bytes for each call.
Bytes encode_executed(const std::vector<ExecutedCall>& calls);
/// @param count  of the calls, as the event says
/// @errors       malformed: too many, or not that many, or something behind them
Result<std::vector<ExecutedCall>> decode_executed(BytesView bytes, size_t count);

}  // namespace warpline::protocol
