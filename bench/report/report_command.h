// The subcommand `warpline-bench report`.
#pragma once

#include <string>
#include <vector>

namespace warpline::bench {

struct ReportOptions {
    std::string server;   ///< HOST:PORT; empty: that of WARPLINE_SERVERS, unless one of the following says otherwise
    bool local = false;   ///< a private server on this machine
    bool direct = false;  ///< the software GPU in this process
    bool native = false;  ///< this machine's own driver, without Warpline
    bool quick = false;
    bool inside = false;                     ///< under `warpline run` already
    std::string output = "warpline-report";  ///< .json, .csv and .html are added
    std::vector<std::string> command;        ///< this program's arguments, as given
};

/// Measures, with progress on the standard error, and writes the report. @return the exit code: 0; 1 if a figure could not be
/// taken or was wrong; 2 if there is nothing to measure, or the report cannot be written
int report(const ReportOptions& options);

}  // namespace warpline::bench
