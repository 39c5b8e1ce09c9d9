// One process for each link, since a program connects once.
#include "bench/report/sweep.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "bench/link/link_command.h"
#include "bench/link/measure.h"
#include "bench/link/relay.h"
#include "bench/report/child.h"
#include "bench/report/figure.h"

namespace warpline::bench {

namespace {

constexpr const char* k_columns =
    "| round trip | rate | wait, ms | step, ms | start, ms | copied | to the device, GB/s | of the link | from the device, "
    "GB/s | of the "
    "link |\n|---|---|---|---|---|---|---|---|---|---|\n";

std::string digits(double value) { return with_unit(value, ""); }

/// What to copy: 4 KiB times a power of four, as the copies of a report are.
size_t copy_bytes(size_t wanted, double bits_per_s) {
    if (wanted == 0) {
        if (bits_per_s <= 0 || bits_per_s > 2e9) return size_t{256} << 20;
        return bits_per_s > 2e8 ? size_t{64} << 20 : size_t{16} << 20;
    }
    size_t bytes = 4 << 10;
    while (bytes < wanted) bytes *= 4;
    return bytes;
}

/// The figures of one process of its own, with the environment of this one.
Result<LinkCosts> costs(double round_trip_ms, size_t bytes) {
    const auto times = [&](double ms, int least, int most) {
        return std::to_string(std::clamp(static_cast<int>(ms / std::max(round_trip_ms, 0.001)), least, most));
    };
    std::string size = bytes_in_words(static_cast<double>(bytes));
    std::erase(size, ' ');
    const std::string ids = "latency/synchronize,training/step,start/total,bandwidth/to-device/pageable/random/" + size +
                            ",bandwidth/from-device/pageable/random/" + size;
    Child child = WL_TRY(Child::start({"--measure-process", ids, "--measure-bytes", std::to_string(bytes), "--measure-calls",
                                       times(400, 10, 1000), "--measure-steps", times(800, 10, 200)}));
    double values[5] = {};
    for (double& value : values) value = std::strtod(child.read_line().c_str(), nullptr);
    if (!child.ended_well()) return Error{Code::internal, "it could not be measured: see above"};
    return LinkCosts{values[0] / 1e3, values[1], values[2], values[3], values[4], static_cast<double>(bytes)};
}

class Sweep {
public:
    Sweep(const SweepOptions& options, net::Endpoint server) : m_options(options), m_server(std::move(server)) {}

    int run() {
        std::printf("Each figure / that of the cost model. %s\n\n%s", m_options.target.command_line().c_str(), k_columns);
        const auto alone = costs(0, copy_bytes(m_options.copy_bytes, 0));
        if (!alone.ok()) return 2;
        m_alone = *alone;
        row("none", "none", m_alone, std::nullopt, 0);
        m_csv = "rtt_ms,rate_mbit,wait_ms,step_ms,start_ms,copied_bytes,to_device_gb_s,from_device_gb_s\n";
        csv_line(0, 0, m_alone);
        bool good = true;
        for (const double rate : m_options.rates_mbit)
            for (const double round_trip : m_options.round_trips_ms) good &= measure(round_trip, rate);
        if (!m_options.csv.empty()) {
            std::ofstream file(m_options.csv);
            file << m_csv;
            file.close();
            if (!file) {
                std::fprintf(stderr, "warpline-bench: %s cannot be written\n", m_options.csv.c_str());
                return 2;
            }
        }
        return good ? 0 : 1;
    }

private:
    bool measure(double round_trip_ms, double rate_mbit) {
        LinkOptions link{.round_trip_ms = round_trip_ms,
                         .rate_mbit = rate_mbit,
                         .loss_percent = m_options.loss_percent,
                         .jitter_ms = m_options.jitter_ms};
        const auto measured = through(link);
        if (!measured.ok()) {
            std::printf("| %g ms | %g Mb/s | %s |\n", round_trip_ms, rate_mbit, measured.error().what);
            return false;
        }
        const double bits = rate_mbit * 1e6;
        char name[2][32];
        std::snprintf(name[0], sizeof name[0], "%g ms", round_trip_ms);
        std::snprintf(name[1], sizeof name[1], rate_mbit > 0 ? "%g Gb/s" : "any", rate_mbit / 1e3);
        row(name[0], name[1], *measured, m_alone.on(round_trip_ms, bits, measured->copy_bytes), bits / 8e9);
        csv_line(round_trip_ms, rate_mbit, *measured);
        return true;
    }

    Result<LinkCosts> through(const LinkOptions& link) {
        const LinkProperties properties = WL_TRY(calibrated(link.properties()));
        std::string why;
        RunningRelay relay(WL_TRY(Relay::open({"127.0.0.1", 0}, m_server, properties, why)));
        // The relay speaks TCP, whatever the server does.
        const bool is_tcp = m_server.kind == net::Endpoint::Kind::tcp;
        const std::string servers = (is_tcp ? m_server.host + "[127.0.0.1]:" : "127.0.0.1:") + std::to_string(relay.port());
        ::setenv("WARPLINE_SERVERS", servers.c_str(), 1);
        return costs(link.round_trip_ms, copy_bytes(m_options.copy_bytes, properties.bits_per_s));
    }

    static void row(const char* round_trip, const char* rate, const LinkCosts& got, const std::optional<LinkCosts>& model,
                    double link_gb_s) {
        const auto cell = [&](double LinkCosts::*what) {
            return digits(got.*what) + (model ? " / " + digits((*model).*what) : "");
        };
        const auto share = [&](double rate_gb_s) { return link_gb_s > 0 ? digits(100 * rate_gb_s / link_gb_s) + " %" : ""; };
        std::printf("| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", round_trip, rate,
                    cell(&LinkCosts::wait_ms).c_str(), cell(&LinkCosts::step_ms).c_str(), cell(&LinkCosts::start_ms).c_str(),
                    bytes_in_words(got.copy_bytes).c_str(), cell(&LinkCosts::to_device_gb_s).c_str(),
                    share(got.to_device_gb_s).c_str(), cell(&LinkCosts::from_device_gb_s).c_str(),
                    share(got.from_device_gb_s).c_str());
        std::fflush(stdout);
    }

    void csv_line(double round_trip_ms, double rate_mbit, const LinkCosts& got) {
        char line[256];
        std::snprintf(line, sizeof line, "%g,%g,%.6g,%.6g,%.6g,%.0f,%.6g,%.6g\n", round_trip_ms, rate_mbit, got.wait_ms,
                      got.step_ms, got.start_ms, got.copy_bytes, got.to_device_gb_s, got.from_device_gb_s);
        m_csv += line;
    }

    const SweepOptions& m_options;
    net::Endpoint m_server;
    LinkCosts m_alone;
    std::string m_csv;
};

}  // namespace

int sweep(const SweepOptions& options) {
    if (!is_inside(options.target)) return 2;
    const char* const variable = std::getenv("WARPLINE_SERVERS");
    const std::string servers = variable != nullptr ? variable : "";
    auto server = net::parse_endpoint(servers);
    // A name that may stand for several is for the client to resolve.
    if (!server.ok() || servers.find(',') != std::string::npos || servers.starts_with("dns:") || servers.starts_with("srv:")) {
        std::fprintf(stderr,
                     "warpline-bench: a sweep needs one server: --server HOST:PORT, --local, or WARPLINE_SERVERS=HOST:PORT\n");
        return 2;
    }
    return Sweep(options, std::move(*server)).run();
}

}  // namespace warpline::bench
