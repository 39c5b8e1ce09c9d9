// warpline-bench: what Warpline's calls and copies cost, each result verified; and a link to measure them on.

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <optional>

#include "bench/link/link_command.h"
#include "bench/link/path_command.h"
#include "bench/named_cases.h"
#include "bench/report/compare.h"
#include "bench/report/figure.h"
#include "bench/report/measure.h"
#include "bench/report/report_command.h"
#include "bench/report/sweep.h"
#include "common/config/manual_page.h"
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
    app.add_option("--mode", options.mode,
                   "How the driver cases run: --local, --local-tcp (as to a server elsewhere) or --direct")
        ->capture_default_str()
        ->check(CLI::IsMember({"--local", "--local-tcp", "--direct"}));
    app.add_flag("--inside", options.inside)->group("");
}

void add_speed(CLI::App& command, LinkOptions& options) {
    command.add_option("--rtt", options.round_trip_ms, "Round trip, milliseconds")
        ->capture_default_str()
        ->check(CLI::Range(0.0, 10000.0));
    command.add_option("--rate", options.rate_mbit, "Megabits per second, each way; 0: no limit")
        ->capture_default_str()
        ->check(CLI::Range(0.0, 1e6));
}

CLI::App* add_link(CLI::App& app, LinkCommandOptions& options) {
    auto* link = app.add_subcommand("link", "Emulate a network link: a TCP relay with a round trip, a rate, loss and jitter");
    link->add_option("--listen", options.listen, "Where connections come in; without a port at a free one, which is printed")
        ->type_name("ADDRESS[:PORT]")
        ->capture_default_str();
    auto* to = link->add_option("--to", options.to, "Where they go: a gpu-server")->type_name("HOST:PORT");
    add_speed(*link, options.link);
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

CLI::App* add_path(CLI::App& app, PathCommandOptions& options) {
    auto* path = app.add_subcommand(
        "path", "Run a program in a network of its own, to which this machine is as far as a path's packets take (needs root)");
    add_speed(*path, options.link);
    path->add_option("--loss", options.link.loss_percent, "Lost packets, percent")->check(CLI::Range(0.0, 50.0));
    path->add_option("--queue", options.link.queue_ms,
                     "How long packets may wait before the path; others are dropped, milliseconds")
        ->capture_default_str()
        ->check(CLI::Range(0.1, 10000.0));
    path->add_option("--seed", options.link.seed, "Of the losses")->capture_default_str();
    path->add_option("--congestion", options.congestion,
                     "The program's congestion control (cubic, bbr, …); the server's is this machine's")
        ->type_name("NAME");
    path->add_option("--mtu", options.mtu, "Bytes of a packet, at most")->capture_default_str()->check(CLI::Range(576, 65535));
    path->add_option("--far", options.far, "This machine's address, as the program sees it")->capture_default_str();
    path->add_option("--near", options.near, "The program's address")->capture_default_str();
    path->add_option("command", options.command, "The program and its arguments, behind --")->required();
    path->footer(
        "Servers on this machine that listen on all addresses are at --far: WARPLINE_SERVERS=NAME[198.18.0.1]:PORT.\n"
        "docs/performance.md#the-path-emulator says what it emulates. Exit code: the program's; 2 if it cannot be run so.");
    return path;
}

void add_target(CLI::App& command, Target& target, bool only_servers) {
    auto* server =
        command.add_option("--server", target.server, "This server instead of WARPLINE_SERVERS")->type_name("HOST:PORT");
    auto* local = command.add_flag("--local", target.local, "A private server on this machine: on its GPU if there is one");
    command.add_flag("--tcp", target.tcp, "With --local: over TCP with TLS, as to a server elsewhere")->needs(local);
    server->excludes(local);
    command.add_flag("--inside", target.inside)->group("");
    if (only_servers) return;
    auto* direct = command.add_flag("--direct", target.direct, "The software GPU in this process, without a server");
    auto* native = command.add_flag("--native", target.native, "This machine's own driver, without Warpline: to compare with");
    server->excludes(direct)->excludes(native);
    local->excludes(direct)->excludes(native);
    direct->excludes(native);
}

CLI::App* add_report(CLI::App& app, ReportOptions& options) {
    auto* report = app.add_subcommand("report", "Measure everything that matters to a program, and write a page with plots");
    add_target(*report, options.target, false);
    report->add_flag("--quick", options.quick, "A few seconds: few runs, small copies, few clients");
    report->add_option("--clients", options.clients, "Programs at the same time, at most: 8, with --quick 2")
        ->check(CLI::Range(1, 1024));
    std::vector<std::string> sections;
    for (const Section& section : bench::sections()) sections.emplace_back(section.id);
    report->add_option("--section", options.sections, "These sections alone, a comma between them")
        ->delimiter(',')
        ->check(CLI::IsMember(sections));
    report->add_option("-o,--output", options.output, "Where the report goes; .html, .json and .csv are added")
        ->type_name("PATH")
        ->capture_default_str();
    report->footer(
        "docs/performance.md#the-report says what the figures mean.\n"
        "Exit code: 0; 1 if a figure could not be taken or was wrong; 2 if there is nothing to measure.");
    return report;
}

CLI::App* add_compare(CLI::App& app, CompareOptions& options) {
    auto* compare = app.add_subcommand("compare", "Compare two reports: medians, ratios, and what changed beyond the spread");
    compare->add_option("before", options.before, "A report's JSON")->required()->type_name("A.json");
    compare->add_option("after", options.after, "Another one's")->required()->type_name("B.json");
    compare->add_option("--threshold", options.threshold_percent, "What is slower by more than this fails, percent")
        ->capture_default_str()
        ->check(CLI::Range(0.0, 10000.0));
    compare->add_flag("--changes", options.only_changes, "Show only what became slower or faster");
    compare->footer(
        "A change is beyond the spread if each median lies outside the middle half of the other's values.\n"
        "Exit code: 0; 1 if something is slower beyond threshold and spread, or missing; 2 if there is nothing to compare.");
    return compare;
}

CLI::App* add_sweep(CLI::App& app, SweepOptions& options) {
    auto* sweep = app.add_subcommand("sweep", "Measure a few figures over emulated links, beside those of the cost model");
    add_target(*sweep, options.target, true);
    sweep->add_option("--rtt", options.round_trips_ms, "Round trips, milliseconds")
        ->delimiter(',')
        ->capture_default_str()
        ->check(CLI::Range(0.0, 10000.0));
    sweep->add_option("--rate", options.rates_mbit, "Rates, megabits per second; 0: no limit")
        ->delimiter(',')
        ->capture_default_str()
        ->check(CLI::Range(0.0, 1e6));
    sweep->add_option("--loss", options.loss_percent, "Lost packets, percent")->check(CLI::Range(0.0, 50.0));
    sweep->add_option("--jitter", options.jitter_ms, "Jitter, milliseconds")->check(CLI::Range(0.0, 10000.0));
    sweep
        ->add_option("--copy", options.copy_bytes,
                     "At least so many bytes of each copy (default: by the rate, 16 MiB to 256 MiB)")
        ->type_name("SIZE")
        ->transform(CLI::AsSizeValue(false));
    sweep->add_option("--csv", options.csv, "Also write the figures to a file")->type_name("FILE");
    sweep->footer(
        "docs/performance.md#the-cost-model says what the figures mean.\n"
        "Exit code: 0; 1 if a link could not be measured; 2 if there is no server to measure.");
    return sweep;
}

/// What this program starts itself for.
struct Processes {
    bool start = false;
    int client_steps = 0, client_launches = 1;
    std::vector<std::string> figures;
    Effort effort = Effort::whole();

    void add_to(CLI::App& app) {
        app.add_flag("--start-process", start)->group("");
        app.add_option("--client-process", client_steps)->group("");
        app.add_option("--client-launches", client_launches)->group("");
        app.add_option("--measure-process", figures)->delimiter(',')->group("");
        app.add_option("--measure-calls", effort.calls)->group("");
        app.add_option("--measure-steps", effort.steps)->group("");
        app.add_option("--measure-bytes", effort.most_bytes)->group("");
    }
    /// @return the exit code; nothing if it was started for none of these
    std::optional<int> run() {
        effort.copies = 2;
        effort.starts = 3;
        if (start) return start_process();
        if (client_steps > 0) return client_process(client_steps, client_launches);
        if (!figures.empty()) return measure_process(figures, effort);
        return std::nullopt;
    }
};

/// What a server has had before would not travel again: copies that are repeated would measure that, and not the link.
void leave_upload_cache_out() {
    const char* const given = std::getenv("WARPLINE_DISABLE");
    const std::string left_out = given != nullptr && *given != 0 ? std::string(given) + ",cache" : "cache";
    ::setenv("WARPLINE_DISABLE", left_out.c_str(), 1);
}

}  // namespace

