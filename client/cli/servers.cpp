// What `warpline servers` asks and prints.
#include <algorithm>
#include <cstdio>
#include <optional>

#include "client/cli/devices.h"
#include "client/cli/print_json.h"
#include "client/pool/poll.h"
#include "client/pool/quarantine.h"
#include "common/config/settings.h"

namespace warpline::cli {

namespace {

using Cells = std::vector<std::string>;

/// Of each device, as in "12% 0%"; "-" for what the server does not know.
std::string utilisation_of(const protocol::ServerStatus& status) {
    std::string text;
    for (const protocol::DeviceLoad& device : status.devices) {
        if (!text.empty()) text += ' ';
        text += device.utilisation_percent ? std::to_string(*device.utilisation_percent) + "%" : "-";
    }
    return text.empty() ? "-" : text;
}

/// Of each device's memory, likewise.
std::string free_memory_of(const protocol::ServerStatus& status) {
    std::string text;
    for (const protocol::DeviceLoad& device : status.devices) {
        char bytes[32] = "-";
        if (device.total_bytes > 0)
            std::snprintf(bytes, sizeof bytes, "%.1fGiB", static_cast<double>(device.free_bytes) / (1 << 30));
        text += (text.empty() ? "" : " ") + std::string(bytes);
    }
    return text.empty() ? "-" : text;
}

/// What is known of a server: why it has not answered, or what it said.
struct Heard {
    std::string address;
    std::string problem = "no answer in time";
    std::optional<protocol::ServerStatus> status;
    double round_trip_ms = 0;
};

Cells row_of(const Heard& heard) {
    if (!heard.status) return {heard.address, heard.problem};
    const protocol::ServerStatus& status = *heard.status;
    char driver[32];
    char round_trip[32];
    std::snprintf(driver, sizeof driver, "%s %d.%d", status.software_driver ? "software" : "NVIDIA",
                  status.driver_version / 1000, status.driver_version % 1000 / 10);
    std::snprintf(round_trip, sizeof round_trip, "%.2f ms", heard.round_trip_ms);
    return {heard.address,
            status.server_name,
            status.server_version,
            std::to_string(status.sessions) + " / " + std::to_string(status.max_sessions),
            std::to_string(status.workers_ready),
            status.draining ? "yes" : "no",
            std::to_string(status.device_count),
            utilisation_of(status),
            free_memory_of(status),
            driver,
            round_trip};
}

void print_table(const std::vector<Heard>& all) {
    std::vector<Cells> rows = {
        {"Server", "Name", "Version", "Sessions", "Ready", "Draining", "Devices", "Utilised", "Free", "Driver", "Round trip"}};
    for (const Heard& heard : all) rows.push_back(row_of(heard));
    std::vector<size_t> widths;
    for (const Cells& row : rows) {
        widths.resize(std::max(widths.size(), row.size()), 0);
        // The reason of one that does not answer takes what room it needs.
        for (size_t i = 0; row.size() > 2 && i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
        if (row.size() <= 2) widths[0] = std::max(widths[0], row[0].size());
    }
    for (const Cells& row : rows) {
        std::string line;
        for (size_t i = 0; i < row.size(); ++i) {
            line += row[i];
            if (i + 1 < row.size()) line.append(widths[i] - row[i].size() + 2, ' ');
        }
        std::puts(line.c_str());
    }
}

nlohmann::json json_of(const Heard& heard) {
    nlohmann::json said = {{"server", heard.address}, {"answered", heard.status.has_value()}};
    if (!heard.status) {
        said["problem"] = heard.problem;
        return said;
    }
    const protocol::ServerStatus& status = *heard.status;
    said.update({{"name", status.server_name},
                 {"version", status.server_version},
                 {"sessions", status.sessions},
                 {"max_sessions", status.max_sessions},
                 {"workers_ready", status.workers_ready},
                 {"draining", status.draining},
                 {"device_count", status.device_count},
                 {"driver", status.software_driver ? "software" : "nvidia"},
                 {"driver_version", status.driver_version},
                 {"round_trip_ms", heard.round_trip_ms}});
    said["devices"] = nlohmann::json::array();
    for (const protocol::DeviceLoad& device : status.devices) {
        nlohmann::json load = {{"utilisation_percent", nullptr}, {"total_bytes", nullptr}, {"free_bytes", nullptr}};
        if (device.utilisation_percent) load["utilisation_percent"] = *device.utilisation_percent;
        if (device.total_bytes > 0) load.update({{"total_bytes", device.total_bytes}, {"free_bytes", device.free_bytes}});
        said["devices"].push_back(load);
    }
    return said;
}

/// What is said after the address, which is in the table already.
std::string reason_of(const std::string& server, const std::string& why) {
    return why.starts_with(server + ": ") ? why.substr(server.size() + 2) : why;
}

}  // namespace

int servers(const std::vector<ServerToVisit>& given, Form form, Wanted wanted) {
    if (given.empty()) return 2;
    std::string problem;
    const auto settings = config::load_client(problem);
    const auto identity = client::Identity::load(settings, problem);
    std::vector<std::string> all;
    for (const ServerToVisit& server : given) all.push_back(server.address);
    if (!identity.ok() || !identity->suits_any(all, problem).ok()) {
        std::fprintf(stderr, "warpline: %s\n", problem.c_str());
        return 2;
    }
    std::vector<Heard> heard;
    std::vector<std::string> addresses;
    std::vector<size_t> place_of_address;
    for (const auto& [address, why] : given) {
        Heard& server = heard.emplace_back();
        server.address = address;
        if (!why.empty()) server.problem = reason_of(address, why);
        if (!why.empty()) continue;
        addresses.push_back(address);
        place_of_address.push_back(heard.size() - 1);
    }
    const auto deadline = client::Poll::Clock::now() + settings.seconds("connect_timeout");
    const client::Quarantine quarantine(settings.seconds("quarantine_seconds"));
    client::Poll poll(addresses, *identity, deadline, true,
                      [quarantine](const std::string& server, const Error& error) { quarantine.failed(server, error); });
    // A thread's own deadline is the same, and its reason is better than ours.
    while (auto answer = poll.next(deadline + std::chrono::milliseconds(500))) {
        Heard& server = heard[place_of_address[answer->index]];
        if (!answer->connection) {
            server.problem = reason_of(server.address, answer->why);
            continue;
        }
        // Whoever asks by hand has seen that it is back, and wants programs to see it, too.
        quarantine.well(server.address);
        server.status = std::move(answer->status);
        server.round_trip_ms = answer->connection->round_trip_ms();
        if (wanted == Wanted::any) break;
    }
    if (form == Form::table) print_table(heard);
    if (form == Form::json) {
        auto said = nlohmann::json::array();
        for (const Heard& server : heard) said.push_back(json_of(server));
        print_json(said);
    }
    const auto answered = [](const Heard& server) { return server.status.has_value(); };
    return (wanted == Wanted::any ? std::any_of(heard.begin(), heard.end(), answered)
                                  : std::all_of(heard.begin(), heard.end(), answered))
               ? 0
               : 1;
}

}  // namespace warpline::cli
