// Threads, two directions of a link, and a server that executes one call after the other.
#include "client/analyze/simulate.h"

#include <algorithm>
#include <deque>
#include <queue>

#include "client/analyze/busy_times.h"

namespace warpline::analyze {

namespace {

constexpr double k_parks_us = 100;            // a call that waits for longer keeps no other thread's calls
constexpr double k_waits_for_device_us = 30;  // a reply that takes longer was waited for by the server, too
constexpr double k_window_bytes = 1 << 20;    // of a long payload: handed on, and not yet on the link
constexpr double k_credit_bytes = 64 << 20;   // sent and not yet executed
constexpr double k_machine_bytes_per_us = 1000;

/// One direction of the link. Batches and replies go ahead of long payloads, and wait for each other.
class Direction {
public:
    explicit Direction(double bytes_per_us) : m_bytes_per_us(bytes_per_us) {}
    /// @return when the last of these bytes has left
    double send(double at_us, double bytes) {
        m_all.take(at_us, time_of(bytes));  // what goes behind has less of the link
        return m_ordered.take(at_us, time_of(bytes));
    }
    /// The same for bytes that others may pass.
    double send_behind(double at_us, double bytes) { return m_all.take(at_us, time_of(bytes)); }
    double time_of(double bytes) const { return m_bytes_per_us > 0 ? bytes / m_bytes_per_us : 0; }

private:
    const double m_bytes_per_us;
    BusyTimes m_ordered, m_all;
};

/// What a thread of the program has given the device since it last waited for it: when the first of it began, then and now.
struct Work {
    bool any = false;
    double recorded_us = 0, us = 0;
};

class Simulation {
public:
    Simulation(const Timeline& timeline, const Machines& machines, const Link& link)
        : m_timeline(timeline),
          m_machines(machines),
          m_link(link),
          m_half_us(link.round_trip_us / 2),
          m_up(link.bytes_per_us),
          m_down(link.bytes_per_us),
          m_threads(timeline.threads.size()) {}

    Simulated run() {
        if (m_threads.empty()) return {};
        start(0, 0);
        while (!m_ready.empty()) {
            const size_t index = m_ready.top().second;
            m_ready.pop();
            advance(index);
        }
        // Whose beginning nobody has seen.
        for (const Thread& thread : m_threads) m_result.us = std::max(m_result.us, thread.now_us);
        return m_result;
    }

private:
    /// What came without being asked for: when it was there in the trace, and when it has left here.
    struct Brought {
        double recorded_us, left_us;
    };
    struct Thread {
        double now_us = 0;
        size_t next = 0;
        bool begun = false, ended = false;
        size_t joined_by = SIZE_MAX;  // who waits for its end
        Work work;
        std::vector<Brought> brought;  // since a reply came behind it
    };

    void start(size_t index, double at_us) {
        Thread& thread = m_threads[index];
        if (thread.begun) return;
        thread.begun = true;
        thread.now_us = at_us;
        m_ready.emplace(at_us, index);
    }

    /// Until the thread sends something, or waits for somebody: threads take turns in the order of time.
    void advance(size_t index) {
        Thread& thread = m_threads[index];
        const auto& steps = m_timeline.threads[index].steps;
        while (thread.next < steps.size()) {
            const Step& step = steps[thread.next];
            if (step.kind == Step::Kind::join && !m_threads[step.number].ended && m_threads[step.number].begun) {
                m_threads[step.number].joined_by = index;
                return;
            }
            ++thread.next;
            take(thread, step);
            if (!m_ready.empty() && m_ready.top().first < thread.now_us) {
                m_ready.emplace(thread.now_us, index);
                return;
            }
        }
        thread.ended = true;
        if (thread.joined_by != SIZE_MAX) {
            m_threads[thread.joined_by].now_us = std::max(m_threads[thread.joined_by].now_us, thread.now_us);
            m_ready.emplace(m_threads[thread.joined_by].now_us, thread.joined_by);
        }
    }

    void take(Thread& thread, const Step& step) {
        switch (step.kind) {
            case Step::Kind::own: thread.now_us += step.us; break;
            case Step::Kind::issue: issue(thread, step.number); break;
            case Step::Kind::wait: wait(thread, step); break;
            case Step::Kind::send: {
                const auto found = m_calls.find(step.number);
                const double left_us = found == m_calls.end() ? 0 : found->second.left_us - m_up.time_of(k_window_bytes);
                const auto facts = m_timeline.calls.find(step.number);
                const double bytes = facts == m_timeline.calls.end() ? 0 : facts->second.payload_up;
                thread.now_us = std::max(thread.now_us + std::min(step.us, bytes / k_machine_bytes_per_us), left_us);
                break;
            }
            case Step::Kind::round_trips: {
                const double count = static_cast<double>(step.number);
                // What came before is executed before the goodbye is answered.
                const double own_us = std::max(step.us - count * m_machines.round_trip_us, 0.0);
                const double executed_us = count == 1 ? std::max(m_server_us, m_payload_us) + m_half_us : 0;
                thread.now_us = std::max(thread.now_us + own_us + count * m_link.round_trip_us, executed_us);
                break;
            }
            case Step::Kind::begin: start(step.number, thread.now_us); break;
            case Step::Kind::join: thread.now_us = std::max(thread.now_us, m_threads[step.number].now_us); break;
        }
    }

