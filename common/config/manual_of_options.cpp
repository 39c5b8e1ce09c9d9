// Manual pages of configuration files, made from the description of the options.
#include "common/config/manual_text.h"
#include "common/config/options.h"

namespace warpline::config {

namespace {

using manual::bold;
using manual::text;

struct Page {
    std::string_view name;
    int section;
    std::string_view about;
    std::string_view see_also;
};

Page page_of(Program program) {
    switch (program) {
        case Program::server: return {"warpline-server.toml", 5, "configuration of gpu-server", "gpu-server(8)"};
        case Program::client:
            return {"warpline-client.toml", 5, "configuration of Warpline's CUDA library and command", "warpline(1)"};
        case Program::software: break;
    }
    return {"warpline-softgpu", 7, "environment variables of Warpline's software GPU", "warpline(1)"};
}

std::string files(Program program) {
    std::string page = manual::section("FILES");
    for (std::string_view file : default_files(program))
        page += manual::entry(bold(file), text("Read if it is the first that exists."));
    return page + manual::section("ENVIRONMENT") + manual::entry(bold(file_variable(program)), text("Names another file."));
}

std::string facts(const Option& option) {
    std::string facts = "Default: " + (option.default_text.empty() ? "none" : "`" + std::string(option.default_text) + "`");
    if (!option.default_text.empty() && !option.unit.empty()) facts += " " + std::string(option.unit);
    if (!range(option).empty()) facts += ", " + range(option);
    if (option.in_file && !option.environment.empty()) facts += ". Environment: `" + std::string(option.environment) + "`";
    if (!option.flag.empty()) facts += ". Flag: `" + std::string(option.flag) + "`";
    return facts + ".";
}

std::string entry(const Option& option) {
    std::string words = text(option.help);
    if (!option.cost.empty()) words += "\n" + text(option.cost);
    return manual::entry(bold(option.in_file ? option.name : option.environment), words + "\n.br\n" + text(facts(option)));
}

}  // namespace

std::string manual_of_options(Program program) {
    const Page page = page_of(program);
    const bool has_file = !default_files(program).empty();
    std::string all = manual::title(page.name, page.section, page.section == 5 ? "File Formats" : "Miscellanea", page.about);
    all += manual::section("DESCRIPTION");
    std::string in_file, elsewhere;
    for (const Option& option : options()) {
        if (option.program == program) (option.in_file ? in_file : elsewhere) += entry(option);
    }
    if (has_file) {
        std::string sources(sources_of_values());
        for (char& c : sources) c = c == '\n' ? ' ' : c;
        all += text(sources) + "\n" + manual::section("OPTIONS") + in_file + files(program) + elsewhere;
    } else {
        all += text("The library reads the environment of the process that loads it.") + "\n" + manual::section("ENVIRONMENT") +
               in_file + elsewhere;
    }
    const size_t open = page.see_also.find('(');
    return all + manual::section("SEE ALSO") + bold(page.see_also.substr(0, open)) + text(page.see_also.substr(open)) + "\n";
}

}  // namespace warpline::config
