// From spans to steps: what was a thread's own time, what it sent when, what it waited for.
#include "client/analyze/timeline.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace warpline::analyze {

namespace {

constexpr int k_not_ready = 600;  // CUDA_ERROR_NOT_READY

bool asks_whether_done(std::string_view name) { return name.starts_with("cuEventQuery") || name.starts_with("cuStreamQuery"); }

/// What travels over a link before it is known that compressing pays there: a lane's writer learns it from acknowledgements,
/// and until they come fills the window with plain bytes.
class Learning {
public:
    /// @return how many bytes the frame travels as
    double bytes_of(const Frame& frame, double bytes_per_us) {
        const bool large = frame.encoded || frame.percent[0] != 0;
        if (bytes_per_us == 0 || !large || frame.is_constant()) return frame.bytes_at(bytes_per_us);
        double& plain = m_plain[{frame.lane, frame.received}];
        if (plain >= (frame.lane == 0 ? k_command_bytes : k_bulk_bytes)) return frame.bytes_at(bytes_per_us);
        plain += static_cast<double>(frame.bytes);
        return static_cast<double>(frame.bytes);
    }

private:
    static constexpr double k_command_bytes = 2.75 * (1 << 20);  // docs/trace.md#the-prediction
    static constexpr double k_bulk_bytes = 7.0 * (1 << 20);
    std::map<std::pair<unsigned, bool>, double> m_plain;
};

/// Something in a thread's life that is not its own time.
struct Item : Span {
    enum class Kind : uint8_t { call, wait, block, part } kind = Kind::call;
    const void* what = nullptr;
};

void add_replies(const Trace& trace, Timeline& timeline) {
    for (const Frame& frame : trace.frames) {
        if (frame.received && frame.kind == "host call") timeline.host_calls_us.push_back(frame.begin_us);
        if (!frame.received || frame.call == 0) continue;
        CallFacts& facts = timeline.calls[frame.call];
        (frame.kind == "reply" ? facts.reply_us : facts.brought_us) = frame.begin_us;
    }
    for (const Executed& executed : trace.executed) {
        CallFacts& facts = timeline.calls[executed.number];
        facts.is_executed = true;
        facts.executed = executed;
    }
}

/// Which thread sent which call. A call of the program's that sent one, or waited for it, knows; one that sent several counts
/// others' between them as its own.
void find_owners(const Trace& trace, const std::map<uint32_t, size_t>& index, Timeline& timeline) {
    for (const Wait& wait : trace.waits) {
        CallFacts& facts = timeline.calls[wait.number];
        facts.owner = index.at(wait.thread);
        facts.awaited = true;
    }
    for (const bool several : {false, true}) {
        for (const Call& call : trace.calls) {
            if (call.count == 0 || (call.count > 1) != several) continue;
            for (uint64_t number = call.first; number < call.first + call.count; ++number) {
                CallFacts& facts = timeline.calls[number];
                if (facts.owner == SIZE_MAX) facts.owner = index.at(call.thread);
            }
        }
    }
}

/// Makes the steps of one thread.
class Walk {
public:
    Walk(Timeline& timeline, size_t index, std::set<std::string_view> waiting)
        : m_timeline(timeline), m_index(index), m_thread(timeline.threads[index]), m_waiting(std::move(waiting)) {
        m_now = m_thread.span.begin_us;
    }

