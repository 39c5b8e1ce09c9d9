// How gpu-server gets its settings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/config/settings.h"

namespace warpline::config {

struct CommandLine {
    enum class Outcome : uint8_t { run, exit_success, exit_failure };
    /// What gpu-server is to do: be a server, or look after the one that runs.
    enum class Command : uint8_t { serve, status, drain };
    Outcome outcome = Outcome::run;
    Settings settings;
    Command command = Command::serve;
    bool json = false;   ///< of status
    bool ready = false;  ///< of status
    bool wait = false;   ///< of drain
};

/// The settings of gpu-server: --config FILE (else find_file()), then environment, then flags. Prints help and version on
/// stdout and problems on stderr; the program then ends as `outcome` says.
///
/// @thread  main, before others are started
CommandLine load_server(int argc, const char* const* argv);

/// Text about the flags of a program, one per line with unit and default, for a parser of one's own (the `warpline` command).
struct FlagHelp {
    const Option* option = nullptr;
    std::string help;
};
std::vector<FlagHelp> flag_help(Program program);

}  // namespace warpline::config
