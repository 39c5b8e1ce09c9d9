// Which times are expected, and where they go.
#include "client/call/expected_times.h"

#include <algorithm>

#include "client/call/send.h"
#include "client/session/connection_to_server.h"
#include "client/session/session.h"
#include "protocol/schema/internal.capnp.h"

namespace warpline::client {

bool looks_ahead(const Call& call) { return call.session.calls().uses(config::Optimisation::prefetch); }

uint64_t record_of(const Call& call, uint64_t token) {
    const Event* event = call.state.events.find(token);
    return event && (event->flags & CU_EVENT_DISABLE_TIMING) == 0 ? event->record.load(std::memory_order_acquire) : 0;
}

bool is_newest_record(const Call& call, const EventTimes::Record& record) {
    const Event* event = call.state.events.find(record.event);
    return event && event->capture_id.load(std::memory_order_relaxed) == 0 && record_of(call, record.event) == record.number;
}

bool knows_records(const Call& call) {
    return looks_ahead(call) && !call.state.device_records_events.load(std::memory_order_relaxed);
}

std::vector<EventTimes::Pair> times_behind_wait(const Call& call) {
    if (!knows_records(call) || call.state.captures.any()) return {};
    return call.state.event_times.expect_behind_wait([&](const auto& record) { return is_newest_record(call, record); });
}

void append_events(std::vector<uint64_t>& events, std::span<const EventTimes::Pair> pairs) {
    for (const EventTimes::Pair& pair : pairs) events.insert(events.end(), {pair.start.event, pair.end.event});
}

std::vector<uint64_t> times_in(const Waiter& waiter) {
    std::vector<uint64_t> times;
    const CUresult read = read_values<wire::WlEventTimesReply>(cuda::CallId::wlEventTimes, waiter,
                                                               [&](auto from) { times = list_of(from.getTimes()); });
    return read == CUDA_SUCCESS ? times : std::vector<uint64_t>();
}

void keep_times(State& state, std::span<const EventTimes::Pair> pairs, std::span<const uint64_t> times) {
    for (size_t i = 0; i < std::min(times.size(), pairs.size()); ++i) {
        if (result_of_time(times[i]) == CUDA_SUCCESS) state.event_times.keep(pairs[i], milliseconds_of_time(times[i]));
    }
}

}  // namespace warpline::client