    void call(const Call& call) {
        if (polls(call)) return;
        go_to(call.begin_us);
        end_pending();
        m_next = call.count == 0 ? 0 : call.first;
        m_end = call.first + call.count;
        m_call_end_us = call.end_us;
    }
    void wait(const Wait& wait) {
        go_to(wait.begin_us);
        issue_through(wait.number);
        add(Step::Kind::wait, wait.us(), wait.number);
        m_now = std::max(m_now, wait.end_us);
    }
    void block(const Block& block) {
        go_to(block.begin_us);
        // What could not be sent for want of credit waits again where there is none.
        if (!block.by_credit) {
            if (m_next != 0 && m_next < m_end) issue_through(m_next);
            add(Step::Kind::send, block.us(), m_last);
        }
        m_now = std::max(m_now, block.end_us);
    }
    void part(const Part& part) {
        go_to(part.begin_us);
        end_pending();
        add(Step::Kind::round_trips, part.us(), part.round_trips);
        m_now = std::max(m_now, part.end_us);
    }
    void finish() {
        end_pending();
        go_to(m_thread.span.end_us);
    }

private:
    /// A question that is asked again and again, until the reply to another call has brought the answer: what the program
    /// does until then is wait. It may wait there as well where the answer has come before the first question.
    /// @return true if the call is one of several such questions
    bool polls(const Call& call) {
        const bool same = call.name == m_asked && call.count == 0;
        if (same && call.result == k_not_ready) return true;
        if (call.answered_by != 0 && (same || m_waiting.contains(call.name))) {
            go_to(same ? m_asked_until_us : call.begin_us);
            end_pending();
            add(Step::Kind::wait, std::max(call.begin_us - m_now, 0.0), call.answered_by);
            m_timeline.calls[call.answered_by].awaited = true;
            m_now = std::max(m_now, call.begin_us);
        }
        const bool asks = asks_whether_done(call.name) && call.result == k_not_ready;
        m_asked = asks ? call.name : std::string_view();
        m_asked_until_us = call.end_us;
        return false;
    }
    /// What the call at hand sends is sent when it begins, but for what it waits for in between.
    void end_pending() {
        if (m_next != 0 && m_next < m_end) issue_through(m_end - 1);
        m_next = m_end = 0;
    }
    void issue_through(uint64_t last) {
        if (m_next == 0) m_next = last;
        for (; m_next <= last; ++m_next) {
            const auto found = m_timeline.calls.find(m_next);
            if (found == m_timeline.calls.end() || found->second.owner != m_index) continue;
            add(Step::Kind::issue, 0, m_next);
            m_last = m_next;
        }
    }
    void go_to(double us) {
        if (us <= m_now) return;
        if (m_next != 0 && us > m_call_end_us) end_pending();
        add(Step::Kind::own, us - m_now, 0);
        m_now = us;
    }
    void add(Step::Kind kind, double us, uint64_t number) {
        auto& steps = m_thread.steps;
        if (kind == Step::Kind::own && !steps.empty() && steps.back().kind == Step::Kind::own) {
            steps.back().us += us;
        } else {
            steps.push_back({kind, us, number});
        }
    }

    Timeline& m_timeline;
    const size_t m_index;
    ThreadSteps& m_thread;
    double m_now = 0;
    uint64_t m_next = 0, m_end = 0;  // numbers of the call at hand that are not sent; 0: none
    double m_call_end_us = 0;
    uint64_t m_last = 0;                         // that was sent
    const std::set<std::string_view> m_waiting;  // calls that return when work is done, or are asked until it is
    std::string_view m_asked;                    // whether work is done, and it was not; empty: the last call did not ask
    double m_asked_until_us = 0;
};

/// The calls with which a thread waits for work to be done, also where they find that it is: synchronisations; and questions
/// that it has asked anew at once more often than not.
std::set<std::string_view> waiting_calls(const Trace& trace, uint32_t thread) {
    std::set<std::string_view> waiting;
    std::map<std::string_view, int> anew;
    std::string_view asked;
    for (const Call& call : trace.calls) {
        if (call.thread != thread) continue;
        if (call.name.find("Synchronize") != std::string_view::npos) waiting.insert(call.name);
        if (!asked.empty()) anew[asked] += call.name == asked ? 1 : -1;
        asked = asks_whether_done(call.name) && call.result == k_not_ready ? call.name : std::string_view();
    }
    for (const auto& [name, times] : anew)
        if (times > 0) waiting.insert(name);
    return waiting;
}

std::vector<Item> items_of(const Trace& trace, uint32_t thread) {
    std::vector<Item> items;
    const auto add = [&](const auto& spans, Item::Kind kind) {
        for (const auto& span : spans)
            if (span.thread == thread) items.push_back({span, kind, &span});
    };
    add(trace.calls, Item::Kind::call);
    add(trace.parts, Item::Kind::part);
    add(trace.waits, Item::Kind::wait);
    add(trace.blocks, Item::Kind::block);
    std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.begin_us < b.begin_us; });
    return items;
}

