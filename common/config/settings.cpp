// Texts of users turned into values, with words for those that are none.
#include "common/config/settings.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "common/base/processors.h"
#include "common/config/environment.h"

namespace warpline::config {

namespace {

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    return text;
}

std::optional<int64_t> parse_integer(std::string_view text) {
    int64_t number = 0;
    auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return number;
}

// "64MiB", "2 G", "4096".
std::optional<int64_t> parse_bytes(std::string_view text) {
    size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    auto number = parse_integer(text.substr(0, digits));
    std::string_view suffix = trimmed(text.substr(digits));
    if (!number) return std::nullopt;
    if (suffix.empty() || suffix == "B") return number;
    size_t power = std::string_view("KMGT").find(suffix.front());
    std::string_view rest = suffix.substr(1);
    if (power == std::string_view::npos || (!rest.empty() && rest != "iB" && rest != "B" && rest != "i")) return std::nullopt;
    int64_t result = 0;
    if (__builtin_mul_overflow(*number, int64_t{1024} << (10 * power), &result)) return std::nullopt;
    return result;
}

std::optional<int64_t> parse_boolean(std::string_view text) {
    for (std::string_view yes : {"true", "1", "on", "yes"})
        if (text == yes) return 1;
    for (std::string_view no : {"false", "0", "off", "no"})
        if (text == no) return 0;
    return std::nullopt;
}

std::string_view expected(Type type) {
    switch (type) {
        case Type::integer:
        case Type::seconds: return "a whole number";
        case Type::bytes: return "a number of bytes, such as 64MiB";
        case Type::boolean: return "true or false";
        default: return "text";
    }
}

bool is_number(Type type) {
    return type == Type::integer || type == Type::seconds || type == Type::bytes || type == Type::boolean;
}

std::optional<int64_t> parse_number(Type type, std::string_view text) {
    if (type == Type::bytes) return parse_bytes(text);
    if (type == Type::boolean) return parse_boolean(text);
    return parse_integer(text);
}

[[noreturn]] void fail(std::string_view name) {
    std::fprintf(stderr, "warpline: option '%.*s' is not described with this type\n", static_cast<int>(name.size()),
                 name.data());
    std::abort();
}

}  // namespace

Settings::Settings(Program program) : m_program(program) {
    for (const Option& option : options()) {
        if (option.program != program || program == Program::software) continue;
        m_values.emplace(option.name, Value{&option, "", 0, "default"});
        std::string problem;
        if (!set(option.name, option.default_text, "default", problem)) fail(option.name);
    }
}

bool Settings::set(std::string_view name, std::string_view text, std::string origin, std::string& problem) {
    auto found = m_values.find(name);
    if (found == m_values.end()) fail(name);
    Value& value = found->second;
    const Option& option = *value.option;
    text = trimmed(text);
    auto refuse = [&](std::string_view wanted) {
        value.refused = true;
        problem +=
            origin + ": " + std::string(option.name) + " = '" + std::string(text) + "' is not " + std::string(wanted) + "\n";
        return false;
    };
    int64_t number = 0;
    if (is_number(option.type)) {
        auto parsed = parse_number(option.type, text);
        if (!parsed) return refuse(expected(option.type));
        number = *parsed;
        if (option.type != Type::boolean && (number < option.min || number > option.max))
            return refuse("between " + std::to_string(option.min) + " and " + std::to_string(option.max));
    }
    value.text = text;
    value.number = number;
    value.origin = std::move(origin);
    value.refused = false;
    return true;
}

const Settings::Value& Settings::value(std::string_view name) const {
    auto found = m_values.find(name);
    if (found == m_values.end()) fail(name);
    return found->second;
}

const Settings::Value& Settings::value(std::string_view name, Type type) const {
    const Value& found = value(name);
    if (found.option->type != type) fail(name);
    return found;
}

const std::string& Settings::text(std::string_view name) const { return value(name, Type::text).text; }
std::string Settings::path(std::string_view name) const { return expand_home(value(name, Type::path).text); }
int64_t Settings::integer(std::string_view name) const { return value(name, Type::integer).number; }
uint64_t Settings::bytes(std::string_view name) const { return static_cast<uint64_t>(value(name, Type::bytes).number); }
bool Settings::boolean(std::string_view name) const { return value(name, Type::boolean).number != 0; }
const std::string& Settings::written(std::string_view name) const { return value(name).text; }
const std::string& Settings::origin(std::string_view name) const { return value(name).origin; }

std::chrono::seconds Settings::seconds(std::string_view name) const {
    return std::chrono::seconds(value(name, Type::seconds).number);
}

std::vector<std::string> Settings::text_list(std::string_view name) const {
    std::string_view rest = value(name, Type::text_list).text;
    std::vector<std::string> items;
    while (!rest.empty()) {
        size_t comma = std::min(rest.find(','), rest.size());
        if (std::string_view item = trimmed(rest.substr(0, comma)); !item.empty()) items.emplace_back(item);
        rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    return items;
}

bool load_environment(Settings& settings, std::string& problem) {
    bool ok = true;
    for (const Option& option : options()) {
        if (option.program != settings.program() || option.environment.empty()) continue;
        std::string variable(option.environment);
        if (const char* text = config::variable(variable.c_str())) ok &= settings.set(option.name, text, variable, problem);
    }
    return ok;
}

std::string find_file(Program program) {
    if (const char* named = config::variable(std::string(file_variable(program)).c_str()); named != nullptr && *named != 0)
        return expand_home(named);
    std::error_code ignored;
    for (std::string_view file : default_files(program)) {
        if (std::string path = expand_home(file); std::filesystem::exists(path, ignored)) return path;
    }
    return "";
}

Settings load_client(std::string& problem) {
    Settings settings(Program::client);
    if (std::string path = find_file(Program::client); !path.empty()) load_file(path, settings, problem);
    load_environment(settings, problem);
    return settings;
}

std::chrono::microseconds spin_of(const Settings& settings) {
    constexpr unsigned k_enough_processors = 2;
    constexpr std::chrono::microseconds k_spin{50};
    const int64_t wanted = settings.integer("spin_microseconds");
    if (wanted >= 0) return std::chrono::microseconds(wanted);
    return processors() >= k_enough_processors ? k_spin : std::chrono::microseconds(0);
}

unsigned bulk_lanes_of(const Settings& settings) {
    // A connection's writer is one thread, and so is its reader at the other end: encrypting and sending fill a processor each.
    constexpr unsigned k_many_processors = 8, k_few_lanes = 2, k_many_lanes = 4;
    const int64_t wanted = settings.integer("bulk_lanes");
    if (wanted >= 0) return static_cast<unsigned>(wanted);
    return processors() >= k_many_processors ? k_many_lanes : k_few_lanes;
}

std::string expand_home(std::string_view path) {
    if (!path.starts_with("~/")) return std::string(path);
    std::string home;
    if (const char* variable = std::getenv("HOME"); variable != nullptr && *variable != 0) {
        home = variable;
    } else {
        passwd entry;
        passwd* found = nullptr;
        char buffer[4096];
        if (getpwuid_r(getuid(), &entry, buffer, sizeof buffer, &found) == 0 && found != nullptr) home = found->pw_dir;
    }
    return home + std::string(path.substr(1));
}

}  // namespace warpline::config
