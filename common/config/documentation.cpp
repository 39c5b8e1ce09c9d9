// docs/configuration.md, made from the description of the options.
#include "common/config/options.h"

namespace warpline::config {

namespace {

constexpr std::string_view k_introduction = R"(# Configuration

This page is made from the description of the options, `common/config/options.cpp`; `warpline-options` writes it.

)";

std::string_view title(Program program) {
    switch (program) {
        case Program::server: return "gpu-server";
        case Program::client: return "The client: libcuda.so.1 and the `warpline` command";
        case Program::software: return "The software GPU";
    }
    return "";
}

std::string quoted(std::string_view text) { return text.empty() ? "–" : "`" + std::string(text) + "`"; }

std::string row(const Option& option) {
    std::string key = option.in_file ? quoted(option.name) : "–";
    std::string what = std::string(option.help);
    if (!option.cost.empty()) what += " *" + std::string(option.cost) + "*";
    std::string unit = option.unit.empty() ? "" : " " + std::string(option.unit);
    std::string bounds = range(option).empty() ? "" : ", " + range(option);
    return "| " + key + " | " + quoted(option.environment) + " | " + quoted(option.flag) + " | " + quoted(option.default_text) +
           unit + bounds + " | " + what + " |\n";
}

std::string section(Program program) {
    std::string text = "\n## " + std::string(title(program)) + "\n";
    std::string files;
    for (std::string_view file : default_files(program)) files += (files.empty() ? "`" : "`, else `") + std::string(file);
    if (!files.empty())
        text += "File: " + files + "`, or the one that `" + std::string(file_variable(program)) + "` names" +
                (program == Program::server ? ", or `--config`" : "") + ".\n\n";
    else
        text += "The library reads the environment of the process that loads it.\n\n";
    text += "| key | environment | flag | default | what it does; *what another value costs* |\n|---|---|---|---|---|\n";
    for (const Option& option : options())
        if (option.program == program) text += row(option);
    return text;
}

/// "TOML (https://…)" as a link.
std::string linked(std::string text) {
    const size_t space = text.find(" (https:");
    text.replace(space, 1, "]").insert(text.find_last_of(" \n", space - 1) + 1, "[");
    return text;
}

}  // namespace

std::string_view sources_of_values() {
    return "Each option has one value from several sources; the stronger one wins: the default, the file, the environment, "
           "flags. Files are\n"
           "TOML (https://toml.io), one `key = value` per line; a key that is not in the table is an error that names its "
           "line. Sizes may be "
           "written\nwith a suffix (`\"64MiB\"`), lists as arrays or with commas.";
}

std::string range(const Option& option) {
    if (option.min == option.max || option.type == Type::bytes) return "";
    return std::to_string(option.min) + " to " + std::to_string(option.max);
}

std::string documentation() {
    return std::string(k_introduction) + linked(std::string(sources_of_values())) + "\n" + section(Program::server) +
           section(Program::client) + section(Program::software);
}

}  // namespace warpline::config
