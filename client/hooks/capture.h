#pragma once

#include "client/hooks/common.h"

namespace warpline::client {

/// What is known of a stream: for CU_STREAM_PER_THREAD the calling thread's own. nullptr: the legacy default stream, which is
/// never captured, or no stream.
Stream* stream_state(const Call& call, uint64_t stream);

/// True while work on this stream becomes part of a graph.
bool is_capturing(const Call& call, uint64_t stream);

/// For calls that may wait for the device, and therefore break a capture: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED if one is
/// broken by this.
CUresult check_unsafe_call(const Call& call);

/// The stream is being destroyed: a capture that it began ends with it.
void forget_capture(Call& call, Stream& stream);

/// Capture spreads by events: one recorded in a captured stream draws the streams that wait for it into the capture.
void note_recorded(const Call& call, uint64_t stream, Event& event);
void join_capture(const Call& call, uint64_t stream, const Event& event);

}  // namespace warpline::client
