#pragma once

// Questions about work that goes on. The first one travels; if the answer is "not yet", the server is asked to tell the end,
// and until it does the answer to the next ones is known here: a program that polls pays for one round trip.

#include "client/call/common.h"

namespace warpline::client {

/// True if it is known that the event's record with this number (0: none) is complete.
bool is_complete(const Call& call, const Event& event, uint64_t number);

/// cuEventQuery. @blocks for a round trip if the answer is not known
CUresult query_event(Call& call, uint64_t token, Event& event);

/// cuStreamQuery. @blocks for a round trip if the answer is not known
CUresult query_stream(Call& call, uint64_t token);

}  // namespace warpline::client
