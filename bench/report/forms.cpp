// Reports as JSON and CSV.
#include <nlohmann/json.hpp>

#include "bench/report/figure.h"

namespace warpline::bench {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* k_schema = "warpline-bench-report/1";

Json figure_json(const Report& report, const Figure& figure) {
    Json json = {{"id", figure.id},
                 {"section", figure.section},
                 {"title", figure.title},
                 {"unit", figure.unit},
                 {"better", figure.higher_is_better ? "higher" : "lower"}};
    if (!figure.series.empty()) json["series"] = figure.series, json["x"] = figure.x;
    if (!figure.error.empty()) {
        json["error"] = figure.error;
        return json;
    }
    json["min"] = figure.at(0);
    json["median"] = figure.median();
    json["p99"] = figure.at(0.99);
    json["max"] = figure.at(1);
    json["verified"] = figure.verified;
    if (!figure.limit.empty()) json["limit"] = figure.limit;
    if (const auto share = report.of_limit(figure)) json["of_limit"] = *share;
    json["values"] = figure.values;
    return json;
}

Figure figure_of(const Json& json) {
    Figure figure;
    figure.id = json.at("id");
    figure.section = json.at("section");
    figure.title = json.at("title");
    figure.unit = json.at("unit");
    figure.higher_is_better = json.at("better") == "higher";
    figure.series = json.value("series", "");
    figure.x = json.value("x", 0.0);
    figure.error = json.value("error", "");
    figure.verified = json.value("verified", "");
    figure.limit = json.value("limit", "");
    figure.values = json.value("values", std::vector<double>());
    return figure;
}

std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (const char c : text) result += c == '"' ? "\"\"" : std::string(1, c);
    return result + '"';
}

}  // namespace

std::string to_json(const Report& report) {
    const Machine& machine = report.machine;
    Json json = {{"schema", k_schema},
                 {"version", report.version},
                 {"date", report.date},
                 {"command", report.command},
                 {"target", report.target},
                 {"device", report.device},
                 {"quick", report.quick},
                 {"seconds", report.seconds},
                 {"machine",
                  {{"processor", machine.processor},
                   {"cores", machine.cores},
                   {"memory_bytes", machine.memory_bytes},
                   {"kernel", machine.kernel},
                   {"congestion_control", machine.congestion_control},
                   {"load", machine.load}}},
                 {"figures", Json::array()}};
    for (const Figure& figure : report.figures) json["figures"].push_back(figure_json(report, figure));
    return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Report> from_json(const std::string& text) try {
    const Json json = Json::parse(text);
    if (json.value("schema", "") != k_schema)
        return Error{Code::malformed, "no report of warpline-bench, or of another version"};
    Report report;
    report.version = json.at("version");
    report.date = json.at("date");
    report.command = json.at("command");
    report.target = json.at("target");
    report.device = json.at("device");
    report.quick = json.at("quick");
    report.seconds = json.at("seconds");
    const Json& machine = json.at("machine");
    report.machine.processor = machine.at("processor");
    report.machine.cores = machine.at("cores");
    report.machine.memory_bytes = machine.at("memory_bytes");
    report.machine.kernel = machine.at("kernel");
    report.machine.congestion_control = machine.at("congestion_control");
    report.machine.load = machine.at("load");
    for (const Json& figure : json.at("figures")) report.figures.push_back(figure_of(figure));
    for (const Figure& figure : report.figures)
        if (figure.values.empty() == figure.error.empty())
            return Error{Code::malformed, "a figure has no value and no error, or both"};
    return report;
} catch (const nlohmann::json::exception&) {
    return Error{Code::malformed, "no report of warpline-bench"};
}

std::string to_csv(const Report& report) {
    std::string csv = "id,unit,better,min,median,p99,max,limit,of_limit,verified,error\n";
    char numbers[160];
    for (const Figure& figure : report.figures) {
        const char* better = figure.higher_is_better ? "higher" : "lower";
        csv += figure.id + "," + figure.unit + "," + better + ",";
        if (figure.values.empty()) {
            csv += ",,,,,,," + quoted(figure.error) + "\n";
            continue;
        }
        std::snprintf(numbers, sizeof numbers, "%.6g,%.6g,%.6g,%.6g,", figure.at(0), figure.median(), figure.at(0.99),
                      figure.at(1));
        csv += numbers + figure.limit + ",";
        if (const auto share = report.of_limit(figure)) {
            std::snprintf(numbers, sizeof numbers, "%.4g", *share);
            csv += numbers;
        }
        csv += "," + quoted(figure.verified) + ",\n";
    }
    return csv;
}

}  // namespace warpline::bench
