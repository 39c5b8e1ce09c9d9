#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// The one description of what can be configured. The loader, --help and docs/configuration.md follow from it.
namespace warpline::config {

/// Who understands an option; bits.
enum Program : uint8_t { k_server = 1, k_client = 2, k_command = 4 };

enum class Type : uint8_t {
    text,
    path,       ///< text; a leading ~/ means the home directory
    integer,    ///< unit as said
    seconds,    ///< integer
    bytes,      ///< integer with an optional suffix KiB, MiB, GiB, TiB (K, M, G, T likewise, powers of 1024)
    boolean,    ///< true/false, 1/0, on/off, yes/no
    text_list,  ///< separated by commas; an array in the file
};

/// One option. Empty `environment` or `flag`: cannot be set there. Empty `key`: cannot be set in the file.
struct Option {
    std::string_view name;  ///< how the programs ask for it; also the key in the file ("server.listen": table, key)
    Type type = Type::text;
    std::string_view unit;          ///< "", "seconds", "bytes", "sessions"
    std::string_view default_text;  ///< as one would write it
    int64_t min = 0;                ///< numbers only
    int64_t max = 0;                ///< numbers only; min == max: no bounds
    std::string_view environment;   ///< "WARPLINE_SERVERS"
    std::string_view flag;          ///< "--listen"
    uint8_t programs = 0;           ///< of Program
    std::string_view help;          ///< one sentence
    std::string_view cost;          ///< what changing it costs
};

std::span<const Option> options();

/// nullptr if there is none.
const Option* find_option(std::string_view name);

/// The text of docs/configuration.md.
std::string documentation();

}  // namespace warpline::config
