// Two reports, figure by figure.
#include "bench/report/compare.h"

#include <cstdio>
#include <fstream>
#include <iterator>

namespace warpline::bench {

namespace {

bool outside_middle(double value, const Figure& figure) { return value < figure.at(0.25) || value > figure.at(0.75); }

Result<Report> read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        std::fprintf(stderr, "warpline-bench: %s: cannot be read\n", path.c_str());
        return Error{Code::io, "no such report"};
    }
    auto report = from_json({std::istreambuf_iterator<char>(file), {}});
    if (!report.ok()) std::fprintf(stderr, "warpline-bench: %s: %s\n", path.c_str(), report.error().what);
    return report;
}

void print_conditions(const Report& before, const Report& after) {
    const auto say = [](const char* what, const std::string& a, const std::string& b) {
        if (a != b) std::printf("different %s: %s | %s\n", what, a.c_str(), b.c_str());
    };
    say("targets", before.target, after.target);
    say("devices", before.device, after.device);
    say("machines", before.machine.processor + ", " + std::to_string(before.machine.cores) + " cores, " + before.machine.kernel,
        after.machine.processor + ", " + std::to_string(after.machine.cores) + " cores, " + after.machine.kernel);
    say("effort", before.quick ? "quick" : "whole", after.quick ? "quick" : "whole");
    say("versions", before.version, after.version);
}

}  // namespace

std::vector<Difference> differences(const Report& before, const Report& after) {
    std::vector<Difference> all;
    for (const Figure& figure : before.figures) {
        const Figure* other = after.find(figure.id);
        if (figure.values.empty() || other == nullptr || other->unit != figure.unit || figure.median() <= 0 ||
            other->median() <= 0)
            continue;
        Difference difference{&figure, other};
        difference.ratio = other->median() / figure.median();
        difference.worse = figure.higher_is_better ? 1 / difference.ratio : difference.ratio;
        difference.beyond = outside_middle(other->median(), figure) && outside_middle(figure.median(), *other);
        all.push_back(difference);
    }
    return all;
}

int compare(const CompareOptions& options) {
    const auto before = read(options.before), after = read(options.after);
    if (!before.ok() || !after.ok()) return 2;
    const std::vector<Difference> all = differences(*before, *after);
    if (all.empty()) {
        std::fprintf(stderr, "warpline-bench: the reports have no figure in common\n");
        return 2;
    }
    print_conditions(*before, *after);
    const double most = 1 + options.threshold_percent / 100;
    size_t slower = 0, faster = 0, missing = 0;
    std::printf("%-48s %16s %16s %7s\n", "median", "before", "after", "ratio");
    for (const Difference& difference : all) {
        const bool is_slower = difference.beyond && difference.worse > most,
                   is_faster = difference.beyond && difference.worse < 1 / most;
        slower += is_slower, faster += is_faster;
        if (options.only_changes && !is_slower && !is_faster) continue;
        const Figure& figure = *difference.before;
        const char* mark = is_slower ? "  SLOWER" : is_faster ? "  faster" : difference.beyond ? "  ." : "";
        std::printf("%-48s %s %s %7.3f%s\n", figure.id.c_str(),
                    right_aligned(with_unit(figure.median(), figure.unit), 16).c_str(),
                    right_aligned(with_unit(difference.after->median(), figure.unit), 16).c_str(), difference.ratio, mark);
    }
    // A quick report has fewer sizes and clients.
    for (const Figure& figure : before->figures)
        if (before->quick == after->quick && !figure.values.empty() && after->find(figure.id) == nullptr) {
            std::printf("%-48s is missing or failed in the second report\n", figure.id.c_str());
            ++missing;
        }
    std::printf("%zu figures: %zu slower and %zu faster by more than %g %% and beyond the spread, %zu missing\n", all.size(),
                slower, faster, options.threshold_percent, missing);
    return slower + missing > 0 ? 1 : 0;
}

}  // namespace warpline::bench
