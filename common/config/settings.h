// The values of the options.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/options.h"

namespace warpline::config {

/// Values of the options of one program. Each source is laid over the one before: file, environment, flags.
class Settings {
public:
    /// Defaults only.
    explicit Settings(Program program);

    Program program() const { return m_program; }

    // Values by name. Asking for a name or a type that the description lacks is a bug and aborts.
    const std::string& text(std::string_view name) const;
    std::string path(std::string_view name) const;  ///< with ~/ replaced; empty if there is none
    int64_t integer(std::string_view name) const;
    uint64_t bytes(std::string_view name) const;
    std::chrono::seconds seconds(std::string_view name) const;
    bool boolean(std::string_view name) const;
    std::vector<std::string> text_list(std::string_view name) const;

    /// A value of any type as it was written.
    const std::string& written(std::string_view name) const;
    /// Where a value comes from: "default", "server.toml:12", "WARPLINE_LOG", "--log".
    const std::string& origin(std::string_view name) const;
    /// True if a value was given and refused, so that another one stays, which the user did not mean.
    bool was_refused(std::string_view name) const { return value(name).refused; }

    /// Sets one value from text.
    ///
    /// @param problem  gets a line for the user if the text is no value of that option
    /// @return         false if it was refused; the old value stays
    bool set(std::string_view name, std::string_view text, std::string origin, std::string& problem);

private:
    struct Value {
        const Option* option = nullptr;
        std::string text;
        int64_t number = 0;
        std::string origin;
        bool refused = false;
    };
    const Value& value(std::string_view name, Type type) const;
    const Value& value(std::string_view name) const;

    Program m_program;
    std::map<std::string, Value, std::less<>> m_values;
};

/// Reads a TOML file into the settings. Unknown keys are errors. All problems are reported, one line each.
///
/// @return  false, with lines for the user in `problem`: "server.toml:12: unknown option 'lissten'; did you mean 'listen'?"
bool load_file(const std::string& path, Settings& settings, std::string& problem);

/// Reads the environment variables that the description names for this program.
bool load_environment(Settings& settings, std::string& problem);

/// The file that applies: the one named by file_variable(), else the first of default_files() that exists, else none (empty).
std::string find_file(Program program);

/// The settings of the client library and the `warpline` command before flags: file, then environment. Values that are refused
/// are reported in `problem`, and the weaker value stays: a library cannot end its program for a mistake in a file.
///
/// @blocks  reads a small file
Settings load_client(std::string& problem);

/// What `spin_microseconds` comes to on this machine. @blocks no
std::chrono::microseconds spin_of(const Settings& settings);

/// What the client's `bulk_lanes` comes to on this machine. @blocks no
unsigned bulk_lanes_of(const Settings& settings);

/// "~/x" with the home directory of the user; other text as it is.
std::string expand_home(std::string_view path);

}  // namespace warpline::config
