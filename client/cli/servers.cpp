// The table that `warpline servers` prints.
#include <algorithm>
#include <cstdio>
#include <optional>

#include "client/cli/devices.h"
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

Cells row_of(const std::string& server, const protocol::ServerStatus& status, double round_trip_ms) {
    char driver[32];
    char round_trip[32];
    std::snprintf(driver, sizeof driver, "%s %d.%d", status.software_driver ? "software" : "NVIDIA",
                  status.driver_version / 1000, status.driver_version % 1000 / 10);
    std::snprintf(round_trip, sizeof round_trip, "%.2f ms", round_trip_ms);
    return {server,
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

void print(const std::vector<Cells>& rows) {
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

/// What is said after the address, which is in the table already.
std::string reason_of(const std::string& server, const std::string& why) {
    return why.starts_with(server + ": ") ? why.substr(server.size() + 2) : why;
}

}  // namespace

int servers(const std::vector<ServerToVisit>& given) {
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
    std::vector<Cells> rows(given.size());
    std::vector<std::string> addresses;
    std::vector<size_t> row_of_address;
    for (size_t i = 0; i < given.size(); ++i) {
        const auto& [address, problem] = given[i];
        rows[i] = {address, problem.empty() ? "no answer in time" : reason_of(address, problem)};
        if (!problem.empty()) continue;
        addresses.push_back(address);
        row_of_address.push_back(i);
    }
    const auto deadline = client::Poll::Clock::now() + settings.seconds("connect_timeout");
    const client::Quarantine quarantine(settings.seconds("quarantine_seconds"));
    client::Poll poll(addresses, *identity, deadline, true,
                      [quarantine](const std::string& server, const Error& error) { quarantine.failed(server, error); });
    bool all_answered = true;
    size_t heard = 0;
    // A thread's own deadline is the same, and its reason is better than ours.
    while (auto answer = poll.next(deadline + std::chrono::milliseconds(500))) {
        ++heard;
        const std::string& server = addresses[answer->index];
        all_answered &= answer->connection != nullptr;
        // Whoever asks by hand has seen that it is back, and wants programs to see it, too.
        if (answer->connection) quarantine.well(server);
        rows[row_of_address[answer->index]] = answer->connection
                                                  ? row_of(server, answer->status, answer->connection->round_trip_ms())
                                                  : Cells{server, reason_of(server, answer->why)};
    }
    rows.insert(rows.begin(), {"Server", "Name", "Version", "Sessions", "Ready", "Draining", "Devices", "Utilised", "Free",
                               "Driver", "Round trip"});
    print(rows);
    return all_answered && heard == given.size() ? 0 : 1;
}

}  // namespace warpline::cli
