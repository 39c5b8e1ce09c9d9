// Flags and help, made from the description of the options.
#include "common/config/command_line.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <map>

#include "common/config/manual_page.h"

namespace warpline::config {

namespace {

std::string help_text(const Option& option) {
    std::string text(option.help);
    std::string facts;
    auto add = [&](std::string fact) { facts += (facts.empty() ? "" : "; ") + fact; };
    if (!option.unit.empty()) add(std::string(option.unit));
    if (!option.default_text.empty() && option.in_file) add("default " + std::string(option.default_text));
    if (!option.environment.empty()) add("or " + std::string(option.environment));
    return facts.empty() ? text : text + " [" + facts + "]";
}

std::string value_name(Type type) {
    switch (type) {
        case Type::path: return "PATH";
        case Type::integer: return "N";
        case Type::seconds: return "SECONDS";
        case Type::bytes: return "BYTES";
        case Type::text_list: return "LIST";
        default: return "TEXT";
    }
}

bool load_all(const std::string& config_file, const std::map<const Option*, std::string>& flags, Settings& settings,
              std::string& problem) {
    bool ok = true;
    std::string path = config_file.empty() ? find_file(settings.program()) : config_file;
    if (!path.empty()) ok &= load_file(path, settings, problem);
    ok &= load_environment(settings, problem);
    for (const auto& [option, text] : flags) ok &= settings.set(option->name, text, std::string(option->flag), problem);
    return ok;
}

}  // namespace

std::vector<FlagHelp> flag_help(Program program) {
    std::vector<FlagHelp> result;
    for (const Option& option : options())
        if (option.program == program && !option.flag.empty()) result.push_back({&option, help_text(option)});
    return result;
}

CommandLine load_server(int argc, const char* const* argv) {
    using Outcome = CommandLine::Outcome;
    CommandLine result{Outcome::run, Settings(Program::server), CommandLine::Command::serve};
    CLI::App app("Serves this machine's GPUs to CUDA programs on other machines.", "gpu-server");
    app.set_version_flag("--version", "gpu-server " WARPLINE_VERSION);
    app.footer(
        "Options come from the file, the environment and flags; the later one wins. docs/configuration.md has the details.");
    app.get_formatter()->column_width(28);

    std::string config_file;
    app.add_option("--config", config_file,
                   "The configuration file [default " + std::string(default_files(Program::server).front()) +
                       " if it exists; or " + std::string(file_variable(Program::server)) + "]")
        ->type_name("PATH");
    std::map<const Option*, std::string> texts;
    std::map<const Option*, CLI::Option*> flags;
    for (const FlagHelp& flag : flag_help(Program::server)) {
        flags[flag.option] = app.add_option(std::string(flag.option->flag), texts[flag.option], flag.help)
                                 ->type_name(value_name(flag.option->type));
    }
    const char* const exit_codes = "Exit code: 0, or 1 if no server of yours runs there.";
    auto* status =
        app.add_subcommand("status", "Show how the server that runs on this machine is (at the address of --listen)");
    status->add_flag("--json", result.json, "As JSON, for scripts");
    status->add_flag(
        "--ready", result.ready,
        "Only whether it takes sessions: its driver has started, and it does not drain. One that is full is ready: "
        "it tells clients that it is full, and they choose another one");
    status->fallthrough()->footer(
        "Exit code: 0, or 1 if no server of yours runs there; with --ready also 1 if it takes no sessions, with the reason on "
        "stderr.");
    auto* drain = app.add_subcommand(
        "drain", "Have the server that runs on this machine take no new sessions, and end when the last one has ended");
    drain->add_flag("--wait", result.wait, "Return when it has ended");
    drain->fallthrough()->footer(exit_codes);
    app.require_subcommand(0, 1);
    add_manual_page(app, 8, {"warpline-server.toml(5)", "warpline(1)", "systemd.service(5)"});
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& end) {
        result.outcome = app.exit(end) == 0 ? Outcome::exit_success : Outcome::exit_failure;
        return result;
    }
    if (status->parsed()) result.command = CommandLine::Command::status;
    if (drain->parsed()) result.command = CommandLine::Command::drain;
    std::erase_if(texts, [&](const auto& text) { return flags[text.first]->count() == 0; });
    std::string problem;
    if (!load_all(config_file, texts, result.settings, problem)) {
        std::fputs(problem.c_str(), stderr);
        result.outcome = Outcome::exit_failure;
    }
    return result;
}

}  // namespace warpline::config
