// The table that `warpline devices` prints.
#include "client/cli/devices.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "client/cli/print_json.h"
#include "client/cli/survey.h"

namespace warpline::cli {

namespace {

struct Row {
    std::string server, index, name, memory, capability, processors, round_trip;
};

std::string number(const char* format, double value) {
    char text[64];
    std::snprintf(text, sizeof(text), format, value);
    return text;
}

std::string memory(const SurveyedDevice& device) {
    constexpr double k_mib = 1024 * 1024;
    double used = static_cast<double>(device.total_bytes - device.free_bytes);
    return number("%.0f", used / k_mib) + " / " + number("%.0f MiB", static_cast<double>(device.total_bytes) / k_mib);
}

/// What has been found at one server. There is no survey if there is nothing to visit.
struct Found {
    ServerToVisit server;
    std::optional<Survey> survey;
    bool reached() const { return survey && survey->reached; }
    std::optional<double> round_trip_us() const {
        auto fastest = std::min_element(survey->round_trips_us.begin(), survey->round_trips_us.end());
        return fastest == survey->round_trips_us.end() ? std::nullopt : std::optional(*fastest);
    }
};

std::string unreachable(const Survey& survey) { return "unreachable: CUDA error " + std::to_string(survey.cuda_error); }

void append_rows(std::vector<Row>& rows, const Found& found) {
    if (!found.reached()) {
        rows.push_back(
            {found.server.address, "-", found.survey ? unreachable(*found.survey) : "not found", "-", "-", "-", "-"});
        return;
    }
    const Survey& survey = *found.survey;
    const auto round_trip_us = found.round_trip_us();
    for (size_t i = 0; i < survey.devices.size(); ++i) {
        const SurveyedDevice& d = survey.devices[i];
        rows.push_back({survey.server, std::to_string(i), d.name, memory(d),
                        std::to_string(d.major) + "." + std::to_string(d.minor), std::to_string(d.processors),
                        round_trip_us ? number("%.0f us", *round_trip_us) : "-"});
    }
}

void print_table(const std::vector<Found>& all) {
    std::vector<Row> rows = {{"Server", "GPU", "Name", "Memory used / total", "Capability", "SMs", "Round trip"}};
    for (const Found& found : all) append_rows(rows, found);
    if (rows.size() == 1) return;
    size_t server = 0, name = 0, memory_width = 0;
    for (const Row& row : rows) {
        server = std::max(server, row.server.size());
        name = std::max(name, row.name.size());
        memory_width = std::max(memory_width, row.memory.size());
    }
    auto w = [](size_t n) { return static_cast<int>(n); };
    std::string rule = "+" + std::string(server + 2, '-') + "+-----+" + std::string(name + 2, '-') + "+" +
                       std::string(memory_width + 2, '-') + "+------------+-----+------------+";
    std::puts(rule.c_str());
    for (size_t i = 0; i < rows.size(); ++i) {
        const Row& r = rows[i];
        std::printf("| %-*s | %3s | %-*s | %*s | %10s | %3s | %10s |\n", w(server), r.server.c_str(), r.index.c_str(), w(name),
                    r.name.c_str(), w(memory_width), r.memory.c_str(), r.capability.c_str(), r.processors.c_str(),
                    r.round_trip.c_str());
        if (i == 0 || i + 1 == rows.size()) std::puts(rule.c_str());
    }
}

nlohmann::json json_of(const Found& found) {
    nlohmann::json said = {{"server", found.server.address}, {"reached", found.reached()}};
    if (!found.reached()) {
        said["problem"] = found.survey ? unreachable(*found.survey) : found.server.problem;
        return said;
    }
    said["driver_version"] = found.survey->driver_version;
    said["round_trip_us"] = nullptr;
    if (const auto round_trip_us = found.round_trip_us()) said["round_trip_us"] = *round_trip_us;
    said["devices"] = nlohmann::json::array();
    for (const SurveyedDevice& device : found.survey->devices)
        said["devices"].push_back({{"name", device.name},
                                   {"uuid", device.uuid},
                                   {"total_bytes", device.total_bytes},
                                   {"free_bytes", device.free_bytes},
                                   {"compute_capability", {device.major, device.minor}},
                                   {"multiprocessors", device.processors}});
    return said;
}

}  // namespace

int devices(const std::vector<ServerToVisit>& servers, Form form) {
    std::vector<Found> all;
    for (const ServerToVisit& server : servers) {
        Found& found = all.emplace_back(Found{server, {}});
        if (!server.problem.empty()) {
            std::fprintf(stderr, "warpline: %s\n", server.problem.c_str());
            continue;
        }
        Probes probes;
        probes.count = 10;
        found.survey = survey(server.address, probes);
    }
    if (form == Form::table) print_table(all);
    if (form == Form::json) {
        auto said = nlohmann::json::array();
        for (const Found& found : all) said.push_back(json_of(found));
        print_json(said);
    }
    return !all.empty() && std::all_of(all.begin(), all.end(), [](const Found& found) { return found.reached(); }) ? 0 : 1;
}

}  // namespace warpline::cli
