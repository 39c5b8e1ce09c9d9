// The subcommand ping: what ping(8) shows of a machine, of a server, with TLS, worker and driver included.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "client/cli/devices.h"
#include "client/cli/survey.h"

namespace warpline::cli {

namespace {

/// Bytes per second, as people read them.
std::string rate(double bytes_per_s) {
    const char* const units[] = {"B/s", "kB/s", "MB/s", "GB/s"};
    size_t unit = 0;
    for (; bytes_per_s >= 1000 && unit + 1 < std::size(units); ++unit) bytes_per_s /= 1000;
    char text[32];
    std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", bytes_per_s, units[unit]);
    return text;
}

void print_round_trips(const std::vector<double>& trips_us) {
    double sum = 0, squares = 0;
    for (double trip : trips_us) sum += trip, squares += trip * trip;
    const double count = static_cast<double>(trips_us.size()), mean = sum / count;
    const double deviation = std::sqrt(std::max(0.0, squares / count - mean * mean));
    const auto [least, most] = std::minmax_element(trips_us.begin(), trips_us.end());
    std::printf("rtt min/avg/max/mdev = %.3f/%.3f/%.3f/%.3f ms\n", *least / 1e3, mean / 1e3, *most / 1e3, deviation / 1e3);
}

void print_link(const char* name, const SurveyedLink& link) {
    std::printf("%s %s for %.1f s, sent %s, received %s", name, link.level.c_str(), link.level_seconds,
                rate(link.sent_bytes_per_s).c_str(), rate(link.received_bytes_per_s).c_str());
    if (link.round_trips > 0)
        std::printf("; heartbeat rtt %.3f ms, variation %.3f ms, jitter %.3f ms, %llu of %llu missed", link.smoothed_us / 1e3,
                    link.variation_us / 1e3, link.jitter_us / 1e3, static_cast<unsigned long long>(link.missed_pings),
                    static_cast<unsigned long long>(link.pings));
    std::printf("\n");
}

/// True if the server answered.
bool ping_one(const std::string& server, const PingOptions& options) {
    const char* name = server.c_str();
    auto began = std::chrono::steady_clock::now();
    Probes probes;
    probes.count = options.count;
    probes.interval_s = options.interval_s;
    probes.copy_bytes = options.copy_bytes;
    probes.connected = [&](const Survey& found) {
        std::printf("PING %s: connected in %.1f ms, driver %d.%d, %zu device%s\n", name, found.connect_ms,
                    found.driver_version / 1000, found.driver_version % 1000 / 10, found.devices.size(),
                    found.devices.size() == 1 ? "" : "s");
        std::fflush(stdout);
        began = std::chrono::steady_clock::now();
    };
    probes.answered = [&](int number, double us) {
        std::printf("answer from %s: seq=%d time=%.3f ms\n", name, number, us / 1e3);
        std::fflush(stdout);
    };
    probes.failed = [&](int number, int error) {
        std::printf("no answer from %s: seq=%d CUDA error %d\n", name, number, error);
    };
    const Survey found = survey(server, probes);
    if (!found.reached) {
        std::printf("%s: unreachable (CUDA error %d)\n", name, found.cuda_error);
        return false;
    }
    const double took_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
    const size_t sent = static_cast<size_t>(found.probes_sent), answered = found.round_trips_us.size();
    std::printf("\n--- %s ping statistics ---\n%zu probes sent, %zu answered, %.0f%% loss, time %.0f ms\n", name, sent,
                answered, sent == 0 ? 0.0 : 100.0 * static_cast<double>(sent - answered) / static_cast<double>(sent), took_ms);
    if (answered > 0) print_round_trips(found.round_trips_us);
    if (found.to_device_bytes_per_s)
        std::printf("copied %llu bytes to the device at %s, back at %s\n", static_cast<unsigned long long>(options.copy_bytes),
                    rate(*found.to_device_bytes_per_s).c_str(), rate(*found.from_device_bytes_per_s).c_str());
    if (found.copy_error != 0) std::printf("no copy: CUDA error %d\n", found.copy_error);
    if (found.link) print_link("link", *found.link);
    for (const auto& [lane, link] : found.bulk_links) print_link(("bulk lane " + std::to_string(lane)).c_str(), link);
    const bool copied = options.copy_bytes == 0 || found.to_device_bytes_per_s;
    return answered > 0 && copied;
}

}  // namespace

int ping(const std::vector<ServerToVisit>& servers, const PingOptions& options) {
    if (servers.empty()) return 2;
    bool all_answered = true;
    for (const ServerToVisit& server : servers) {
        if (&server != &servers.front()) std::printf("\n");
        if (!server.problem.empty()) std::printf("%s\n", server.problem.c_str());
        all_answered &= server.problem.empty() && ping_one(server.address, options);
    }
    return all_answered ? 0 : 1;
}

}  // namespace warpline::cli