    /// A call on its way: when it has left, when it was executed, and when its reply is there.
    struct Sent {
        double left_us = 0, end_us = 0, reply_us = 0;
    };

    void wait_for_credit(Thread& thread, double bytes) {
        m_under_way_bytes += bytes;
        while (m_under_way_bytes > k_credit_bytes && !m_under_way.empty()) {
            thread.now_us = std::max(thread.now_us, m_under_way.front().first + m_half_us);
            m_under_way_bytes -= m_under_way.front().second;
            m_under_way.pop_front();
        }
    }

    void issue(Thread& thread, uint64_t number) {
        const CallFacts& facts = m_timeline.calls.at(number);
        wait_for_credit(thread, facts.bytes_up + facts.payload_up);
        Sent sent;
        sent.left_us = m_up.send(thread.now_us, facts.bytes_up);
        const double way_us = std::max(m_machines.arrival_us - m_machines.round_trip_us / 2, 0.0) + m_half_us;
        const double arrival_us = sent.left_us + way_us;
        if (facts.payload_up > 0) {
            sent.left_us = m_up.send_behind(sent.left_us, facts.payload_up);
            m_payload_us = sent.left_us + way_us;
        }
        execute(thread, facts, arrival_us, sent);
        m_under_way.emplace_back(sent.end_us, facts.bytes_up + facts.payload_up);
        m_calls[number] = sent;
    }

    void execute(Thread& thread, const CallFacts& facts, double arrival_us, Sent& sent) {
        const double took_us = facts.is_executed ? facts.executed.us() : 0;
        const double begin_us = std::max(arrival_us, m_server_us);
        double end_us = begin_us + took_us;
        // Its own payload may come later than it does itself, and what waits for the device waits for all that was before it.
        if (facts.payload_up > 0 || facts.awaited) end_us = std::max(end_us, m_payload_us);
        if (facts.awaited && took_us > k_waits_for_device_us) {
            // The time for which the device was busy is that from the beginning of its work, not from that of the wait.
            const double since_us = thread.work.any ? facts.executed.end_us - thread.work.recorded_us : 0;
            const double alone_us = std::min(took_us, k_waits_for_device_us);
            end_us = std::max({begin_us + alone_us, m_payload_us, thread.work.us + since_us});
            if (!thread.work.any) end_us = std::max(begin_us + took_us, m_payload_us);
            end_us += host_calls_us(thread.work.any ? thread.work.recorded_us : facts.executed.begin_us, facts.executed.end_us);
            thread.work.any = false;
        } else if (facts.awaited) {
            thread.work.any = false;
        } else if (!thread.work.any && facts.is_executed) {
            thread.work = {true, facts.executed.begin_us, begin_us};
        }
        const bool parks = facts.awaited && took_us > k_parks_us;
        const bool streams = facts.payload_up > 0;  // calls that do not depend on it pass it
        m_server_us = parks || streams ? std::max(m_server_us, begin_us) : end_us;
        sent.end_us = end_us;
        // What a copy brings leaves when the device has it: as long after the call as it did.
        const double late_us = facts.brought_us > 0 && !facts.awaited ? brought_late_us(facts) : 0;
        double left_us = end_us + late_us;
        // Long payloads leave while the call is executed.
        if (facts.payload_down > 0) left_us = std::max(m_down.send_behind(begin_us, facts.payload_down), left_us);
        if (facts.awaited) {
            left_us = m_down.send(std::max(left_us, brought_before(thread, facts.reply_us)), facts.bytes_down);
        } else if (facts.brought_us > 0) {
            left_us = m_down.send(left_us, facts.bytes_down);
            thread.brought.push_back({facts.brought_us, left_us});
        } else if (facts.bytes_down > 0) {
            left_us = m_down.send(left_us, facts.bytes_down);
        }
        sent.reply_us = left_us + m_half_us;
    }

    double brought_late_us(const CallFacts& facts) const {
        if (!facts.is_executed) return 0;
        return std::max(facts.brought_us - facts.executed.end_us - m_machines.round_trip_us / 2, 0.0);
    }

