// Adding up.
#include "client/analyze/account.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace warpline::analyze {

namespace {

template <typename Row>
std::vector<Row> longest_first(const auto& rows) {
    std::vector<Row> sorted;
    for (const auto& [key, row] : rows) sorted.push_back(row);
    std::stable_sort(sorted.begin(), sorted.end(), [](const Row& a, const Row& b) { return a.us > b.us; });
    return sorted;
}

/// The calls of each thread, and which of them a moment lies in.
class CallFinder {
public:
    explicit CallFinder(const Trace& trace) {
        for (const Call& call : trace.calls) m_calls[call.thread].push_back(&call);
    }
    /// The outermost call around this span, or nullptr.
    const Call* around(uint32_t thread, const Span& span) const {
        const auto found = m_calls.find(thread);
        if (found == m_calls.end()) return nullptr;
        const auto& calls = found->second;
        auto after = std::upper_bound(calls.begin(), calls.end(), span.begin_us,
                                      [](double at, const Call* call) { return at < call->begin_us; });
        while (after != calls.begin()) {
            const Call* call = *--after;
            if (call->end_us >= span.end_us) return call;
            if (call->end_us < span.begin_us) return nullptr;
        }
        return nullptr;
    }

private:
    std::unordered_map<uint32_t, std::vector<const Call*>> m_calls;
};

void add_waits(const Trace& trace, Account& account) {
    std::unordered_map<uint64_t, const Executed*> executed;
    for (const Executed& call : trace.executed) executed[call.number] = &call;
    std::unordered_map<uint64_t, uint64_t> bytes;
    for (const Frame& frame : trace.frames)
        if (frame.received && frame.call != 0) bytes[frame.call] += frame.wire_bytes;
    const CallFinder finder(trace);
    std::map<std::pair<std::string, std::string>, WaitRow> rows;
    for (const Wait& wait : trace.waits) {
        const Call* call = finder.around(wait.thread, wait);
        const std::string name(call != nullptr ? call->name : std::string_view());
        WaitRow& row = rows[{name, std::string(wait.name)}];
        row.call = name;
        row.sent = wait.name;
        ++row.count;
        row.us += wait.us();
        row.bytes_down += bytes[wait.number];
        row.payload_bytes += wait.bytes;
        row.brings_more |= wait.name == "wlReadAhead";
        ++account.wait_count;
        double executing_us = 0;
        if (const auto found = executed.find(wait.number); found != executed.end())
            executing_us =
                std::max(std::min(found->second->end_us, wait.end_us) - std::max(found->second->begin_us, wait.begin_us), 0.0);
        row.executing_us += executing_us;
        account.shares.executing_us += executing_us;
        account.shares.link_us += wait.us() - executing_us;
    }
    account.waits = longest_first<WaitRow>(rows);
}

void add_calls(const Trace& trace, Account& account) {
    std::map<std::string_view, CallRow> rows;
    std::unordered_map<uint32_t, double> until;  // by thread: calls within calls count once
    double in_calls_us = 0;
    for (const Call& call : trace.calls) {
        CallRow& row = rows[call.name];
        row.name = call.name;
        ++row.count;
        row.us += call.us();
        row.worst_us = std::max(row.worst_us, call.us());
        row.sent += call.count;
        double& end_us = until[call.thread];
        in_calls_us += std::max(call.end_us - std::max(call.begin_us, end_us), 0.0);
        end_us = std::max(end_us, call.end_us);
    }
    account.calls = longest_first<CallRow>(rows);
    Shares& shares = account.shares;
    for (const Block& block : trace.blocks) (block.by_credit ? shares.credit_us : shares.payload_us) += block.us();
    for (const Part& part : trace.parts) shares.session_us += part.us();
    shares.own_us = std::max(shares.all_us - in_calls_us - shares.session_us, 0.0);
    const double kept_us = shares.executing_us + shares.link_us + shares.credit_us + shares.payload_us;
    shares.calls_us = std::max(in_calls_us - kept_us, 0.0);
}

void add_server(const Trace& trace, Account& account) {
    std::map<std::string_view, ServerRow> rows;
    for (const Executed& call : trace.executed) {
        ServerRow& row = rows[call.name];
        row.name = call.name;
        ++row.count;
        row.us += call.us();
        row.worst_us = std::max(row.worst_us, call.us());
    }
    account.server = longest_first<ServerRow>(rows);
}

void add_lanes(const Trace& trace, Account& account) {
    std::map<std::pair<unsigned, bool>, LaneRow> rows;
    for (const Frame& frame : trace.frames) {
        LaneRow& row = rows[{frame.lane, frame.received}];
        row.lane = frame.lane;
        row.received = frame.received;
        ++row.frames;
        if (frame.kind == "batch") row.calls += frame.calls;
        row.bytes += frame.bytes;
        row.wire_bytes += frame.wire_bytes;
        row.busy_us += frame.us();
    }
    for (const auto& [key, row] : rows) account.lanes.push_back(row);
}

void add_threads(const Trace& trace, Account& account) {
    const auto spans = trace.threads();
    account.threads = spans.size();
    for (const auto& [thread, span] : spans) account.shares.all_us += span.us();
}

}  // namespace

Account make_account(const Trace& trace) {
    Account account;
    account.whole = trace.whole();
    account.round_trip_us = trace.least_round_trip_us();
    add_threads(trace, account);
    add_waits(trace, account);
    add_calls(trace, account);
    add_server(trace, account);
    add_lanes(trace, account);
    account.advice = advise(account);
    return account;
}

}  // namespace warpline::analyze