void take_steps(const Trace& trace, Timeline& timeline, size_t index) {
    const uint32_t thread = timeline.threads[index].thread;
    Walk walk(timeline, index, waiting_calls(trace, thread));
    for (const Item& item : items_of(trace, thread)) {
        switch (item.kind) {
            case Item::Kind::call: walk.call(*static_cast<const Call*>(item.what)); break;
            case Item::Kind::wait: walk.wait(*static_cast<const Wait*>(item.what)); break;
            case Item::Kind::block: walk.block(*static_cast<const Block*>(item.what)); break;
            case Item::Kind::part: walk.part(*static_cast<const Part*>(item.what)); break;
        }
    }
    walk.finish();
}

/// Cuts the step of the thread's own time that this moment lies in. @return where a step is to be put in; nothing if the moment
/// lies in no such step
std::optional<size_t> split_own(ThreadSteps& thread, double at_us) {
    double now = thread.span.begin_us;
    for (size_t i = 0; i < thread.steps.size(); ++i) {
        const Step step = thread.steps[i];
        if (at_us < now) return i;
        if (at_us <= now + step.us && step.kind == Step::Kind::own) {
            thread.steps[i].us = at_us - now;
            thread.steps.insert(thread.steps.begin() + static_cast<ptrdiff_t>(i) + 1,
                                {Step::Kind::own, now + step.us - at_us, 0});
            return i + 1;
        }
        now += step.us;
    }
    return std::nullopt;
}

/// The first thread begins the others, and waits for the ends of those that end while it does nothing.
void tie_threads(Timeline& timeline) {
    ThreadSteps& first = timeline.threads.front();
    for (size_t i = 1; i < timeline.threads.size(); ++i) {
        const Span span = timeline.threads[i].span;
        const auto insert = [&](std::optional<size_t> at, Step::Kind kind) {
            if (at) first.steps.insert(first.steps.begin() + static_cast<ptrdiff_t>(*at), {kind, 0, i});
            return at.has_value();
        };
        if (!insert(split_own(first, span.begin_us), Step::Kind::begin)) {
            first.steps.insert(first.steps.begin(), {Step::Kind::begin, 0, i});
        }
        if (span.end_us < first.span.end_us) static_cast<void>(insert(split_own(first, span.end_us), Step::Kind::join));
    }
}

}  // namespace

void count_bytes(const Trace& trace, double bytes_per_us, Timeline& timeline) {
    for (auto& [number, facts] : timeline.calls) facts.bytes_up = facts.payload_up = facts.bytes_down = facts.payload_down = 0;
    Learning learning;
    for (const Frame& frame : trace.frames) {
        if (frame.call == 0 || frame.calls == 0) continue;
        const bool part = frame.kind == "part";
        const double each = learning.bytes_of(frame, bytes_per_us) / frame.calls;
        for (uint64_t number = frame.call; number < frame.call + frame.calls; ++number) {
            CallFacts& facts = timeline.calls[number];
            if (part) {
                (frame.received ? facts.payload_down : facts.payload_up) += each;
            } else {
                (frame.received ? facts.bytes_down : facts.bytes_up) += each;
            }
        }
    }
}

Timeline make_timeline(const Trace& trace) {
    Timeline timeline;
    timeline.whole = trace.whole();
    for (const auto& [thread, span] : trace.threads()) timeline.threads.push_back({thread, span, {}});
    std::sort(timeline.threads.begin(), timeline.threads.end(),
              [](const ThreadSteps& a, const ThreadSteps& b) { return a.span.begin_us < b.span.begin_us; });
    std::map<uint32_t, size_t> index;
    for (size_t i = 0; i < timeline.threads.size(); ++i) index[timeline.threads[i].thread] = i;
    count_bytes(trace, 0, timeline);
    add_replies(trace, timeline);
    find_owners(trace, index, timeline);
    for (size_t i = 0; i < timeline.threads.size(); ++i) take_steps(trace, timeline, i);
    if (!timeline.threads.empty()) tie_threads(timeline);
    return timeline;
}

}  // namespace warpline::analyze
