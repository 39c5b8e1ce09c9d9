// When device memory may be read before the program asks for it: while nothing but a new call could change it.
#include "client/call/ahead.h"

#include <algorithm>
#include <span>

#include "client/call/completion.h"
#include "client/call/expected_times.h"
#include "client/call/pages_along.h"
#include "client/gen/context_calls.gen.h"
#include "client/gen/copy_calls.gen.h"
#include "client/gen/event_calls.gen.h"
#include "client/gen/internal_calls.gen.h"
#include "client/gen/stream_calls.gen.h"
#include "client/session/connection_to_server.h"
#include "common/log/log.h"

namespace warpline::client {

namespace {

using Kind = Question::Kind;

/// What wlReadAhead waits for before it reads.
enum class After : uint32_t { nothing, context, default_stream };

/// True if all that the device was given is done once the legacy default stream of the call's context is: then what memory
/// holds stays as it is until the next call.
bool is_quiet_after_wait(const Call& call) {
    return !call.state.works_beside_default.load(std::memory_order_relaxed) && !call.state.captures.any();
}

/// What is asked along with a question, and what came of it.
class Along {
public:
    Along(Call& call, const Question& asked) : m_call(call), m_asked(asked) {
        if (call.pages) call.pages->choose(call);
        if (!looks_ahead(call)) return;
        m_expected = call.state.foresight.expect(asked, call.session.last_number());
        leave_out_what_may_change();
        for (const Question& pair : m_expected.times) {
            m_pairs.push_back({pair, record_of(call, pair.a), record_of(call, pair.b), 0});
            m_events.insert(m_events.end(), {pair.a, pair.b});
        }
        if (asked.kind == Kind::elapsed) return;
        m_further = times_behind_wait(call);
        m_further.resize(std::min(m_further.size(), EventTimes::k_most_pairs - m_pairs.size()));
        append_events(m_events, m_further);
    }

    bool empty() const { return m_expected.empty() && m_events.empty() && !has_pages(); }
    bool has_pages() const { return m_call.pages && !m_call.pages->empty(); }
    const std::vector<uint64_t>& events() const { return m_events; }

    /// cuMemcpyDtoH of the question's own read, and what is read along. @param after  instead of an own read
    CUresult read(After after, const CopyTarget* own) {
        std::vector<uint64_t> ranges;
        if (own) ranges = {m_asked.a, m_asked.b};
        for (const Question& read : m_expected.reads) ranges.insert(ranges.end(), {read.a, read.b});
        Bytes bytes;
        gen::WlReadAheadValues values;
        const CopyTarget target = CopyTarget::into(bytes);
        const std::vector<uint64_t> none;
        const CUresult result = gen::request_wlReadAhead(m_call, static_cast<uint32_t>(after), ranges, m_events,
                                                         has_pages() ? m_call.pages->ranges() : none, target, values);
        if (result == CUDA_SUCCESS) return take(ranges, values, bytes, own);
        return result;
    }

    /// @param times  of the first of the pairs that were asked for, or all
    void take_times(const std::vector<uint64_t>& times) {
        const size_t count = std::min(times.size(), m_pairs.size());
        for (size_t i = 0; i < count; ++i) {
            if (result_of_time(times[i]) != CUDA_SUCCESS) continue;
            m_pairs[i].milliseconds = milliseconds_of_time(times[i]);
            m_times.push_back(m_pairs[i]);
        }
        keep_times(m_call.state, m_further, std::span(times).subspan(count));
    }

    /// The answer to a question for a time, for when it is asked again.
    void keep(const Foresight::Time& time) { m_times = {time}; }

    /// The question is answered, whatever came along.
    CUresult done(CUresult result) {
        if (looks_ahead(m_call) && result == CUDA_SUCCESS)
            m_call.state.foresight.answered(m_asked, m_call.number, std::move(m_reads), std::move(m_times));
        return result;
    }

private:
    void leave_out_what_may_change() {
        const State& state = m_call.state;
        if (!is_quiet_after_wait(m_call)) {
            m_expected.reads.clear();
            m_expected.keeps_own = false;
        }
        for (Question& read : m_expected.reads) {
            const auto range = state.memory.find(read.a);
            read.b = range ? std::min(read.b, range->base + range->size_bytes - read.a) : 0;
        }
        std::erase_if(m_expected.reads,
                      [&](const Question& read) { return read.b == 0 || !state.memory.contains(read.a, read.b); });
        const bool times_are_known = !state.device_records_events.load(std::memory_order_relaxed);
        std::erase_if(m_expected.times, [&](const Question& pair) {
            return !times_are_known || record_of(m_call, pair.a) == 0 || record_of(m_call, pair.b) == 0;
        });
    }

    CUresult take(const std::vector<uint64_t>& ranges, const gen::WlReadAheadValues& values, const Bytes& bytes,
                  const CopyTarget* own) {
        size_t offset = 0;
        for (size_t i = 0; i < values.read && 2 * i + 1 < ranges.size(); ++i) {
            const uint64_t size_bytes = ranges[2 * i + 1];
            if (size_bytes > bytes.size() - offset) return malformed();
            const BytesView part = BytesView(bytes).subspan(offset, size_bytes);
            offset += size_bytes;
            const bool is_own = own && i == 0;
            if (is_own) own->write(0, part);
            if (!is_own || m_expected.keeps_own)
                m_reads.push_back({{Kind::read, ranges[2 * i], size_bytes}, Bytes(part.begin(), part.end())});
        }
        if (own && values.read == 0) return malformed();
        if (values.pagesRead && has_pages())
            m_call.pages->bytes.assign(bytes.begin() + static_cast<ptrdiff_t>(offset), bytes.end());
        take_times(values.times);
        return CUDA_SUCCESS;
    }

