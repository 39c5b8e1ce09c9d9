// What is configured, and by what.
#include "client/cli/options.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "client/cli/print_json.h"
#include "common/config/settings.h"

namespace warpline::cli {

int show_options(Form form) {
    std::string problem;
    const auto settings = config::load_client(problem);
    auto all = nlohmann::json::array();
    size_t name_width = 0, variable_width = 0;
    for (const config::Option& option : config::options()) {
        if (option.program != config::Program::client) continue;
        name_width = std::max(name_width, option.name.size());
        variable_width = std::max(variable_width, option.environment.size());
        all.push_back({{"name", option.name},
                       {"environment", option.environment},
                       {"default", option.default_text},
                       {"value", settings.written(option.name)},
                       {"origin", settings.origin(option.name)}});
    }
    if (form == Form::json) {
        print_json({{"options", all}, {"problem", problem}});
        return problem.empty() ? 0 : 1;
    }
    for (const auto& option : all) {
        const std::string &name = option["name"].get_ref<const std::string&>(),
                          &variable = option["environment"].get_ref<const std::string&>(),
                          &value = option["value"].get_ref<const std::string&>(),
                          &origin = option["origin"].get_ref<const std::string&>();
        std::printf("%-*s  %-*s  %s  (%s)\n", static_cast<int>(name_width), name.c_str(), static_cast<int>(variable_width),
                    variable.c_str(), value.empty() ? "-" : value.c_str(), origin.c_str());
    }
    if (!problem.empty()) std::fprintf(stderr, "warpline: %s\n", problem.c_str());
    return problem.empty() ? 0 : 1;
}

}  // namespace warpline::cli
