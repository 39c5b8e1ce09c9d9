// The tables.
#include "client/analyze/report.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace warpline::analyze {

namespace {

using OrderedJson = nlohmann::ordered_json;
constexpr size_t k_rows = 15;  // of a table, for people

[[gnu::format(printf, 2, 3)]] void print(std::string& out, const char* format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    out += text;
}

std::string time_text(double us) {
    char text[32];
    if (us < 1e3) {
        std::snprintf(text, sizeof text, "%.1f us", us);
    } else if (us < 1e6) {
        std::snprintf(text, sizeof text, "%.2f ms", us / 1e3);
    } else {
        std::snprintf(text, sizeof text, "%.3f s", us / 1e6);
    }
    return text;
}

std::string bytes_text(double bytes) {
    const char* const units[] = {"B", "KiB", "MiB", "GiB"};
    size_t unit = 0;
    for (; bytes >= 1024 && unit + 1 < std::size(units); ++unit) bytes /= 1024;
    char text[32];
    std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
    return text;
}

std::string link_text(const Link& link) {
    char text[64];
    const double ms = link.round_trip_us / 1e3, mbit = link.bytes_per_us * 8;
    if (mbit == 0) {
        std::snprintf(text, sizeof text, "%g ms, any rate", ms);
    } else if (mbit >= 1000) {
        std::snprintf(text, sizeof text, "%g ms, %g Gb/s", ms, mbit / 1000);
    } else {
        std::snprintf(text, sizeof text, "%g ms, %g Mb/s", ms, mbit);
    }
    return text;
}

void print_share(std::string& out, const char* what, double us, double all_us) {
    if (us > 0) print(out, "  %-52s %12s %5.1f %%\n", what, time_text(us).c_str(), all_us > 0 ? 100 * us / all_us : 0);
}

void print_shares(std::string& out, const Account& account) {
    const Shares& shares = account.shares;
    print(out, "\nWhere the time goes (%zu thread%s, %s)\n", account.threads, account.threads == 1 ? "" : "s added up",
          time_text(shares.all_us).c_str());
    print_share(out, "the program's own", shares.own_us, shares.all_us);
    print_share(out, "in calls that wait for nothing", shares.calls_us, shares.all_us);
    print_share(out, "waiting: the server executes", shares.executing_us, shares.all_us);
    print_share(out, "waiting: the link, and calls before", shares.link_us, shares.all_us);
    print_share(out, "kept from sending: too much under way", shares.credit_us, shares.all_us);
    print_share(out, "sending long payloads", shares.payload_us, shares.all_us);
    print_share(out, "connecting, and the goodbye", shares.session_us, shares.all_us);
}

void print_waits(std::string& out, const Account& account) {
    print(out, "\nCalls that wait (%llu waits)\n", static_cast<unsigned long long>(account.wait_count));
    if (account.waits.empty()) return;
    print(out, "  %-34s %8s %11s %11s %11s %10s\n", "call", "times", "in all", "each", "executing", "brought");
    for (size_t i = 0; i < std::min(account.waits.size(), k_rows); ++i) {
        const WaitRow& row = account.waits[i];
        const bool same = row.call.empty() || row.call == row.sent;
        const std::string name = same ? row.sent : row.call + " (" + row.sent + ")";
        print(out, "  %-34s %8llu %11s %11s %11s %10s\n", name.c_str(), static_cast<unsigned long long>(row.count),
              time_text(row.us).c_str(), time_text(row.us / static_cast<double>(row.count)).c_str(),
              time_text(row.executing_us).c_str(), bytes_text(static_cast<double>(row.bytes_down)).c_str());
    }
}

template <typename Row>
void print_rows(std::string& out, const char* title, const std::vector<Row>& rows) {
    if (rows.empty()) return;
    print(out, "\n%s\n  %-34s %8s %11s %11s %11s\n", title, "call", "times", "in all", "each", "longest");
    for (size_t i = 0; i < std::min(rows.size(), k_rows); ++i) {
        const Row& row = rows[i];
        print(out, "  %-34s %8llu %11s %11s %11s\n", row.name.c_str(), static_cast<unsigned long long>(row.count),
              time_text(row.us).c_str(), time_text(row.us / static_cast<double>(row.count)).c_str(),
              time_text(row.worst_us).c_str());
    }
}

void print_lanes(std::string& out, const Account& account) {
    if (account.lanes.empty()) return;
    print(out, "\nWhat travelled\n  %-20s %8s %9s %11s %11s %7s %11s\n", "lane", "frames", "calls", "bytes", "sent as", "",
          "MB/s");
    for (const LaneRow& row : account.lanes) {
        char name[32];
        std::snprintf(name, sizeof name, "%u, %s", row.lane, row.received ? "received" : "sent");
        const double share = row.bytes == 0 ? 1 : static_cast<double>(row.wire_bytes) / static_cast<double>(row.bytes);
        print(out, "  %-20s %8llu %9llu %11s %11s %5.1f %%", name, static_cast<unsigned long long>(row.frames),
              static_cast<unsigned long long>(row.calls), bytes_text(static_cast<double>(row.bytes)).c_str(),
              bytes_text(static_cast<double>(row.wire_bytes)).c_str(), 100 * share);
        if (row.busy_us > 0) print(out, " %11.1f", static_cast<double>(row.wire_bytes) / row.busy_us);
        out += "\n";
    }
}

void print_predictions(std::string& out, const Account& account, const std::vector<Prediction>& predictions) {
    if (predictions.empty()) return;
    print(out, "\nOver another link (here: %s; %s)\n  %-24s %11s %8s %11s\n", time_text(account.whole.us()).c_str(),
          link_text({account.round_trip_us, 0}).c_str(), "round trip, rate", "time", "of here", "waiting");
    for (const Prediction& prediction : predictions)
        print(out, "  %-24s %11s %7.2fx %11s\n", link_text(prediction.link).c_str(), time_text(prediction.us).c_str(),
              account.whole.us() > 0 ? prediction.us / account.whole.us() : 0, time_text(prediction.waiting_us).c_str());
}

/// What is missing, so that nobody takes a part for the whole.
std::vector<std::string> reservations(const Trace& trace) {
    std::vector<std::string> texts;
    if (!trace.complete) texts.emplace_back("The trace ends before the process did, or was cut off: this is its beginning.");
    if (trace.executed.empty())
        texts.emplace_back(
            "The server told nothing of when it executed calls (tell_executed): all of a wait counts as the link's.");
    if (trace.dropped != 0) texts.push_back("The server left out " + std::to_string(trace.dropped) + " calls of its account.");
    if (trace.left_out != 0)
        texts.push_back("The file has a limit (WARPLINE_TRACE_LIMIT), and " + std::to_string(trace.left_out) +
                        " events are not in it.");
    return texts;
}

OrderedJson as_json(const Shares& shares) {
    return {{"all_us", shares.all_us},         {"own_us", shares.own_us},
            {"calls_us", shares.calls_us},     {"executing_us", shares.executing_us},
            {"link_us", shares.link_us},       {"credit_us", shares.credit_us},
            {"payload_us", shares.payload_us}, {"session_us", shares.session_us}};
}

}  // namespace

