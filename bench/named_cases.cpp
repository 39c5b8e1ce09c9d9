// Which cases there are, which were asked for, and the table of their figures.
#include "bench/named_cases.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "bench/case.h"
#include "bench/report/child.h"

namespace warpline::bench {

namespace {

std::vector<Case> all_cases() {
    std::vector<Case> all = driver_cases();
    for (const auto& more : {bulk_cases(), beside_cases(), transport_cases(), softgpu_kernel_cases(), softgpu_text_cases()}) {
        all.insert(all.end(), more.begin(), more.end());
    }
    return all;
}

bool selected(const CaseOptions& options, const Case& c) {
    if (options.cases == "all") return true;
    std::string wanted = "," + options.cases + ",", name = c.name;
    if (wanted.find("," + name + ",") != std::string::npos) return true;
    // A word that begins several names selects them all: "h2d", "tls".
    size_t start = 1;
    for (size_t comma = wanted.find(',', start); comma != std::string::npos; start = comma + 1, comma = wanted.find(',', start))
        if (comma > start && name.rfind(wanted.substr(start, comma - start) + "_", 0) == 0) return true;
    return false;
}

/// printf's format of a line: name, metric, unit, least, median, most.
const char* format_of(const CaseOptions& options) {
    if (options.csv) return "%s,%s,%s,%.6g,%.6g,%.6g\n";
    if (!options.json) return "%-22s %-14s %-12s %12.4g %12.4g %12.4g\n";
    return R"({"case":"%s","metric":"%s","unit":"%s","min":%.6g,"median":%.6g,"max":%.6g})"
           "\n";
}

/// Runs one case `runs` times after one run that does not count. Returns false if it failed.
bool run_case(const CaseOptions& options, const Case& c) {
    std::map<std::string, std::vector<double>> values;
    std::vector<Metric> order;
    for (int run = -1; run < options.runs; ++run) {
        Metrics metrics = c.run();
        if (!metrics.ok()) {
            std::fprintf(stderr, "%s: %s (%s, %u)\n", c.name, metrics.error().what, to_string(metrics.error().code),
                         metrics.error().detail);
            return false;
        }
        if (run < 0) {
            order = *metrics;
            continue;
        }
        for (const Metric& m : *metrics) values[m.name].push_back(m.value);
    }
    for (const Metric& m : order) {
        auto& v = values[m.name];
        std::sort(v.begin(), v.end());
        std::printf(format_of(options), c.name, m.name.c_str(), m.unit, v.front(), v[v.size() / 2], v.back());
    }
    std::fflush(stdout);
    return true;
}

/// Runs the driver cases in a child under `warpline run`.
int run_driver_cases(const CaseOptions& options) {
    std::string self = own_path();
    std::string command = self.substr(0, self.rfind('/') + 1) + "warpline";
    std::string runs = std::to_string(options.runs);
    const bool tcp = options.mode == "--local-tcp";
    std::vector<const char*> arguments = {command.c_str(), "run", tcp ? "--local" : options.mode.c_str()};
    if (tcp) arguments.push_back("--tcp");
    for (const char* word : {"--", self.c_str(), "--inside", "--cases", options.cases.c_str(), "--runs", runs.c_str()})
        arguments.push_back(word);
    if (options.csv) arguments.push_back("--csv");
    if (options.json) arguments.push_back("--json");
    arguments.push_back(nullptr);
    std::fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (!options.execute) setenv("SOFTGPU_EXECUTE", "0", 1);
        execv(command.c_str(), const_cast<char**>(arguments.data()));
        std::perror(command.c_str());
        _exit(127);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

int run_cases(const CaseOptions& options) {
    std::vector<Case> all = all_cases();
    if (options.list) {
        for (const Case& c : all) std::printf("%-22s %s\n", c.name, c.what);
        return 0;
    }
    all.erase(std::remove_if(all.begin(), all.end(), [&](const Case& c) { return !selected(options, c); }), all.end());
    if (all.empty()) {
        std::fprintf(stderr, "no case is called '%s'; --list shows them\n", options.cases.c_str());
        return 2;
    }
    if (!options.inside && !options.json) {
        const char* head = options.csv ? "%s,%s,%s,%s,%s,%s\n" : "%-22s %-14s %-12s %12s %12s %12s\n";
        std::printf(head, "case", "metric", "unit", "min", "median", "max");
    }
    bool good = true, driver = false;
    for (const Case& c : all) {
        if (c.needs_driver != options.inside) {
            driver |= c.needs_driver;
            continue;
        }
        good &= run_case(options, c);
    }
    if (driver && !options.inside) good &= run_driver_cases(options) == 0;
    return good ? 0 : 1;
}

}  // namespace warpline::bench
