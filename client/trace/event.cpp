// Events as text: by hand, since a launch's line must not cost more than the launch.
#include "client/trace/event.h"

#include <charconv>
#include <string_view>

#include "compress/codec.h"

namespace warpline::client::trace {

namespace {

void put(std::string& out, std::string_view text) { out.append(text); }
void put(std::string& out, uint64_t number) {
    char digits[20];
    out.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

/// Microseconds with three digits behind the point.
void put_us(std::string& out, uint64_t ns) {
    put(out, ns / 1000);
    const auto rest = static_cast<unsigned>(ns % 1000);
    const char digits[4] = {'.', static_cast<char>('0' + rest / 100), static_cast<char>('0' + rest / 10 % 10),
                            static_cast<char>('0' + rest % 10)};
    out.append(digits, sizeof digits);
}

void put_text(std::string& out, std::string_view text) {
    out.push_back('"');
    for (const char c : text) {
        if (c == '"' || c == '\\') out.push_back('\\');
        out.push_back(static_cast<unsigned char>(c) < 0x20 ? ' ' : c);
    }
    out.push_back('"');
}

void put_number(std::string& out, std::string_view key, uint64_t number) {
    put(out, out.back() == '{' ? "\"" : ",\"");
    put(out, key);
    put(out, "\":");
    put(out, number);
}

std::string_view category(EventKind kind) {
    switch (kind) {
        case EventKind::call: return "call";
        case EventKind::wait: return "wait";
        case EventKind::blocked: return "blocked";
        case EventKind::start: return "start";
        case EventKind::sent: return "sent";
        case EventKind::received: return "received";
        case EventKind::executed: return "server";
        case EventKind::clocks: return "clocks";
        case EventKind::round_trip: return "round trip";
    }
    return "";
}

/// Everything but the arguments.
void put_head(std::string& out, const Event& event, uint32_t pid) {
    const bool of_server = event.kind == EventKind::executed;
    const bool counter = event.kind == EventKind::clocks || event.kind == EventKind::round_trip;
    const bool instant = event.kind == EventKind::received;
    put(out, counter ? R"({"ph":"C","cat":")" : instant ? R"({"ph":"i","s":"t","cat":")" : R"({"ph":"X","cat":")");
    put(out, category(event.kind));
    put(out, event.kind == EventKind::wait ? R"(","name":"wait: )" : R"(","name":")");
    put(out, event.name);
    put(out, R"(","pid":)");
    put(out, of_server ? server_pid(pid) : pid);
    const bool of_lane = event.kind == EventKind::sent || instant;
    put_number(out, "tid", of_lane ? lane_track(event.lane, instant) : event.track);
    put(out, R"(,"ts":)");
    put_us(out, event.begin_ns);
    if (counter || instant) return;
    put(out, R"(,"dur":)");
    put_us(out, event.end_ns - event.begin_ns);
}

void put_frame(std::string& out, const Event& event) {
    put(out, R"("lane":)");
    put(out, event.lane);
    if (event.first != 0) put_number(out, "call", event.first);
    if (event.count != 0) put_number(out, "calls", event.count);
    put_number(out, "bytes", event.bytes);
    put_number(out, "wire", event.wire_bytes);
    if (event.result != 0) {
        put(out, R"(,"packs":[)");
        for (size_t rate = 0; rate < k_share_rates.size(); ++rate) {
            if (rate != 0) out.push_back(',');
            put(out, share_percent(event, rate));
        }
        out.push_back(']');
    }
    if (event.codec == 0) return;
    put(out, R"(,"codec":")");
    put(out, to_string(static_cast<compress::Codec>(event.codec)));
    put(out, "\"");
}

void put_arguments(std::string& out, const Event& event) {
    switch (event.kind) {
        case EventKind::call:
            if (event.count != 0) {
                put_number(out, "call", event.first);
                put_number(out, "calls", event.count);
            } else if (event.first != 0) {
                put_number(out, "answered_by", event.first);
            }
            if (event.result != 0) put_number(out, "result", event.result);
            return;
        case EventKind::wait:
            put(out, R"("call":)");
            put(out, event.first);
            if (event.bytes != 0) put_number(out, "bytes", event.bytes);
            return;
        case EventKind::executed:
            put(out, R"("call":)");
            put(out, event.first);
            return;
        case EventKind::start:
            put(out, R"("round_trips":)");
            put(out, event.count);
            return;
        case EventKind::sent:
        case EventKind::received: return put_frame(out, event);
        case EventKind::clocks:
        case EventKind::round_trip:
            put(out, R"("us":)");
            put_us(out, event.first);
            return;
        case EventKind::blocked: return;
    }
}

}  // namespace

void append_line(std::string& out, const Event& event, uint32_t pid) {
    put_head(out, event, pid);
    put(out, R"(,"args":{)");
    put_arguments(out, event);
    put(out, "}},\n");
}

void append_name(std::string& out, uint32_t pid, uint32_t track, const std::string& name) {
    put(out, track == 0 ? R"({"ph":"M","name":"process_name","pid":)" : R"({"ph":"M","name":"thread_name","pid":)");
    put(out, pid);
    if (track != 0) put_number(out, "tid", track);
    put(out, R"(,"args":{"name":)");
    put_text(out, name);
    put(out, "}},\n");
}

}  // namespace warpline::client::trace
