// What an option is.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// The one description of what can be configured. The loader, --help and docs/configuration.md follow from it.
namespace warpline::config {

enum class Program : uint8_t {
    server,    ///< gpu-server
    client,    ///< libcuda.so.1 and the `warpline` command, which uses the same settings
    software,  ///< the software GPU: environment only, it reads it itself; listed for the documentation
};

enum class Type : uint8_t {
    text,
    path,       ///< text; a leading ~/ means the home directory
    integer,    ///< unit as said
    seconds,    ///< integer
    bytes,      ///< integer with an optional suffix KiB, MiB, GiB, TiB (K, M, G, T likewise, powers of 1024)
    boolean,    ///< true/false, 1/0, on/off, yes/no
    text_list,  ///< separated by commas; an array in the file
};

/// One option. An empty `environment` or `flag`: it cannot be set there. `in_file` false: it cannot be set in the file.
struct Option {
    Program program = Program::server;
    std::string_view name;  ///< how programs ask for it, and the key in the file
    Type type = Type::text;
    std::string_view unit;          ///< "", "seconds", "bytes", "sessions"
    std::string_view default_text;  ///< as one would write it
    int64_t min = 0;                ///< numbers only
    int64_t max = 0;                ///< numbers only
    std::string_view environment;   ///< "WARPLINE_SERVERS"
    std::string_view flag;          ///< "--listen"
    bool in_file = true;
    std::string_view help;  ///< sentences for the user
    std::string_view cost;  ///< what another value costs or gains
};

std::span<const Option> options();

/// nullptr if the program has none of that name.
const Option* find_option(Program program, std::string_view name);

/// "server", "client"; the file is called <name>.toml.
std::string_view to_string(Program program);

/// The files of which the first that exists is read if none is named: /etc/warpline/server.toml;
/// ~/.config/warpline/client.toml, then /etc/warpline/client.toml. None for the software GPU.
std::span<const std::string_view> default_files(Program program);

/// The environment variable that names another file; empty for the software GPU.
std::string_view file_variable(Program program);

/// Where values come from, and how files are written.
std::string_view sources_of_values();

/// "1 to 64" for numbers that have bounds; empty for others, and for sizes.
std::string range(const Option& option);

/// The text of docs/configuration.md.
std::string documentation();

/// The manual page of a program's configuration: warpline-server.toml(5), warpline-client.toml(5), and for the software GPU,
/// which has no file, warpline-softgpu(7).
std::string manual_of_options(Program program);

}  // namespace warpline::config