int main(int argc, char** argv) {
    leave_upload_cache_out();
    CLI::App app{"Measures Warpline: named cases, each checks its own result. Times are of this machine and this run.",
                 "warpline-bench"};
    app.set_version_flag("--version", WARPLINE_VERSION);
    CaseOptions cases;
    add_case_options(app, cases);
    LinkCommandOptions link_options;
    const CLI::App* link_command = add_link(app, link_options);
    PathCommandOptions path_options;
    const CLI::App* path_command = add_path(app, path_options);
    ReportOptions report_options;
    SweepOptions sweep_options;
    report_options.target.command.assign(argv + 1, argv + argc);
    sweep_options.target.command = report_options.target.command;
    const CLI::App* report_command = add_report(app, report_options);
    const CLI::App* sweep_command = add_sweep(app, sweep_options);
    CompareOptions compare_options;
    const CLI::App* compare_command = add_compare(app, compare_options);
    Processes processes;
    processes.add_to(app);
    app.require_subcommand(0, 1);
    config::add_manual_page(app, 1, {"warpline(1)", "warpline-client.toml(5)"});
    CLI11_PARSE(app, argc, argv);
    if (const char* level = std::getenv("WARPLINE_LOG")) log::configure(level);
    if (link_command->parsed()) return link(link_options);
    if (path_command->parsed()) return path(path_options);
    if (report_command->parsed()) return report(report_options);
    if (sweep_command->parsed()) return sweep(sweep_options);
    if (compare_command->parsed()) return compare(compare_options);
    if (const std::optional<int> code = processes.run()) return *code;
    return run_cases(cases);
}
