// Axes, lines and bars.
#include "bench/report/plot.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>

namespace warpline::bench {

namespace {

constexpr size_t k_colours = 6;  // that the page has

std::string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));
std::string format(const char* pattern, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, pattern);
    std::vsnprintf(text, sizeof text, pattern, arguments);
    va_end(arguments);
    return text;
}

std::string text_at(double x, double y, const char* anchor, const std::string& text, const char* style = "") {
    return format(R"(<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">)", x, y, anchor, style) + escaped(text) + "</text>\n";
}

/// From values to places on the paper, by value or by its logarithm.
struct Axis {
    double least, most, from, to;
    bool logarithmic;

    double at(double value) const {
        const double share = logarithmic ? std::log(value / least) / std::log(most / least) : (value - least) / (most - least);
        return from + (to - from) * share;
    }
};

/// 1, 2 or 5 times a power of ten: about so many steps up to `most`.
double step_for(double most, int steps) {
    const double rough = most / steps, power = std::pow(10, std::floor(std::log10(rough)));
    for (const double nice : {1.0, 2.0, 5.0})
        if (rough <= nice * power) return nice * power;
    return 10 * power;
}

/// A number beside an axis.
std::string tick(double value) {
    std::string text = format("%g", value);
    if (value >= 1000 && value < 1e6)
        for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
    return text;
}

/// A line of a plot, and what stands beside its name.
struct Curve {
    std::string name;
    std::vector<std::pair<double, double>> points;
    bool limit = false;
};

/// The paper, and where the curves are on it.
class Paper {
public:
    static constexpr double k_width = 760, k_height = 340, k_left = 64, k_right = 34, k_top = 14, k_bottom = 46;

    Paper(Axis x, Axis y) : m_x(x), m_y(y) {
        m_x.from = k_left, m_x.to = k_width - k_right;
        m_y.from = k_height - k_bottom, m_y.to = k_top;
    }

    void mark_x(double value, const std::string& text) {
        const double x = m_x.at(value);
        m_body += format(R"(<line class="grid" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>)", x, m_y.from, x, m_y.to);
        m_body += text_at(x, m_y.from + 18, "middle", text);
    }
    void mark_y(double value, const std::string& text) {
        const double y = m_y.at(value);
        m_body += format(R"(<line class="grid" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>)", m_x.from, y, m_x.to, y);
        m_body += text_at(m_x.from - 8, y + 4, "end", text);
    }
    void name_x(const std::string& text) { m_body += text_at((m_x.from + m_x.to) / 2, k_height - 6, "middle", text, "axis"); }

    void draw(const Curve& curve, const std::string& unit_x, bool dots) {
        const std::string style = curve.limit ? "limit" : "s" + std::to_string(m_colour++ % k_colours);
        std::string points;
        for (const auto& [x, y] : curve.points) points += format("%.1f,%.1f ", m_x.at(x), m_y.at(y));
        m_body += "<polyline class=\"curve " + style + "\" points=\"" + points + "\"/>\n";
        for (const auto& [x, y] : curve.points) {
            if (!dots) break;
            m_body += format(R"(<circle class="%s" cx="%.1f" cy="%.1f" r="3.2"><title>)", style.c_str(), m_x.at(x), m_y.at(y)) +
                      escaped(curve.name + ", " + (unit_x == "bytes" ? bytes_in_words(x) : with_unit(x, unit_x)) + ": " +
                              with_unit(y, "")) +
                      "</title></circle>\n";
        }
        m_legend += R"(<span class="key"><svg width="22" height="10" viewBox="0 0 22 10"><line class="curve )" + style +
                    R"(" x1="1" y1="5" x2="21" y2="5"/></svg> )" + escaped(curve.name) + "</span>\n";
    }

    std::string finished(const std::string& label) const {
        return R"(<figure class="plot"><svg role="img" aria-label=")" + escaped(label) +
               format(R"(" viewBox="0 0 %.0f %.0f">)", k_width, k_height) + "\n" + m_body + "</svg>\n<figcaption>" + m_legend +
               "</figcaption></figure>\n";
    }

private:
    Axis m_x, m_y;
    std::string m_body, m_legend;
    size_t m_colour = 0;
};

/// The figures that limit others, each once.
std::vector<const Figure*> limits_of(const Report& report, const std::vector<const Figure*>& figures) {
    std::vector<const Figure*> limits;
    for (const Figure* figure : figures) {
        const Figure* limit = report.find(figure->limit);
        if (limit == nullptr || limit->unit != figure->unit) continue;
        if (std::find(limits.begin(), limits.end(), limit) == limits.end()) limits.push_back(limit);
    }
    return limits;
}

std::vector<const Figure*> with_values(const std::vector<const Figure*>& figures, const char* unit = nullptr) {
    std::vector<const Figure*> kept;
    for (const Figure* figure : figures)
        if (!figure->values.empty() && (unit == nullptr || figure->unit == unit)) kept.push_back(figure);
    return kept;
}