    CUresult malformed() const {
        WL_LOG(error, "client", "the reply to {} has another number of bytes than it says", cuda::call_name(m_call.id));
        return CUDA_ERROR_UNKNOWN;
    }

    Call& m_call;
    const Question m_asked;
    Foresight::Expected m_expected;
    std::vector<uint64_t> m_events;
    std::vector<Foresight::Time> m_pairs;     // that m_events begin with, without an answer
    std::vector<EventTimes::Pair> m_further;  // and go on with
    std::vector<Foresight::Time> m_times;
    std::vector<Foresight::Read> m_reads;
};

}  // namespace

CUresult read_device(Call& call, const CopyTarget& target, uint64_t source, uint64_t size_bytes) {
    if (size_bytes > Foresight::k_max_read_bytes || !target.is_linear())
        return gen::request_cuMemcpyDtoH_v2(call, source, size_bytes, target);
    const Question asked{Kind::read, source, size_bytes};
    if (looks_ahead(call) && call.state.foresight.take_read(asked, call.session.last_number(), target.base))
        return CUDA_SUCCESS;
    Along along(call, asked);
    return along.done(along.empty() ? gen::request_cuMemcpyDtoH_v2(call, source, size_bytes, target)
                                    : along.read(After::nothing, &target));
}

CUresult wait_for_default_stream(Call& call) {
    Along along(call, {Kind::default_stream, call.scope(), 0});
    constexpr uint64_t k_legacy_token = 1;
    return along.done(along.empty() ? gen::request_cuStreamSynchronize(call, k_legacy_token)
                                    : along.read(After::default_stream, nullptr));
}

CUresult wait_for_context(Call& call) {
    Along along(call, {Kind::context, call.scope(), 0});
    return along.done(along.empty() ? gen::request_cuCtxSynchronize(call) : along.read(After::context, nullptr));
}

CUresult wait_for_stream(Call& call, uint64_t stream) {
    if (call.pages) call.pages->choose(call);
    if (!call.pages || call.pages->empty()) {
        const auto pairs = times_behind_wait(call);
        if (pairs.empty()) return gen::request_cuStreamSynchronize(call, stream);
        std::vector<uint64_t> events;
        append_events(events, pairs);
        gen::WlEventTimesValues values;
        const CUresult result = gen::request_wlEventTimes(call, 0, events, stream, values);
        if (result == CUDA_SUCCESS) keep_times(call.state, pairs, values.times);
        return result;
    }
    return gen::request_wlWaitPages(call, stream, 0, call.pages->ranges(), CopyTarget::into(call.pages->bytes));
}

CUresult wait_for_event(Call& call, uint64_t token) {
    Along along(call, {Kind::event, token, 0});
    if (along.events().empty() && along.has_pages())
        return along.done(gen::request_wlWaitPages(call, 0, token, call.pages->ranges(), CopyTarget::into(call.pages->bytes)));
    if (along.events().empty()) return along.done(gen::request_cuEventSynchronize(call, token));
    gen::WlEventTimesValues values;
    const CUresult result = gen::request_wlEventTimes(call, token, along.events(), 0, values);
    if (result == CUDA_SUCCESS) along.take_times(values.times);
    return along.done(result);
}

namespace {

/// The time between two events, and further ones if they are expected: with a wait for an event that was reached already.
/// @return false if the answer has not come
bool ask_with_others(Call& call, const EventTimes::Pair& asked, CUresult& result, float& milliseconds) {
    const Event* end = call.state.events.find(asked.end.event);
    if (!end || call.state.captures.any() || !is_complete(call, *end, asked.end.number)) return false;
    std::vector<EventTimes::Pair> pairs =
        call.state.event_times.expect(asked, [&](const auto& record) { return is_newest_record(call, record); });
    if (pairs.empty()) return false;
    std::vector<uint64_t> events{asked.start.event, asked.end.event};
    append_events(events, pairs);
    gen::WlEventTimesValues values;
    result = gen::request_wlEventTimes(call, asked.end.event, events, 0, values);
    if (result != CUDA_SUCCESS) return true;
    if (values.times.empty()) return false;  // others were in front of it
    result = result_of_time(values.times[0]);
    if (result == CUDA_SUCCESS) milliseconds = milliseconds_of_time(values.times[0]);
    keep_times(call.state, pairs, std::span(values.times).subspan(1));
    return true;
}

}  // namespace

CUresult elapsed_time(Call& call, uint64_t start_token, uint64_t end_token, float& milliseconds) {
    const Question asked{Kind::elapsed, start_token, end_token};
    const bool known_here = knows_records(call);
    Foresight::Time time{asked, record_of(call, start_token), record_of(call, end_token), 0};
    const EventTimes::Pair pair{{start_token, time.start_record}, {end_token, time.end_record}};
    if (known_here) {
        auto known = call.state.foresight.take_time(asked, time.start_record, time.end_record, call.session.last_number());
        if (!known) known = call.state.event_times.take(pair);
        if (known) {
            milliseconds = *known;
            return CUDA_SUCCESS;
        }
    }
    Along along(call, asked);  // nothing comes along with it, but that it was asked is remembered
    CUresult result = CUDA_SUCCESS;
    if (!known_here || !ask_with_others(call, pair, result, milliseconds)) {
        gen::CuEventElapsedTimeV2Values answer;
        result = gen::request_cuEventElapsedTime_v2(call, start_token, end_token, answer);
        milliseconds = result == CUDA_SUCCESS ? answer.pMilliseconds : milliseconds;
    }
    if (result != CUDA_SUCCESS) return result;
    time.milliseconds = milliseconds;
    if (known_here) along.keep(time);
    return along.done(result);
}

}  // namespace warpline::client
