// Running named cases: `warpline-bench CASES`.
#pragma once

#include <string>

namespace warpline::bench {

/// What was asked for.
struct CaseOptions {
    std::string cases = "all";
    int runs = 5;
    bool csv = false;
    bool json = false;
    bool list = false;
    bool inside = false;   // the child under `warpline run`
    bool execute = false;  // let the software GPU compute in driver cases
    std::string mode = "--local";
};

/// Runs the cases that were asked for and prints their figures. Cases that call the driver are run in a child under `warpline
/// run`, so that one command shows the whole path. @return the exit code
int run_cases(const CaseOptions& options);

}  // namespace warpline::bench
