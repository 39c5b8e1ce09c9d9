// Taking all figures, one after the other, and writing what they are.
#include "bench/report/report_command.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>

#include "bench/case.h"
#include "bench/report/measure.h"

namespace warpline::bench {

namespace {

std::string now_utc() {
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    ::gmtime_r(&now, &utc);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return text;
}

/// One line for each figure when it is there; on a terminal, also one that says what is being measured.
class Progress {
public:
    explicit Progress(size_t all) : m_all(all), m_terminal(::isatty(STDERR_FILENO) == 1) {}

    void begin(const Figure& figure) {
        ++m_number;
        if (m_terminal)
            std::fprintf(stderr, "[%3zu/%zu] %-11s %-50.50s …\r", m_number, m_all, figure.section.c_str(),
                         figure.title.c_str());
    }
    void end(const Report& report, const Figure& figure) {
        std::string result = figure.values.empty() ? "FAILED: " + figure.error : with_unit(figure.median(), figure.unit);
        char share[48] = "";
        if (const auto of = report.of_limit(figure)) std::snprintf(share, sizeof share, "  %.2f of the limit", *of);
        std::fprintf(stderr, "[%3zu/%zu] %-11s %-50.50s %s%s\n", m_number, m_all, figure.section.c_str(), figure.title.c_str(),
                     right_aligned(result, 14).c_str(), share);
    }

private:
    size_t m_all, m_number = 0;
    bool m_terminal;
};

/// @return true if all figures could be taken
bool take_all(Report& report, const Effort& effort, const std::vector<std::string>& sections) {
    std::vector<Measure> measures = all_measures(effort);
    std::erase_if(measures, [&](const Measure& measure) {
        return !sections.empty() && std::find(sections.begin(), sections.end(), measure.figure.section) == sections.end();
    });
    Progress progress(measures.size());
    bool good = true;
    for (Measure& measure : measures) {
        Figure& figure = report.figures.emplace_back(std::move(measure.figure));
        progress.begin(figure);
        Result<Samples> samples = measure.take();
        if (samples.ok()) {
            figure.values = percentiles(std::move(samples->values));
            figure.verified = std::move(samples->verified);
        } else {
            const Error& error = samples.error();
            figure.error = std::string(error.what) + " (" + to_string(error.code) + ", " + std::to_string(error.detail) + ")";
            good = false;
        }
        progress.end(report, figure);
        measure.take = nullptr;  // with what it has kept
    }
    return good;
}

bool write_file(const std::string& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary);
    file << text;
    file.close();
    if (!file) std::fprintf(stderr, "warpline-bench: %s: %s\n", path.c_str(), std::strerror(errno));
    return file.good();
}

}  // namespace

int report(const ReportOptions& options) {
    Target target = options.target;
    // Those of one figure may end while those of the next begin, and this process has one as well.
    target.sessions = std::max(target.sessions, 2 * static_cast<unsigned>(options.clients) + 2);
    if (!is_inside(target)) return 2;
    Report report;
    report.version = WARPLINE_VERSION;
    report.date = now_utc();
    report.command = options.target.command_line();
    report.target = options.target.to_string();
    report.quick = options.quick;
    report.machine = Machine::here();
    const uint64_t began = now_ns();
    const auto driver = Driver::instance();
    if (!driver.ok()) {
        std::fprintf(stderr, "warpline-bench: %s\n", driver.error().what);
        return 2;
    }
    char name[256] = "";
    if ((*driver)->device_name(name, sizeof name, 0) == CUDA_SUCCESS) report.device = name;
    std::fprintf(stderr, "%s: %s\n", report.target.c_str(), name);
    Effort effort = options.quick ? Effort::quick() : Effort::whole();
    if (options.clients > 0) effort.clients = options.clients;
    const bool good = take_all(report, effort, options.sections);
    report.seconds = static_cast<double>(now_ns() - began) * 1e-9;
    bool written = true;
    for (const auto& [extension, text] :
         {std::pair{".json", to_json(report)}, std::pair{".csv", to_csv(report)}, std::pair{".html", to_html(report)}})
        written &= write_file(options.output + extension, text);
    if (!written) return 2;
    std::printf("%zu figures in %.0f s: %s.html, .json, .csv\n", report.figures.size(), report.seconds, options.output.c_str());
    return good ? 0 : 1;
}

}  // namespace warpline::bench
