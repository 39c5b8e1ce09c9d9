#pragma once

// Questions about work that goes on. Of what has not left this process the answer is known, "not yet"; else the first one
// travels. If the answer is that, the server is asked to tell the end, and until it does the answer to the next ones is known
// here: a program that polls pays for one round trip at most. And what is known to be done is not waited for again.

#include "client/call/common.h"

namespace warpline::client {

/// True if it is known that the event's record with this number (0: none) is complete.
bool is_complete(const Call& call, const Event& event, uint64_t number);

/// An event has been recorded behind all work of a context, or of a green one: in no stream, and in no capture.
inline void note_recorded_behind_all(const Call& call, Event& event) {
    event.capture_id.store(0);
    event.stream.store(Event::k_no_stream, std::memory_order_relaxed);
    event.given.store(call.number, std::memory_order_relaxed);
    event.identity.store(0, std::memory_order_relaxed);
    event.record.store(call.state.next_record(), std::memory_order_release);
}

/// The program is about to be told that the event's record with this number is complete. @param by  call whose reply tells it
void note_reached(const Call& call, Event& event, uint64_t number, uint64_t by);

/// cuEventQuery. @blocks for a round trip if the answer is not known
CUresult query_event(Call& call, uint64_t token, Event& event);
/// The event has just been recorded, in no capture. If the program has asked about earlier records of it, the server is to tell
/// the end of this one without being asked. @blocks no
void expect_question(Call& call, uint64_t token, Event& event);

/// cuStreamQuery. @blocks for a round trip if the answer is not known
CUresult query_stream(Call& call, uint64_t token);

/// True if nothing that gives work to it was sent since all work of the call's context, or of the stream, was found to be done.
bool is_context_known_idle(const Call& call);
bool is_known_done(const Call& call, uint64_t stream);
/// The call has given a stream a wait for what the program may do later.
inline void note_gate(const Call& call, uint64_t stream) {
    call.state.gates.add({stream, call.scope(), context_of_work(call, stream), call.number});
}
/// True if the stream is known to have passed it.
bool is_over(const Call& call, const Gates::Gate& gate);
/// The call that was just answered has found the stream's work done, and the program is about to be told.
void note_done(const Call& call, uint64_t stream);

}  // namespace warpline::client
