// What a report consists of: figures, each with its unit, its limit and what was verified, and the machine that they are of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace warpline::bench {

/// One thing that was measured.
struct Figure {
    std::string id{};       ///< "bandwidth/to-device/pageable/random/1MiB": the same in all reports
    std::string section{};  ///< the id of one of sections()
    std::string title{};    ///< for people, within its section
    std::string unit{};     ///< "us", "GB/s"
    bool higher_is_better = false;
    std::string limit{};     ///< the id of the figure of the same unit that this machine sets as a limit; empty: there is none
    std::string series{};    ///< the line or bar of a plot that it belongs to
    double x = 0;            ///< where it is on a line: bytes, clients
    std::string verified{};  ///< what was compared, in words
    std::string error{};     ///< why there is no value; else empty
    std::vector<double> values{};  ///< ascending: those of all runs, or where there are more than 101 their percentiles 0 … 100

    /// The value below which `fraction` of the values lie. @param fraction 0 … 1. There must be values.
    double at(double fraction) const;
    double median() const { return at(0.5); }
};

/// Sorts samples and keeps no more than 101 of them: the percentiles.
std::vector<double> percentiles(std::vector<double> samples);

/// What the figures depend on besides Warpline.
struct Machine {
    std::string processor, kernel, congestion_control;
    unsigned cores = 0;
    uint64_t memory_bytes = 0;
    double load = 0;  ///< average of the last minute, when the report began

    static Machine here();
};

struct Report {
    std::string version;  ///< of warpline-bench
    std::string date;     ///< UTC, "2026-11-23T12:00:00Z"
    std::string command;
    std::string target;  ///< "server gpu-node:14833", "local", "direct", "native"
    std::string device;  ///< the name of the GPU
    bool quick = false;
    double seconds = 0;  ///< that it took
    Machine machine;
    std::vector<Figure> figures;

    /// Nothing if there is none of that id, or it has no value.
    const Figure* find(const std::string& id) const;
    /// The median, divided by that of its limit. Nothing if it has none.
    std::optional<double> of_limit(const Figure& figure) const;
};

/// How a section's figures are drawn.
enum class Plot : uint8_t {
    bars,          ///< a bar for each figure
    lines,         ///< a line for each series, over x
    distribution,  ///< for each figure the share of its values below …
};

/// A part of a report.
struct Section {
    const char* id;
    const char* title;
    const char* what;  ///< a sentence
    Plot plot;
    const char* x = "";  ///< of lines: "bytes", "clients"
};
const std::vector<Section>& sections();

/// A figure of another system, for those of ours that measure the same.
struct PeerFigure {
    const char* id;  ///< of our figure
    const char* system;
    double value;
    const char* unit;
    const char* source;  ///< and how it was measured
};
const std::vector<PeerFigure>& peer_figures();

/// "1.93 GB/s", "27.1 us": three digits that say something.
std::string with_unit(double value, const std::string& unit);
/// With spaces before it, so that it takes so many columns.
std::string right_aligned(const std::string& text, size_t columns);
/// "4 KiB"
std::string bytes_in_words(double bytes);

/// @name The three forms of a report. The JSON has everything; what it means is in docs/performance.md#the-report. @{
std::string to_json(const Report& report);
/// @errors malformed: no report of this version
Result<Report> from_json(const std::string& text);
/// A line for each figure, after one with the names of the columns.
std::string to_csv(const Report& report);
/// One page, with everything it needs in it.
std::string to_html(const Report& report);
/// @}

}  // namespace warpline::bench
