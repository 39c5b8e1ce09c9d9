// The subcommand `warpline-bench report`.
#pragma once

#include <string>
#include <vector>

#include "bench/report/target.h"

namespace warpline::bench {

struct ReportOptions {
    Target target;
    bool quick = false;
    int clients = 0;                         ///< the most at the same time; 0: as many as usual
    std::vector<std::string> sections;       ///< ids of those that are measured; none: all of them
    std::string output = "warpline-report";  ///< .json, .csv and .html are added
};

/// Measures, with progress on the standard error, and writes the report. @return the exit code: 0; 1 if a figure could not be
/// taken or was wrong; 2 if there is nothing to measure, or the report cannot be written
int report(const ReportOptions& options);

}  // namespace warpline::bench