std::string bars_of_one_unit(const Report& report, const std::vector<const Figure*>& figures) {
    constexpr double k_row = 30, k_names = 300, k_values = 110, k_width = 760, k_thick = 16;
    double most = 0;
    for (const Figure* figure : figures) {
        most = std::max({most, figure->median(), figure->at(0.9)});
        if (const Figure* limit = report.find(figure->limit)) most = std::max(most, limit->median());
    }
    const Axis axis{0, most, k_names, k_width - k_values, false};
    const double height = k_row * static_cast<double>(figures.size());
    std::string body = format(R"(<line class="axis" x1="%.1f" y1="0" x2="%.1f" y2="%.1f"/>)", k_names, k_names, height);
    double y = 0;
    bool limited = false;
    for (const Figure* figure : figures) {
        const double middle = y + k_row / 2;
        body += text_at(k_names - 10, middle + 4, "end", figure->title);
        body += format(R"(<rect class="s0" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2"><title>)", k_names,
                       middle - k_thick / 2, std::max(axis.at(figure->median()) - k_names, 1.0), k_thick) +
                escaped(figure->id + ": " + with_unit(figure->median(), figure->unit)) + "</title></rect>\n";
        const double low = axis.at(figure->at(0.1)), high = axis.at(figure->at(0.9));
        if (high - low > 1)
            body += format(R"(<line class="spread" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>)", low, middle, high, middle);
        double right = std::max(axis.at(figure->median()), high);
        if (const Figure* limit = report.find(figure->limit)) {
            const double at = axis.at(limit->median());
            body +=
                format(R"(<line class="limit mark" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>)", at, y + 3, at, y + k_row - 3);
            right = std::max(right, at);
            limited = true;
        }
        body += text_at(right + 8, middle + 4, "start", with_unit(figure->median(), figure->unit), "value");
        y += k_row;
    }
    const std::string caption = limited
                                    ? "<figcaption><span class=\"key\"><svg width=\"10\" height=\"14\" viewBox=\"0 0 10 14\">"
                                      "<line class=\"limit mark\" x1=\"5\" y1=\"0\" x2=\"5\" y2=\"14\"/></svg> the limit</span>"
                                      "</figcaption>"
                                    : "";
    return format(R"(<figure class="plot"><svg role="img" aria-label="medians" viewBox="0 0 %.0f %.0f">)", k_width, height) +
           "\n" + body + "</svg>" + caption + "</figure>\n";
}

}  // namespace

std::string escaped(const std::string& text) {
    std::string result;
    for (const char c : text) {
        switch (c) {
            case '&': result += "&amp;"; break;
            case '<': result += "&lt;"; break;
            case '>': result += "&gt;"; break;
            case '"': result += "&quot;"; break;
            default: result += c;
        }
    }
    return result;
}

std::string bars(const Report& report, const std::vector<const Figure*>& figures) {
    std::vector<std::string> units;
    for (const Figure* figure : with_values(figures))
        if (std::find(units.begin(), units.end(), figure->unit) == units.end()) units.push_back(figure->unit);
    std::string all;
    for (const std::string& unit : units) all += bars_of_one_unit(report, with_values(figures, unit.c_str()));
    return all;
}

std::string lines(const Report& report, const std::vector<const Figure*>& figures, const std::string& x_name) {
    const auto drawn = with_values(figures);
    if (drawn.empty()) return "";
    std::vector<Curve> curves;
    std::vector<double> places;
    double most = 0;
    for (const Figure* figure : drawn) {
        auto curve = std::find_if(curves.begin(), curves.end(), [&](const Curve& c) { return c.name == figure->series; });
        if (curve == curves.end()) curve = curves.insert(curves.end(), Curve{figure->series, {}});
        curve->points.emplace_back(figure->x, figure->median());
        places.push_back(figure->x);
        most = std::max(most, figure->median());
    }
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    for (const Figure* limit : limits_of(report, drawn)) {
        curves.push_back({limit->title, {{places.front(), limit->median()}, {places.back(), limit->median()}}, true});
        most = std::max(most, limit->median());
    }
    const double step = step_for(most, 5), top = std::ceil(most / step) * step;
    Paper paper({places.front(), std::max(places.back(), places.front() * 2), 0, 0, true}, {0, top, 0, 0, false});
    for (const double x : places) paper.mark_x(x, x_name == "bytes" ? bytes_in_words(x) : tick(x));
    for (double y = 0; y <= top * 1.001; y += step) paper.mark_y(y, tick(y));
    paper.name_x(x_name + " → " + drawn[0]->unit);
    for (const Curve& curve : curves) paper.draw(curve, x_name, !curve.limit);
    return paper.finished(drawn[0]->unit + " by " + x_name);
}

std::string distribution(const Report& report, const std::vector<const Figure*>& figures) {
    const auto drawn = with_values(figures, "us");
    if (drawn.empty()) return "";
    std::vector<Curve> curves;
    double least = drawn[0]->at(0), most = least;
    const auto add = [&](const Figure& figure, bool limit) {
        Curve curve{figure.title, {}, limit};
        for (int percent = 0; percent <= 100; ++percent) curve.points.emplace_back(figure.at(percent / 100.0), percent);
        least = std::min(least, figure.at(0)), most = std::max(most, figure.at(1));
        curves.push_back(std::move(curve));
    };
    for (const Figure* figure : drawn) add(*figure, false);
    for (const Figure* limit : limits_of(report, drawn)) add(*limit, true);
    least = std::max(least, 0.01);
    for (Curve& curve : curves)
        for (auto& [x, y] : curve.points) x = std::max(x, least);
    Paper paper({least / 1.1, most * 1.1, 0, 0, true}, {0, 100, 0, 0, false});
    for (double power = std::pow(10, std::floor(std::log10(least))); power <= most; power *= 10)
        for (const double digit : {1.0, 2.0, 5.0})
            if (const double x = digit * power; x >= least / 1.1 && x <= most * 1.1) paper.mark_x(x, tick(x));
    for (int percent = 0; percent <= 100; percent += 25) paper.mark_y(percent, std::to_string(percent) + " %");
    paper.name_x("took at most … µs");
    for (const Curve& curve : curves) paper.draw(curve, "us", false);
    return paper.finished("shares of calls by their time");
}

}  // namespace warpline::bench
