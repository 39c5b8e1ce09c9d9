// The report as one page: no scripts, nothing from elsewhere, light or dark as the reader has it. It is well-formed XML, too.
#include <algorithm>
#include <cstdio>

#include "bench/report/figure.h"
#include "bench/report/plot.h"

namespace warpline::bench {

namespace {

constexpr const char* k_style = R"(
:root { color-scheme: light dark; --back: #fff; --card: #f5f7fa; --text: #18202b; --dim: #5a6676; --line: #dde3ea; --limit: #8894a4;
  --s0: #0b6fb8; --s1: #d55e00; --s2: #12875a; --s3: #8a46c4; --s4: #c2285c; --s5: #7d6b00; }
@media (prefers-color-scheme: dark) { :root { --back: #11151b; --card: #1a212b; --text: #e7ebf1; --dim: #98a5b6; --line: #2d3743;
  --limit: #7c8898; --s0: #58b4f2; --s1: #ff9b50; --s2: #4fd39b; --s3: #c39aff; --s4: #ff7ea6; --s5: #e2cc56; } }
body { margin: 0 auto; padding: 2.5rem 1.5rem 4rem; max-width: 56rem; background: var(--back); color: var(--text);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
h1 { font-size: 1.7rem; margin: 0; letter-spacing: -0.01em; }
h2 { font-size: 1.2rem; margin: 3rem 0 0.2rem; }
p { margin: 0.2rem 0 0.8rem; color: var(--dim); }
code { font: 0.86em ui-monospace, "SF Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: 0.8rem; margin: 1.6rem 0; }
.tile { background: var(--card); border-radius: 0.6rem; padding: 0.8rem 1rem; }
.tile b { display: block; font-size: 1.45rem; font-weight: 650; white-space: nowrap; }
.tile small { display: block; color: var(--dim); line-height: 1.35; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.1rem 1rem; margin: 1rem 0; font-size: 0.92rem; }
dt { color: var(--dim); } dd { margin: 0; }
.plot { margin: 1rem 0; padding: 1rem; background: var(--card); border-radius: 0.6rem; }
.plot > svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--dim); font-size: 12.5px; font-family: inherit; } svg text.value { fill: var(--text); font-weight: 600; }
.grid { stroke: var(--line); } line.axis { stroke: var(--limit); }
.curve { fill: none; stroke-width: 2.2; stroke-linejoin: round; } .limit { stroke: var(--limit); stroke-dasharray: 6 4; stroke-width: 2; }
.limit.mark { stroke: var(--text); stroke-dasharray: none; } .spread { stroke: var(--text); stroke-width: 1.6; opacity: 0.65; }
.curve.s0 { stroke: var(--s0); } .curve.s1 { stroke: var(--s1); } .curve.s2 { stroke: var(--s2); }
.curve.s3 { stroke: var(--s3); } .curve.s4 { stroke: var(--s4); } .curve.s5 { stroke: var(--s5); }
circle.s0, rect.s0 { fill: var(--s0); } circle.s1 { fill: var(--s1); } circle.s2 { fill: var(--s2); } circle.s3 { fill: var(--s3); }
circle.s4 { fill: var(--s4); } circle.s5 { fill: var(--s5); }
figcaption { margin-top: 0.5rem; font-size: 0.86rem; color: var(--dim); } .key { margin-right: 1.2rem; white-space: nowrap; }
.key svg { vertical-align: middle; }
details { margin: 0.6rem 0; } summary { cursor: pointer; color: var(--dim); font-size: 0.92rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 0.88rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.3rem 0.6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { color: var(--dim); font-weight: 500; } th:first-child, td:first-child, th:last-child, td:last-child { text-align: left; }
td:first-child, td:last-child { white-space: normal; } td:last-child { color: var(--dim); } .failed { color: var(--s4); }
)";

std::string number(const char* pattern, double value) {
    char text[64];
    std::snprintf(text, sizeof text, pattern, value);
    return text;
}

/// "1.4 × the limit" for what takes time, "92 % of the limit" for rates; empty without one.
std::string share_in_words(const Report& report, const Figure& figure) {
    const auto share = report.of_limit(figure);
    if (!share) return "";
    return figure.higher_is_better ? number("%.0f %%", *share * 100) : number("%.2f ×", *share);
}

std::string row(const Report& report, const Figure& figure) {
    std::string html = "<tr><td>" + escaped(figure.title) + "</td>";
    if (figure.values.empty())
        return html + "<td class=\"failed\" colspan=\"5\">no figure</td><td class=\"failed\">" + escaped(figure.error) +
               "</td></tr>\n";
    for (const double fraction : {0.0, 0.5, 0.99, 1.0})
        html += "<td>" + escaped(with_unit(figure.at(fraction), figure.unit)) + "</td>";
    return html + "<td>" + share_in_words(report, figure) + "</td><td>" + escaped(figure.verified) + "</td></tr>\n";
}

std::string table(const Report& report, const std::vector<const Figure*>& figures) {
    std::string html =
        "<details><summary>All figures</summary><div class=\"wide\"><table><thead><tr><th>what</th><th>least</th>"
        "<th>median</th><th>p99</th><th>most</th><th>of the limit</th><th>verified</th></tr></thead><tbody>\n";
    for (const Figure* figure : figures) html += row(report, *figure);
    return html + "</tbody></table></div></details>\n";
}

std::string plot(const Report& report, const Section& section, const std::vector<const Figure*>& figures) {
    switch (section.plot) {
        case Plot::lines: return lines(report, figures, section.x);
        case Plot::distribution: {
            std::vector<const Figure*> others;
            for (const Figure* figure : figures)
                if (figure->unit != "us") others.push_back(figure);
            return distribution(report, figures) + bars(report, others);
        }
        case Plot::bars: return bars(report, figures);
    }
    return "";
}

/// The largest copy of a series.
const Figure* largest(const Report& report, const std::string& series) {
    const Figure* found = nullptr;
    for (const Figure& figure : report.figures)
        if (figure.section == "bandwidth" && figure.series == series && !figure.values.empty() &&
            (!found || figure.x > found->x))
            found = &figure;
    return found;
}

std::string tiles(const Report& report) {
    struct Tile {
        const Figure* figure;
        std::string what;
    };
    const Figure *up = largest(report, "to the device, pageable"), *down = largest(report, "from the device, pageable");
    std::string html = "<div class=\"tiles\">\n";
    for (const Tile& tile : {Tile{report.find("launches/issue"), "a kernel launch"},
                             Tile{report.find("latency/synchronize"), "a wait for the device"},
                             Tile{up, up ? bytes_in_words(up->x) + " to the device" : ""},
                             Tile{down, down ? bytes_in_words(down->x) + " from the device" : ""},
                             Tile{report.find("start/total"), "until the first kernel is done"},
                             Tile{report.find("training/step"), "a step of the training-like loop"}}) {
        if (tile.figure == nullptr) continue;
        const Figure* limit = report.find(tile.figure->limit);
        html += "<div class=\"tile\"><b>" + escaped(with_unit(tile.figure->median(), tile.figure->unit)) + "</b><small>" +
                escaped(tile.what) + "</small>";
        if (const std::string share = share_in_words(report, *tile.figure); !share.empty())
            html += "<small>" + share + " of: " + escaped(limit->title) + "</small>";
        html += "</div>\n";
    }
    return html + "</div>\n";
}

std::string facts(const Report& report) {
    const Machine& machine = report.machine;
    std::string html = "<dl>\n";
    const auto add = [&](const char* name, const std::string& text) {
        html += std::string("<dt>") + name + "</dt><dd>" + escaped(text) + "</dd>\n";
    };
    add("target", report.target + (report.device.empty() ? "" : ", " + report.device));
    add("machine", machine.processor + ", " + std::to_string(machine.cores) + " cores, " +
                       bytes_in_words(static_cast<double>(machine.memory_bytes >> 30 << 30)) + ", load " +
                       number("%.2f", machine.load));
    add("system", machine.kernel + ", TCP congestion control " + machine.congestion_control);
    add("version", report.version);
    add("date", report.date + ", " + number("%.0f s", report.seconds) + (report.quick ? ", quick: few runs" : ""));
    return html + "<dt>command</dt><dd><code>" + escaped(report.command) + "</code></dd>\n</dl>\n";
}

std::string peers(const Report& report) {
    std::string rows;
    for (const PeerFigure& peer : peer_figures()) {
        const Figure* own = report.find(peer.id);
        if (own == nullptr) continue;
        rows += "<tr><td>" + escaped(own->title) + "</td><td>" + escaped(with_unit(own->median(), own->unit)) + "</td><td>" +
                escaped(with_unit(peer.value, peer.unit)) + "</td><td>" +
                escaped(std::string(peer.system) + ": " + peer.source) + "</td></tr>\n";
    }
    if (rows.empty()) return "";
    return "<h2>Beside others</h2>\n<p>Figures of other systems, taken on other machines: an orientation, no race.</p>\n"
           "<div class=\"wide\"><table><thead><tr><th>what</th><th>here, encrypted</th><th>theirs</th><th>whose, and "
           "how</th></tr>"
           "</thead><tbody>\n" +
           rows + "</tbody></table></div>\n";
}

}  // namespace

std::string to_html(const Report& report) {
    std::string html =
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>Warpline: " +
        escaped(report.target) + "</title>\n<style>" + k_style + "</style>\n</head>\n<body>\n<h1>Warpline report</h1>\n" +
        facts(report) + tiles(report);
    for (const Section& section : sections()) {
        std::vector<const Figure*> figures;
        for (const Figure& figure : report.figures)
            if (figure.section == section.id) figures.push_back(&figure);
        if (figures.empty()) continue;
        html += std::string("<h2 id=\"") + section.id + "\">" + escaped(section.title) + "</h2>\n<p>" + escaped(section.what) +
                "</p>\n" + plot(report, section, figures) + table(report, figures);
    }
    return html + peers(report) + "</body>\n</html>\n";
}

}  // namespace warpline::bench
