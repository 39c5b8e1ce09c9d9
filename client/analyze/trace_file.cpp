// One line is one event: so a file that ends in the middle is read up to there.
#include "client/analyze/trace_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace warpline::analyze {

namespace {

using Json = nlohmann::json;

class Reader {
public:
    explicit Reader(Trace& trace) : m_trace(trace) {}

    void take(const Json& event) {
        const std::string kind = event.value("ph", "");
        if (kind == "M") return take_metadata(event);
        const std::string category = event.value("cat", "");
        m_args = event.value("args", Json::object());
        const double begin = event.value("ts", 0.0);
        const Span span{begin, begin + event.value("dur", 0.0)};
        const auto thread = event.value("tid", uint32_t{0});
        const std::string name = event.value("name", "");
        if (category == "call") {
            m_trace.calls.push_back(
                {span, thread, view(name), number("call"), count(), m_args.value("result", 0), number("answered_by")});
        } else if (category == "wait") {
            constexpr size_t k_prefix = 6;  // "wait: "
            m_trace.waits.push_back(
                {span, thread, view(name.substr(std::min(k_prefix, name.size()))), number("call"), number("bytes")});
        } else if (category == "blocked") {
            m_trace.blocks.push_back({span, thread, name == "credit"});
        } else if (category == "start") {
            m_trace.parts.push_back({span, thread, view(name), m_args.value("round_trips", uint32_t{0})});
        } else if (category == "sent" || category == "received") {
            m_trace.frames.push_back({span, category == "received", view(name), m_args.value("lane", 0u), number("call"),
                                      count(), number("bytes"), number("wire"), m_args.contains("codec"), percent()});
        } else if (category == "server") {
            m_trace.executed.push_back({span, view(name), number("call")});
        } else if (category == "round trip") {
            m_trace.round_trips_us.push_back(m_args.value("us", 0.0));
        } else if (category == "clocks") {
            m_trace.clock_error_us = std::max(m_trace.clock_error_us, m_args.value("us", 0.0));
        }
    }

private:
    uint64_t number(const char* key) const { return m_args.value(key, uint64_t{0}); }
    std::array<unsigned, 3> percent() const {
        std::array<unsigned, 3> percent{};
        const Json packs = m_args.value("packs", Json::array());
        for (size_t i = 0; i < std::min(packs.size(), percent.size()); ++i) percent.at(i) = packs[i].get<unsigned>();
        return percent;
    }
    /// A batch has no more: what says so is damaged.
    uint32_t count() const { return std::min(m_args.value("calls", uint32_t{0}), uint32_t{1} << 20); }
    std::string_view view(const std::string& name) { return *m_trace.names.insert(name).first; }

    void take_metadata(const Json& event) {
        const std::string name = event.value("name", "");
        const Json args = event.value("args", Json::object());
        if (name == "warpline") {
            m_trace.program = args.value("program", "");
            m_trace.server = args.value("server", "");
            m_trace.address = args.value("address", "");
        } else if (name == "warpline_end") {
            m_trace.complete = true;
            m_trace.dropped = args.value("server_calls_dropped", uint64_t{0});
            m_trace.left_out = args.value("events_left_out", uint64_t{0});
        }
    }

    Trace& m_trace;
    Json m_args;
};

template <typename T>
void sort_by_begin(std::vector<T>& spans) {
    // What lies within another begins with it at the earliest: the outer one comes first.
    std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
        return a.begin_us != b.begin_us ? a.begin_us < b.begin_us : a.end_us > b.end_us;
    });
}

}  // namespace

double Frame::bytes_at(double bytes_per_us) const {
    constexpr double k_fastest_link = 250;  // compress::Policy: faster ones compress nothing
    constexpr double k_mbit = 1.0 / 8;
    const auto raw = static_cast<double>(bytes), travelled = static_cast<double>(wire_bytes);
    if (bytes_per_us == 0 || is_constant()) return travelled;
    if (bytes_per_us > k_fastest_link) return raw;
    if (encoded || percent[0] == 0) return travelled;
    const size_t rate = bytes_per_us < 30 * k_mbit ? 0 : bytes_per_us < 300 * k_mbit ? 1 : 2;
    return raw * percent.at(rate) / 100;
}

Span Trace::whole() const {
    Span whole{};
    bool any = false;
    const auto add = [&](const Span& span) {
        whole.begin_us = any ? std::min(whole.begin_us, span.begin_us) : span.begin_us;
        whole.end_us = any ? std::max(whole.end_us, span.end_us) : span.end_us;
        any = true;
    };
    for (const Call& call : calls) add(call);
    for (const Wait& wait : waits) add(wait);
    for (const Part& part : parts) add(part);
    return whole;
}

std::map<uint32_t, Span> Trace::threads() const {
    std::map<uint32_t, Span> spans;
    const auto add = [&](const auto& events) {
        for (const auto& event : events) {
            const auto [at, is_new] = spans.emplace(event.thread, event);
            at->second.begin_us = std::min(at->second.begin_us, event.begin_us);
            at->second.end_us = std::max(at->second.end_us, event.end_us);
        }
    };
    add(calls);
    add(waits);
    add(parts);
    add(blocks);
    return spans;
}

double Trace::least_round_trip_us() const {
    const auto least = std::min_element(round_trips_us.begin(), round_trips_us.end());
    return least == round_trips_us.end() ? 0 : *least;
}

Result<Trace> read_trace(std::istream& in, std::string& problem) {
    Trace trace;
    Reader reader(trace);
    std::string line;
    size_t number = 0, taken = 0;
    while (std::getline(in, line)) {
        ++number;
        while (!line.empty() && (line.back() == ',' || line.back() == '\r')) line.pop_back();
        if (line.empty() || line == "[" || line == "]") continue;
        const Json event = Json::parse(line, nullptr, false);
        if (event.is_object()) {
            try {
                reader.take(event);
            } catch (const Json::exception&) {
                problem = "line " + std::to_string(number) + " is no event of a trace";
                return Error{Code::malformed, "no trace"};
            }
            ++taken;
        } else if (in.peek() != std::istream::traits_type::eof()) {  // else: where it was cut off
            problem = "line " + std::to_string(number) + " is no JSON: the file is no trace (WARPLINE_TRACE), or damaged";
            return Error{Code::malformed, "no trace"};
        }
    }
    if (taken == 0) {
        problem = "it has no events: it is no trace (WARPLINE_TRACE)";
        return Error{Code::malformed, "no trace"};
    }
    sort_by_begin(trace.calls);
    sort_by_begin(trace.waits);
    sort_by_begin(trace.blocks);
    sort_by_begin(trace.parts);
    sort_by_begin(trace.frames);
    sort_by_begin(trace.executed);
    return trace;
}

}  // namespace warpline::analyze
