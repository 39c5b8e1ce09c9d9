// The `warpline` command.

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "client/cli/analyze.h"
#include "client/cli/devices.h"
#include "client/cli/options.h"
#include "client/cli/run.h"
#include "client/cli/survey.h"
#include "client/cli/watch.h"
#include "common/config/manual_page.h"
#include "common/log/log.h"

using namespace warpline;

namespace {

void add_analyze(CLI::App& app, cli::AnalyzeOptions& options) {
    const std::map<std::string, double> times{{"us", 1e-3}, {"ms", 1}, {"s", 1e3}};
    const std::map<std::string, double> rates{{"kbit", 1e-3}, {"Mbit", 1}, {"Gbit", 1e3}};
    auto* analyze = app.add_subcommand(
        "analyze", "Say where the time of a traced program went, what waits, what to change, what another link would cost");
    analyze->add_option("file", options.file, "The trace (WARPLINE_TRACE)")->required()->type_name("FILE");
    auto* round_trip =
        analyze->add_option("--rtt", options.round_trips_ms, "Predict for this round trip, such as 30ms; may be repeated")
            ->type_name("TIME")
            ->allow_extra_args(false)
            ->check(CLI::NonNegativeNumber)
            ->transform(CLI::AsNumberWithUnit(times, CLI::AsNumberWithUnit::CASE_INSENSITIVE));
    analyze->add_option("--rate", options.rate_mbit, "and this rate, such as 1Gbit (default: any)")
        ->type_name("RATE")
        ->needs(round_trip)
        ->check(CLI::NonNegativeNumber)
        ->transform(CLI::AsNumberWithUnit(rates, CLI::AsNumberWithUnit::CASE_INSENSITIVE));
    analyze->add_flag("--json", options.json, "One JSON object instead of tables");
    analyze->footer("docs/trace.md says what the figures mean.\nExit code: 0; 1 if the file is no trace.");
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{
        "Runs CUDA programs on GPUs of other machines.\n"
        "Servers come from WARPLINE_SERVERS=HOST:PORT,…; certificates from WARPLINE_CERT, WARPLINE_KEY and WARPLINE_CA.",
        "warpline"};
    app.set_version_flag("--version", std::string("warpline ") + WARPLINE_VERSION);
    app.require_subcommand(1);

    cli::RunOptions run_options;
    auto* run = app.add_subcommand("run", "Run an unmodified CUDA program with Warpline's libcuda.so.1");
    auto* local = run->add_flag(
        "--local", run_options.local,
        "Start a private gpu-server for this program: on this machine's GPU if there is one, else on the software GPU");
    run->add_flag("--tcp", run_options.tcp,
                  "With --local: over TCP with TLS, as to a server elsewhere, instead of a Unix socket and shared memory")
        ->needs(local);
    auto* direct =
        run->add_flag("--direct", run_options.direct, "Put the software GPU into the program's own process, without a server");
    auto* server =
        run->add_option("--server", run_options.server, "Use this server instead of WARPLINE_SERVERS")->type_name("HOST:PORT");
    run->add_option("--driver", run_options.driver,
                    "With --local: the driver of the private server: auto, nvidia, software or a path")
        ->capture_default_str();
    auto* files =
        run->add_flag("--device-files", run_options.device_files,
                      "Show the program empty /dev/nvidia* files and /proc/driver/nvidia, in a mount namespace of its own, "
                      "if the system allows one: for programs that look there for a GPU");
    files->excludes(direct);
    run->add_option("--memory", run_options.memory, "The most of each device's memory that the program may have, such as 8GiB")
        ->type_name("SIZE")
        ->excludes(direct);
    run->add_option("--stats", run_options.stats, "Append one JSON object with this program's statistics to a file")
        ->type_name("FILE");
    run->add_option("--trace", run_options.trace, "Write what the program does to a file, for Perfetto and `warpline analyze`")
        ->type_name("FILE");
    local->excludes(direct)->excludes(server);
    direct->excludes(server);
    run->add_option("command", run_options.command, "The program and its arguments, after --")
        ->type_name("PROGRAM ARGS...")
        ->required();
    run->positionals_at_end();
    run->footer(
        "Exit code: the program's own; 127 if there is no such program, 126 if it cannot be executed, 125 if Warpline itself "
        "failed.");

    std::vector<std::string> given;
    bool json = false;
    auto* devices = app.add_subcommand("devices", "Show the devices of the servers, like nvidia-smi");
    devices->add_flag("--json", json, "One JSON array instead of a table");
    devices->add_option("--server", given, "Ask these servers instead of WARPLINE_SERVERS")->type_name("HOST:PORT");

    cli::PingOptions ping_options;
    auto* ping = app.add_subcommand("ping", "Measure the round trip to the servers, TLS and worker included");
    ping->add_option("--server", given, "Ask these servers instead of WARPLINE_SERVERS")->type_name("HOST:PORT");
    ping->add_option("-c,--count", ping_options.count, "Round trips")->capture_default_str()->check(CLI::Range(1, 100000));
    ping->add_option("-i,--interval", ping_options.interval_s,
                     "Seconds from one to the next; 0: each as soon as the last one is answered")
        ->capture_default_str()
        ->check(CLI::Range(0.0, 3600.0));
    ping->add_option(
            "--copy", ping_options.copy_bytes,
            "Then copy so many bytes to the first device and back (for example 256MiB), and show the rates and each connection")
        ->type_name("SIZE")
        ->transform(CLI::AsSizeValue(false));
    ping->footer(
        "An interrupt (Ctrl-C) ends the probes and prints the summary.\n"
        "Exit code: 0 if every server answered, 1 if one did not answer at all, 2 if there is none to ask.");

    auto* status = app.add_subcommand("servers", "Show the servers: sessions, limits, which are draining, which do not answer");
    status->add_option("--server", given, "Ask these servers instead of WARPLINE_SERVERS")->type_name("HOST:PORT");
    cli::Wanted wanted = cli::Wanted::all;
    status->add_flag_callback(
        "--any", [&wanted] { wanted = cli::Wanted::any; }, "Do not wait for the others once one has answered");
    status->add_flag("--json", json, "One JSON array instead of a table");
    status->footer("Exit code: 0 if every server answered (--any: if one did), else 1; 2 if there is none to ask.");
    cli::AnalyzeOptions analyze_options;
    add_analyze(app, analyze_options);
    auto* options =
        app.add_subcommand("options", "Show the options of client and command, their values and where these come from");
    options->add_flag("--json", json, "One JSON object instead of a table");
    options->footer("Exit code: 0; 1 if a value is refused.");
    auto* watch = app.add_subcommand("watch", "Started by `run`: tells servers when a program has died")->group("");
    pid_t watched = 0;
    watch->add_option("--for", watched, "Start one for this process, and print what WARPLINE_REPORT is to be for it");

    config::add_manual_page(app, 1, {"warpline-client.toml(5)", "warpline-softgpu(7)", "warpline-bench(1)", "gpu-server(8)"});

    CLI11_PARSE(app, argc, argv);
    if (const char* level = std::getenv("WARPLINE_LOG")) log::configure(level);
    if (run->parsed()) return cli::run(run_options);
    if (watch->parsed()) return watched == 0 ? cli::watch() : cli::watch_process(watched);
    const cli::Form form = json ? cli::Form::json : cli::Form::table;
    if (options->parsed()) return cli::show_options(form);
    if (app.got_subcommand("analyze")) return cli::analyze(analyze_options);
    auto servers = cli::servers_to_visit(given);
    if (status->parsed()) return cli::servers(servers, form, wanted);
    return devices->parsed() ? cli::devices(servers, form) : cli::ping(servers, ping_options);
}
