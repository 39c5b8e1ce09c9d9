#pragma once

// Times between events that come along with something else: with what the program waits for, or is told of.

#include <bit>
#include <span>
#include <vector>

#include "client/call/call.h"
#include "client/session/waiter.h"
#include "client/state/event_times.h"

namespace warpline::client {

/// True if answers may be asked for ahead of the program.
bool looks_ahead(const Call& call);
/// The number of an event's last record; 0: it has none, or measures nothing.
uint64_t record_of(const Call& call, uint64_t token);
/// True if this is what a time between events is about now.
bool is_newest_record(const Call& call, const EventTimes::Record& record);
/// True if all records of events are this side's, and answers may be asked for ahead.
bool knows_records(const Call& call);

/// Times that the program will probably ask for behind the wait, or the end, that it is about to hear of.
std::vector<EventTimes::Pair> times_behind_wait(const Call& call);
/// As calls have them: start and end, in turn.
void append_events(std::vector<uint64_t>& events, std::span<const EventTimes::Pair> pairs);
/// The times in the reply to wlEventTimes.
std::vector<uint64_t> times_in(const Waiter& waiter);
inline CUresult result_of_time(uint64_t time) { return static_cast<CUresult>(time >> 32); }
inline float milliseconds_of_time(uint64_t time) { return std::bit_cast<float>(static_cast<uint32_t>(time)); }
/// What has come. @param times  of the first of the pairs, or all @thread any
void keep_times(State& state, std::span<const EventTimes::Pair> pairs, std::span<const uint64_t> times);

}  // namespace warpline::client