    /// When that has left which the thread's copies brought before this reply: it says that they are complete.
    static double brought_before(Thread& thread, double reply_us) {
        double left_us = 0;
        std::erase_if(thread.brought, [&](const Brought& brought) {
            if (brought.recorded_us > reply_us) return false;
            left_us = std::max(left_us, brought.left_us);
            return true;
        });
        return left_us;
    }

    /// Functions of the program's that the server waited for between these moments: each is a round trip, one after the other.
    double host_calls_us(double begin_us, double end_us) {
        const auto& all = m_timeline.host_calls_us;
        const auto first = std::lower_bound(all.begin(), all.end(), std::max(begin_us, m_host_calls_until_us));
        const auto last = std::lower_bound(first, all.end(), end_us);
        m_host_calls_until_us = std::max(m_host_calls_until_us, end_us);
        return static_cast<double>(last - first) * (m_link.round_trip_us - m_machines.round_trip_us);
    }

    void wait(Thread& thread, const Step& step) {
        const auto found = m_calls.find(step.number);
        const double before_us = thread.now_us;
        if (found == m_calls.end()) {
            // Nothing is known of the call: a round trip longer or shorter.
            thread.now_us += std::max(step.us - m_machines.round_trip_us, 0.0) + m_link.round_trip_us;
        } else {
            thread.now_us = std::max(thread.now_us, found->second.reply_us + late_us(step));
        }
        m_result.waiting_us += thread.now_us - before_us;
    }

    /// What it took, beside the link's half of a round trip, until the thread went on after the call was executed.
    double late_us(const Step& step) const {
        const CallFacts& facts = m_timeline.calls.at(step.number);
        if (!facts.is_executed || facts.reply_us == 0) return 0;
        return std::max(facts.reply_us - facts.executed.end_us - m_machines.round_trip_us / 2, 0.0);
    }

    const Timeline& m_timeline;
    const Machines& m_machines;
    const Link m_link;
    const double m_half_us;
    Direction m_up, m_down;
    double m_host_calls_until_us = 0;  // those before have been counted
    double m_server_us = 0;            // the server has nothing to do from then on
    double m_payload_us = 0;           // the last long payload is there
    std::vector<Thread> m_threads;
    using Turn = std::pair<double, size_t>;
    std::priority_queue<Turn, std::vector<Turn>, std::greater<>> m_ready;
    std::unordered_map<uint64_t, Sent> m_calls;
    std::deque<std::pair<double, double>> m_under_way;  // when executed, and how many bytes
    double m_under_way_bytes = 0;
    Simulated m_result;
};

}  // namespace

Machines measure_machines(const Trace& trace, const Timeline& timeline) {
    Machines machines;
    machines.round_trip_us = trace.least_round_trip_us();
    std::vector<double> arrivals;
    double executed_until_us = 0;
    std::unordered_map<uint64_t, double> ended;  // by call: when the server had done what came before it
    for (const Executed& executed : trace.executed) {
        ended[executed.number] = executed_until_us;
        executed_until_us = std::max(executed_until_us, executed.end_us);
    }
    for (const Wait& wait : trace.waits) {
        const auto found = timeline.calls.find(wait.number);
        if (found == timeline.calls.end() || !found->second.is_executed) continue;
        if (ended[wait.number] > wait.begin_us) continue;  // it was busy
        arrivals.push_back(found->second.executed.begin_us - wait.begin_us);
    }
    machines.arrival_us = machines.round_trip_us / 2;
    if (arrivals.empty()) return machines;
    const auto middle = arrivals.begin() + static_cast<ptrdiff_t>(arrivals.size() / 2);
    std::nth_element(arrivals.begin(), middle, arrivals.end());
    machines.arrival_us = std::max(machines.arrival_us, *middle);
    return machines;
}

Simulated simulate(const Timeline& timeline, const Machines& machines, const Link& link) {
    return Simulation(timeline, machines, link).run();
}

Prediction predict(const Trace& trace, Timeline& timeline, const Link& link) {
    const Machines machines = measure_machines(trace, timeline);
    count_bytes(trace, 0, timeline);
    const Simulated then = simulate(timeline, machines, {machines.round_trip_us, 0});
    count_bytes(trace, link.bytes_per_us, timeline);
    const Simulated now = simulate(timeline, machines, link);
    Prediction prediction;
    prediction.link = link;
    prediction.us = std::max(timeline.whole.us() + now.us - then.us, 0.0);
    prediction.waiting_us = now.waiting_us;
    return prediction;
}

}  // namespace warpline::analyze
