// The subcommand `warpline-bench compare`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/report/figure.h"

namespace warpline::bench {

struct CompareOptions {
    std::string before, after;  ///< files
    double threshold_percent = 10;
    bool only_changes = false;
};

/// One figure of two reports.
struct Difference {
    const Figure* before;
    const Figure* after;
    double ratio = 1;     ///< of the medians: after to before
    bool beyond = false;  ///< each median lies outside the middle half of the other's values
    double worse = 1;     ///< the ratio as time would have it: above 1 is slower
};

/// What both reports have, in the order of the first.
std::vector<Difference> differences(const Report& before, const Report& after);

/// Prints a table. @return the exit code: 0; 1 if a figure that both have is slower by more than the threshold and beyond the
/// spread, or is missing or failed in the second report; 2 if a file is no report, or they have no figure in common
int compare(const CompareOptions& options);

}  // namespace warpline::bench
