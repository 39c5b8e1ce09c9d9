// Figures, and what they are compared with.
#include "bench/report/figure.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace warpline::bench {

namespace {

/// What follows "NAME :" in a file of lines such as /proc/cpuinfo; empty if nothing does.
std::string field_of(const char* file, const std::string& name) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);)
        if (line.starts_with(name))
            if (const size_t colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
    return "";
}

std::string first_line(const char* file) {
    std::ifstream in(file);
    std::string line;
    std::getline(in, line);
    return line;
}

}  // namespace

double Figure::at(double fraction) const {
    const double place = fraction * static_cast<double>(values.size() - 1);
    const size_t below = static_cast<size_t>(place);
    const double above = values[std::min(below + 1, values.size() - 1)];
    return values[below] + (above - values[below]) * (place - static_cast<double>(below));
}

std::vector<double> percentiles(std::vector<double> samples) {
    constexpr size_t k_kept = 101;
    std::sort(samples.begin(), samples.end());
    if (samples.size() <= k_kept) return samples;
    Figure all;
    all.values = std::move(samples);
    std::vector<double> kept;
    for (size_t i = 0; i < k_kept; ++i) kept.push_back(all.at(static_cast<double>(i) / (k_kept - 1)));
    return kept;
}

Machine Machine::here() {
    Machine machine;
    machine.processor = field_of("/proc/cpuinfo", "model name");
    utsname system{};
    if (::uname(&system) == 0) machine.kernel = std::string(system.sysname) + " " + system.release + " " + system.machine;
    machine.congestion_control = first_line("/proc/sys/net/ipv4/tcp_congestion_control");
    machine.cores = static_cast<unsigned>(::sysconf(_SC_NPROCESSORS_ONLN));
    machine.memory_bytes = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    if (double load[1]; ::getloadavg(load, 1) == 1) machine.load = load[0];
    return machine;
}

const Figure* Report::find(const std::string& id) const {
    const auto found = std::find_if(figures.begin(), figures.end(), [&](const Figure& f) { return f.id == id; });
    return found == figures.end() || found->values.empty() ? nullptr : &*found;
}

std::optional<double> Report::of_limit(const Figure& figure) const {
    const Figure* limit = find(figure.limit);
    if (figure.values.empty() || limit == nullptr || limit->unit != figure.unit) return std::nullopt;
    return figure.median() / limit->median();
}

const std::vector<Section>& sections() {
    static const std::vector<Section> all = {
        {"limits", "The machine's own limits",
         "What this machine does without Warpline, taken in the same run: between two threads over loopback, on one core and "
         "on two, and in memory.",
         Plot::distribution},
        {"latency", "Calls that wait for the device",
         "Each is one round trip: through client, TLS, server and driver. The limit is a TLS round trip of one byte from core "
         "to core.",
         Plot::distribution},
        {"launches", "Launches", "A kernel launch as the program sees it, and how many are executed.", Plot::bars},
        {"bandwidth", "Copies by size",
         "From the call until the bytes are where they belong. Each copy is compared, byte by byte.", Plot::lines, "bytes"},
        {"data", "Copies by kind of data", "What the bytes are matters where a connection is slower than compressing them.",
         Plot::bars},
        {"allocation", "Allocation", "Memory taken and given back.", Plot::bars},
        {"events", "Events", "What a program orders and times its work with.", Plot::bars},
        {"graphs", "Graphs", "A hundred kernels as a graph, and one by one.", Plot::bars},
        {"start", "Start-up", "A fresh process, from its first call to the end of its first kernel.", Plot::bars},
        {"clients", "Many clients",
         "Programs of their own on one server, each launching and waiting; the steps of all together.", Plot::lines, "clients"},
        {"sharing", "A step beside others", "The same programs: a launch and the wait for it, whoever else has one.",
         Plot::distribution},
        {"bursts", "Many clients of many launches", "The same with 1,000 launches in each step; the launches of all together.",
         Plot::lines, "clients"},
        {"training", "A training-like loop",
         "A step uploads a batch, launches a kernel per layer, and reads one word back: the wait of most training loops.",
         Plot::bars},
    };
    return all;
}

const std::vector<PeerFigure>& peer_figures() {
    static const char* const k_side_by_side =
        "2-vCPU AMD EPYC, loopback, no encryption, before a driver that does nothing; one run";
    static const std::vector<PeerFigure> all = {
        {"launches/issue", "Lupine", 5900, "ns", k_side_by_side},
        {"latency/synchronize", "Lupine", 88, "us", k_side_by_side},
        {"latency/from-device-4B", "Lupine", 73, "us", k_side_by_side},
        {"latency/to-device-4B", "Lupine", 79, "us", k_side_by_side},
        {"latency/to-device-4B", "Lupine", 7.3, "us", "its issue 839: copies of 0.5 to 1 KB in a network of 0.26 ms"},
        {"allocation/device-1MiB", "Lupine", 145, "us", k_side_by_side},
        {"start/total", "Lupine", 110, "ms", k_side_by_side},
        {"bandwidth/to-device/pageable/random/256MiB", "Lupine", 1.96, "GB/s", k_side_by_side},
        {"bandwidth/from-device/pageable/random/256MiB", "Lupine", 1.95, "GB/s", k_side_by_side},
        {"bandwidth/to-device/pinned/random/256MiB", "Lupine", 4.85, "GB/s",
         "its issue 292: RTX 2070 Super, loopback, no encryption, asynchronous (4.52 GiB/s)"},
    };
    return all;
}

std::string with_unit(double value, const std::string& unit) {
    const double magnitude = std::abs(value);
    const int digits = magnitude >= 99.95 || magnitude == 0 ? 0 : magnitude >= 9.995 ? 1 : magnitude >= 0.9995 ? 2 : 3;
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", digits, value);
    std::string number = text;
    for (size_t at = number.find('.') == std::string::npos ? number.size() : 0; at > 3 + (value < 0);)
        number.insert(at -= 3, ",");
    const std::string& shown = unit == "us" ? "µs" : unit;
    return shown.empty() ? number : number + " " + shown;
}

std::string right_aligned(const std::string& text, size_t columns) {
    // The bytes behind the first one of a character in UTF-8 take no column.
    const auto taken = static_cast<size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
    return std::string(taken < columns ? columns - taken : 0, ' ') + text;
}

std::string bytes_in_words(double bytes) {
    const char* const units[] = {"B", "KiB", "MiB", "GiB"};
    size_t unit = 0;
    for (; bytes >= 1024 && unit + 1 < std::size(units); ++unit) bytes /= 1024;
    char text[32];
    std::snprintf(text, sizeof text, "%g %s", bytes, units[unit]);
    return text;
}

}  // namespace warpline::bench
