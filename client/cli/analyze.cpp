// Where a traced program's time went, and what it would be over another link.
#include "client/cli/analyze.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "client/analyze/report.h"

namespace warpline::cli {

namespace {

analyze::Link link_of(double round_trip_ms, double rate_mbit) { return {round_trip_ms * 1e3, rate_mbit / 8}; }

std::vector<analyze::Link> links_to_predict(const AnalyzeOptions& options) {
    if (!options.round_trips_ms.empty()) {
        std::vector<analyze::Link> links;
        for (const double round_trip_ms : options.round_trips_ms) links.push_back(link_of(round_trip_ms, options.rate_mbit));
        return links;
    }
    return {link_of(0.2, 10000), link_of(1, 1000), link_of(5, 100), link_of(30, 1000), link_of(100, 100)};
}

}  // namespace

int analyze(const AnalyzeOptions& options) {
    std::ifstream file(options.file, std::ios::binary);
    if (!file) {
        std::fprintf(stderr, "warpline: %s: %s\n", options.file.c_str(), std::strerror(errno));
        return 1;
    }
    std::string problem;
    const auto trace = analyze::read_trace(file, problem);
    if (!trace.ok()) {
        std::fprintf(stderr, "warpline: %s: %s\n", options.file.c_str(), problem.c_str());
        return 1;
    }
    const analyze::Account account = analyze::make_account(*trace);
    analyze::Timeline timeline = analyze::make_timeline(*trace);
    std::vector<analyze::Prediction> predictions;
    for (const analyze::Link& link : links_to_predict(options)) predictions.push_back(analyze::predict(*trace, timeline, link));
    const std::string text =
        options.json ? analyze::as_json(*trace, account, predictions) : analyze::as_text(*trace, account, predictions);
    std::fwrite(text.data(), 1, text.size(), stdout);
    return 0;
}

}  // namespace warpline::cli
