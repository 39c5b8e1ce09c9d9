// The subcommand analyze.
#pragma once

#include <string>

namespace warpline::cli {

struct AnalyzeOptions {
    std::string file;
    double round_trip_ms = -1;  ///< of the link to predict for; negative: a few common ones
    double rate_mbit = 0;       ///< 0: any
    bool json = false;
};

/// Prints what a trace says. @return the exit code: 1 if the file is none
int analyze(const AnalyzeOptions& options);

}  // namespace warpline::cli
