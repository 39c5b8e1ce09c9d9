#pragma once

#include "client/hooks/common.h"

namespace warpline::client {

/// What is known of a stream: for CU_STREAM_PER_THREAD the calling thread's own. nullptr: the legacy default stream, which is
/// never captured, or no stream.
Stream* stream_state(const Call& call, uint64_t stream);

/// True while work on this stream becomes part of a graph.
bool is_capturing(const Call& call, uint64_t stream);

/// The stream is being destroyed: it takes no further part in a capture, and one that it began ends, here and on the server.
/// @blocks for a round trip in that case
void forget_capture(Call& call, uint64_t token, Stream& stream);
/// A context ends, and with it the captures that its streams began.
void forget_captures_of_context(Call& call, uint64_t context);

/// Capture spreads by events: one recorded in a captured stream draws the streams that wait for it into the capture.
void note_recorded(const Call& call, uint64_t stream, Event& event);
/// @errors  stream capture isolation, merge, invalidated, implicit, captured event; captures that are concerned break
CUresult join_capture(const Call& call, uint64_t stream, const Event& event);
/// An event that was recorded last in a stream that was being captured is a place in a graph: it cannot be asked or waited for.
inline CUresult check_not_captured(const Event& event) {
    return event.capture_id.load() != 0 ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

}  // namespace warpline::client
