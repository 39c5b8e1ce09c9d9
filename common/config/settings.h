#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/options.h"

namespace warpline::config {

/// Values of the options of one program: file < environment < flags. Immutable once loaded.
class Settings {
public:
    /// Defaults only.
    explicit Settings(Program program);

    Program program() const { return m_program; }

    // Values by name. Asking for a name or a type that the description lacks is a bug and aborts.
    const std::string& text(std::string_view name) const;
    std::string path(std::string_view name) const;  ///< with ~/ replaced
    int64_t integer(std::string_view name) const;
    uint64_t bytes(std::string_view name) const;
    std::chrono::seconds seconds(std::string_view name) const;
    bool boolean(std::string_view name) const;
    std::vector<std::string> text_list(std::string_view name) const;

    /// Where a value comes from: "default", "server.toml:12", "environment WARPLINE_LOG", "flag --log".
    const std::string& origin(std::string_view name) const;

    /// Sets one value from text.
    ///
    /// @param problem  receives one line for the user if the text is no value of that option
    /// @return         false if it was refused; the old value stays
    bool set(std::string_view name, std::string_view text, std::string origin, std::string& problem);

private:
    struct Value {
        const Option* option = nullptr;
        std::string text;
        int64_t number = 0;
        std::string origin;
    };
    const Value& value(std::string_view name) const;

    Program m_program;
    std::map<std::string, Value, std::less<>> m_values;
};

/// Reads a TOML file into the settings. Unknown tables and keys are errors that name the line.
///
/// @return  false, and `problem` holds lines for the user ("server.toml:12: unknown key 'lissten'; did you mean 'listen'?")
bool load_file(const std::string& path, Settings& settings, std::string& problem);

/// Reads the environment variables that the description names.
bool load_environment(Settings& settings, std::string& problem);

/// The settings of the client library: the file (WARPLINE_CONFIG, else ~/.config/warpline/client.toml if it exists), then
/// the environment. A value that is refused is reported in `problem` and its default stays.
Settings load_client(std::string& problem);

struct CommandLine {
    enum class Outcome : uint8_t { run, exit_success, exit_failure };
    Outcome outcome = Outcome::run;
    Settings settings;
};

/// The settings of gpu-server: --config FILE (or WARPLINE_CONFIG, or the default file if it exists), environment, flags. Prints
/// help, version and problems itself (stdout for the former two, stderr for problems); the program then exits as `outcome`
/// says.
CommandLine load_server(int argc, const char* const* argv);

/// Flags of a sub-command of `warpline` that change settings, for its own parser: name, value, one line of help.
struct FlagHelp {
    const Option* option = nullptr;
    std::string usage;  ///< "--listen ADDRESS"
    std::string help;   ///< with unit and default
};
std::vector<FlagHelp> flag_help(Program program);

}  // namespace warpline::config
