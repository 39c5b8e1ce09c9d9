// The subcommand analyze.
#pragma once

#include <string>
#include <vector>

namespace warpline::cli {

struct AnalyzeOptions {
    std::string file;
    std::vector<double> round_trips_ms;  ///< of the links to predict for; none: a few common ones
    double rate_mbit = 0;                ///< 0: any
    bool json = false;
};

/// Prints what a trace says. @return the exit code: 1 if the file is none
int analyze(const AnalyzeOptions& options);

}  // namespace warpline::cli