std::string as_text(const Trace& trace, const Account& account, const std::vector<Prediction>& predictions) {
    std::string out;
    print(out, "%s, on %s (%s): %s, round trip %s, the server's clock known to %s\n",
          trace.program.substr(trace.program.rfind('/') + 1).c_str(), trace.server.c_str(), trace.address.c_str(),
          time_text(account.whole.us()).c_str(), time_text(account.round_trip_us).c_str(),
          time_text(trace.clock_error_us).c_str());
    for (const std::string& text : reservations(trace)) out += text + "\n";
    print_shares(out, account);
    print_waits(out, account);
    print_rows(out, "Calls, as the program sees them", account.calls);
    print_rows(out, "Calls, as the server executes them", account.server);
    print_lanes(out, account);
    out += "\nWhat to change\n";
    if (account.advice.empty()) out += "  Nothing stands out.\n";
    for (const std::string& text : account.advice) out += "  - " + text + "\n";
    print_predictions(out, account, predictions);
    return out;
}

std::string as_json(const Trace& trace, const Account& account, const std::vector<Prediction>& predictions) {
    OrderedJson json = {{"program", trace.program},
                        {"server", trace.server},
                        {"address", trace.address},
                        {"complete", trace.complete},
                        {"reservations", reservations(trace)},
                        {"seconds", account.whole.us() / 1e6},
                        {"threads", account.threads},
                        {"round_trip_us", account.round_trip_us},
                        {"clock_error_us", trace.clock_error_us},
                        {"server_calls_dropped", trace.dropped},
                        {"shares", as_json(account.shares)},
                        {"wait_count", account.wait_count},
                        {"waits", OrderedJson::array()},
                        {"calls", OrderedJson::array()},
                        {"server_calls", OrderedJson::array()},
                        {"lanes", OrderedJson::array()},
                        {"advice", account.advice},
                        {"predictions", OrderedJson::array()}};
    for (const WaitRow& row : account.waits)
        json["waits"].push_back({{"call", row.call},
                                 {"sent", row.sent},
                                 {"count", row.count},
                                 {"us", row.us},
                                 {"executing_us", row.executing_us},
                                 {"bytes_down", row.bytes_down}});
    for (const CallRow& row : account.calls)
        json["calls"].push_back(
            {{"name", row.name}, {"count", row.count}, {"us", row.us}, {"worst_us", row.worst_us}, {"sent", row.sent}});
    for (const ServerRow& row : account.server)
        json["server_calls"].push_back({{"name", row.name}, {"count", row.count}, {"us", row.us}, {"worst_us", row.worst_us}});
    for (const LaneRow& row : account.lanes)
        json["lanes"].push_back({{"lane", row.lane},
                                 {"received", row.received},
                                 {"frames", row.frames},
                                 {"calls", row.calls},
                                 {"bytes", row.bytes},
                                 {"wire_bytes", row.wire_bytes},
                                 {"busy_us", row.busy_us}});
    for (const Prediction& prediction : predictions)
        json["predictions"].push_back({{"round_trip_ms", prediction.link.round_trip_us / 1e3},
                                       {"rate_mbit", prediction.link.bytes_per_us * 8},
                                       {"seconds", prediction.us / 1e6},
                                       {"waiting_seconds", prediction.waiting_us / 1e6}});
    return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace warpline::analyze
