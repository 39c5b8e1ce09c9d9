// Which streams are being captured, and what that makes of the calls on them.
#pragma once

#include "client/call/common.h"

namespace warpline::client {

/// What is known of a stream: for CU_STREAM_PER_THREAD the calling thread's own. nullptr: the legacy default stream, which is
/// never captured, or no stream.
Stream* stream_state(const Call& call, uint64_t stream);

/// The graph that gets what is given to this stream, if the program has named it or been told of it: a token. 0: none.
uint64_t captured_graph(const Call& call, uint64_t stream);

/// True while work on this stream becomes part of a graph.
bool is_capturing(const Call& call, uint64_t stream);

/// The stream is being destroyed: it takes no further part in a capture, and one that it began ends, here and on the server.
/// @blocks for a round trip in that case
void forget_capture(Call& call, uint64_t token, Stream& stream);
/// A context ends, and with it the captures that its streams began.
void forget_captures_of_context(Call& call, uint64_t context);

/// Capture spreads by events: one recorded in a captured stream draws the streams that wait for it into the capture.
void note_record(const Call& call, uint64_t stream, Event& event);
/// None of a green context's streams may be captured. @errors  stream capture unsupported; captures that are concerned break
CUresult check_green_not_captured(const Call& call, uint64_t green);
/// @param external  the wait becomes a node, which draws no stream into a capture
/// @errors  stream capture isolation, merge, invalidated, implicit; illegal state (an external wait outside of captures,
/// DB-54); invalid value (the event's capture has ended, DB-53). Captures that are concerned break
CUresult join_capture(const Call& call, uint64_t stream, const Event& event, bool external);
/// An event that was recorded last in a stream that was being captured is a place in a graph, and none in time.
/// @errors  captured event; invalid value, once the capture has ended (DB-53)
CUresult check_not_captured(const Call& call, const Event& event);
/// The same for calls that ask whether it was reached, or wait for it, which break the capture.
/// @errors  stream capture unsupported, too, as for check_unsafe_call()
CUresult check_wait_for_event(const Call& call, const Event& event);

// --- for the calls that begin and end captures ---

/// The context that a stream's capture belongs to: a thread's own default streams have the same state in all contexts.
uint64_t context_of_capture(const Call& call, const Stream& stream);
/// A stream becomes part of a capture, or begins it.
void take_part(const Call& call, Stream& stream, uint64_t id, bool origin);
/// Ends a capture on all of its streams.
void end_capture(Call& call, uint64_t id);
/// Ends a capture on the server. A graph that is the capture's own ends with an error, or if nobody wants it.
///
/// @blocks for a round trip
CUresult end_on_server(Call& call, uint64_t stream, const Captures::Capture& capture, bool wanted, uint64_t& graph);

}  // namespace warpline::client
