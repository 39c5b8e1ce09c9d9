// The table that `warpline devices` prints.
#include "client/cli/devices.h"

#include <algorithm>
#include <cstdio>

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

void append_rows(std::vector<Row>& rows, const Survey& survey) {
    if (!survey.reached) {
        rows.push_back(
            {survey.server, "-", "unreachable: CUDA error " + std::to_string(survey.cuda_error), "-", "-", "-", "-"});
        return;
    }
    auto fastest = std::min_element(survey.round_trips_us.begin(), survey.round_trips_us.end());
    for (size_t i = 0; i < survey.devices.size(); ++i) {
        const SurveyedDevice& d = survey.devices[i];
        rows.push_back({survey.server, std::to_string(i), d.name, memory(d),
                        std::to_string(d.major) + "." + std::to_string(d.minor), std::to_string(d.processors),
                        fastest == survey.round_trips_us.end() ? "-" : number("%.0f us", *fastest)});
    }
}

}  // namespace

int devices(const std::vector<ServerToVisit>& servers) {
    std::vector<Row> rows = {{"Server", "GPU", "Name", "Memory used / total", "Capability", "SMs", "Round trip"}};
    bool all_reached = !servers.empty();
    for (const ServerToVisit& server : servers) {
        if (!server.problem.empty()) {
            std::fprintf(stderr, "warpline: %s\n", server.problem.c_str());
            rows.push_back({server.address, "-", "not found", "-", "-", "-", "-"});
            all_reached = false;
            continue;
        }
        Probes probes;
        probes.count = 10;
        Survey found = survey(server.address, probes);
        all_reached &= found.reached;
        append_rows(rows, found);
    }
    if (rows.size() == 1) return 1;
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
    return all_reached ? 0 : 1;
}

}  // namespace warpline::cli
