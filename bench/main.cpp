// warpline-bench: what Warpline's calls and copies cost, each result verified; and a link to measure them on.

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "bench/link/link_command.h"
#include "bench/named_cases.h"
#include "common/log/log.h"

using namespace warpline;
using namespace warpline::bench;

namespace {

void add_case_options(CLI::App& app, CaseOptions& options) {
    app.add_option("cases,--cases", options.cases, "Cases to run, by name or first word, a comma between them")
        ->capture_default_str();
    app.add_option("--runs", options.runs, "Runs of each case that count")->capture_default_str()->check(CLI::Range(1, 1000));
    auto* csv = app.add_flag("--csv", options.csv, "Comma-separated values");
    app.add_flag("--json", options.json, "One JSON object per line")->excludes(csv);
    app.add_flag("--list", options.list, "Show the cases and stop");
    app.add_flag("--execute", options.execute, "Let the software GPU compute in the driver cases (default: it only accepts)");
    app.add_option("--mode", options.mode, "How the driver cases run: --local or --direct")
        ->capture_default_str()
        ->check(CLI::IsMember({"--local", "--direct"}));
    app.add_flag("--inside", options.inside)->group("");
}

CLI::App* add_link(CLI::App& app, LinkCommandOptions& options) {
    auto* link = app.add_subcommand("link", "Emulate a network link: a TCP relay with a round trip, a rate, loss and jitter");
    link->add_option("--listen", options.listen, "Where connections come in; without a port at a free one, which is printed")
        ->type_name("ADDRESS[:PORT]")
        ->capture_default_str();
    auto* to = link->add_option("--to", options.to, "Where they go: a gpu-server")->type_name("HOST:PORT");
    link->add_option("--rtt", options.link.round_trip_ms, "Round trip, milliseconds")
        ->capture_default_str()
        ->check(CLI::Range(0.0, 10000.0));
    link->add_option("--rate", options.link.rate_mbit, "Megabits per second, each way; 0: no limit")
        ->capture_default_str()
        ->check(CLI::Range(0.0, 1e6));
    link->add_option("--loss", options.link.loss_percent, "Lost packets, percent; each appears as the delay that it causes")
        ->capture_default_str()
        ->check(CLI::Range(0.0, 50.0));
    link->add_option("--jitter", options.link.jitter_ms, "By how much a round trip varies to either side, milliseconds")
        ->capture_default_str()
        ->check(CLI::Range(0.0, 10000.0));
    link->add_option("--queue", options.link.queue_ms, "How long bytes may wait before the link, milliseconds")
        ->capture_default_str()
        ->check(CLI::Range(1.0, 10000.0));
    link->add_option("--seed", options.link.seed, "Of loss and jitter")->capture_default_str();
    auto* check =
        link->add_flag("--check", options.check, "Measure this link with plain TCP instead, and fail if it is off by 5 %");
    to->excludes(check);
    link->footer(
        "Runs until an interrupt (Ctrl-C). docs/performance.md#the-link-emulator says what it emulates.\n"
        "Exit code: 0; 1 if --check finds it off by more than 5 %; 2 if it cannot be emulated here.");
    return link;
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{"Measures Warpline: named cases, each checks its own result. Times are of this machine and this run."};
    app.set_version_flag("--version", WARPLINE_VERSION);
    CaseOptions cases;
    add_case_options(app, cases);
    LinkCommandOptions link_options;
    const CLI::App* link_command = add_link(app, link_options);
    app.require_subcommand(0, 1);
    CLI11_PARSE(app, argc, argv);
    if (const char* level = std::getenv("WARPLINE_LOG")) log::configure(level);
    if (link_command->parsed()) return link(link_options);
    return run_cases(cases);
}
