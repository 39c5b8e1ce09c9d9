// From CLI11's description of a program to man(7).
#include "common/config/manual_page.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "common/config/manual_text.h"

namespace warpline::config {

namespace {

using manual::bold;
using manual::italic;
using manual::text;

/// Options and commands without a group are for the program itself.
template <typename Item>
bool is_shown(const Item* item) {
    return !item->get_group().empty();
}

std::vector<const CLI::Option*> options_of(const CLI::App& app) { return app.get_options(is_shown<CLI::Option>); }

bool is_positional(const CLI::Option& option) { return option.get_lnames().empty() && option.get_snames().empty(); }

/// "INT:INT in [1 - 5]", "HOST:PORT": what CLI11 makes of a type and its check. The length of the type.
size_t length_of_type(const std::string& type) {
    for (size_t colon = type.find(':'); colon != std::string::npos; colon = type.find(':', colon + 1)) {
        if (type.compare(colon + 1, 4, "PORT") != 0) return colon;
    }
    return type.size();
}

std::string type_of(const CLI::Option& option) {
    const std::string type = option.get_type_name();
    return type.substr(0, length_of_type(type));
}

/// "1 to 5", "one of {a,b}"; empty if there is none.
std::string check_of(const CLI::Option& option) {
    const std::string type = option.get_type_name();
    std::string check = type.substr(std::min(type.size(), length_of_type(type) + 1));
    const std::string_view range = " in [";
    if (const size_t begin = check.find(range); begin != std::string::npos) {
        check = check.substr(begin + range.size(), check.rfind(']') - begin - range.size());
        if (const size_t dash = check.find(" - "); dash != std::string::npos) check.replace(dash, 3, " to ");
    } else if (!check.empty() && check.front() == '{') {
        check = "one of " + check.substr(1, check.size() - 2);
    }
    return check;
}

std::string tag_of(const CLI::Option& option) {
    if (is_positional(option)) return italic(type_of(option));
    std::string tag;
    const auto add = [&](const std::string& name) { tag += (tag.empty() ? "" : ", ") + bold(name); };
    for (const std::string& name : option.get_snames()) add("-" + name);
    for (const std::string& name : option.get_lnames()) add("--" + name);
    return option.get_type_size() == 0 ? tag : tag + " " + italic(type_of(option));
}

std::string explanation_of(const CLI::Option& option) {
    std::string facts;
    const auto add = [&](const std::string& fact) { facts += (facts.empty() ? "" : "; ") + fact; };
    if (option.get_type_size() != 0 && !option.get_default_str().empty()) add("default " + option.get_default_str());
    if (const std::string check = check_of(option); !check.empty()) add(check);
    std::vector<std::string> others;
    for (const CLI::Option* other : option.get_excludes()) others.push_back(other->get_name());
    std::sort(others.begin(), others.end());
    for (const std::string& other : others) add("not with " + other);
    const std::string words = option.get_description();
    return text(words) + (facts.empty() ? "" : text((words.empty() ? "(" : " (") + facts + ")"));
}

std::string entries_of(const CLI::App& app) {
    std::string page;
    const bool is_command = app.get_parent() != nullptr;
    for (const CLI::Option* option : options_of(app))
        if (!is_command || option != app.get_help_ptr()) page += manual::entry(tag_of(*option), explanation_of(*option));
    return page;
}

std::string usage_of(const std::string& name, const CLI::App& app) {
    std::string usage = bold(name) + " [" + italic("OPTIONS") + "]";
    for (const CLI::Option* option : options_of(app)) {
        if (!is_positional(*option)) continue;
        const std::string argument = italic(type_of(*option));
        usage += option->get_required() ? " " + argument : " [" + argument + "]";
    }
    return usage + "\n";
}

/// The first sentence of what a program says of itself, as the words behind its page's name.
std::string about(const CLI::App& app) {
    const std::string words = app.get_description();
    std::string first = words.substr(0, std::min({words.find(".\n"), words.find(". "), words.find_last_not_of('.') + 1}));
    if (!first.empty() && first.front() >= 'A' && first.front() <= 'Z')
        first.front() = static_cast<char>(first.front() - 'A' + 'a');
    return first;
}

std::string page_of(const CLI::App& app, int section, const std::vector<std::string>& see_also) {
    const std::string name = app.get_name();
    std::string page = manual::title(name, section, section == 8 ? "System Administration" : "User Commands", about(app));
    const auto commands = app.get_subcommands(is_shown<CLI::App>);
    page += manual::section("SYNOPSIS");
    bool is_first = true;
    const auto add_usage = [&](const std::string& usage) {
        page += (is_first ? "" : ".br\n") + usage;
        is_first = false;
    };
    if (app.get_require_subcommand_min() == 0) add_usage(usage_of(name, app));
    for (const CLI::App* command : commands) add_usage(usage_of(name + " " + command->get_name(), *command));
    page += manual::section("DESCRIPTION") + text(app.get_description()) + "\n";
    if (!app.get_footer().empty()) page += manual::paragraph(text(app.get_footer()));
    page += manual::section("OPTIONS") + entries_of(app);
    if (!commands.empty()) page += manual::section("COMMANDS");
    for (const CLI::App* command : commands) {
        page += ".SS \"" + text(name + " " + command->get_name()) + "\"\n" + text(command->get_description()) + ".\n";
        page += entries_of(*command);
        if (!command->get_footer().empty()) page += manual::paragraph(text(command->get_footer()));
    }
    page += manual::section("SEE ALSO");
    for (const std::string& other : see_also) {
        const size_t open = other.find('(');
        page += bold(other.substr(0, open)) + text(other.substr(open)) + (&other == &see_also.back() ? "\n" : ",\n");
    }
    return page;
}

}  // namespace

void add_manual_page(CLI::App& app, int section, const std::vector<std::string>& see_also) {
    app.add_option_function<std::string>("--manual-page",
                                         [&app, section, see_also](const std::string& path) {
                                             if (manual::write(path, page_of(app, section, see_also))) throw CLI::Success();
                                             throw CLI::RuntimeError(EXIT_FAILURE);
                                         })
        ->group("");
}

}  // namespace warpline::config
