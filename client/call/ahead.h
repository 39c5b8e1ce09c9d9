#pragma once

// Waits that bring more than was asked for: what the program is expected to ask next (state/foresight.h).

#include "client/call/common.h"
#include "client/state/copy_target.h"

namespace warpline::client {

/// cuMemcpyDtoH in the legacy default stream. @blocks for a round trip if the bytes are not here
CUresult read_device(Call& call, const CopyTarget& target, uint64_t source, uint64_t size_bytes);
/// Waits for the legacy default stream, or all streams of the call's context. @blocks for a round trip
CUresult wait_for_default_stream(Call& call);
CUresult wait_for_context(Call& call);
/// Waits for another stream. @blocks for a round trip
CUresult wait_for_stream(Call& call, uint64_t stream);
/// Waits for an event. @blocks for a round trip
CUresult wait_for_event(Call& call, uint64_t token);
/// The time between two events. @blocks for a round trip if it is not here
CUresult elapsed_time(Call& call, uint64_t start_token, uint64_t end_token, float& milliseconds);

}  // namespace warpline::client
