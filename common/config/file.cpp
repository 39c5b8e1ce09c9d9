// The configuration file, with hints for misspelt keys.
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>
#include <vector>

#include "common/config/settings.h"

namespace warpline::config {

namespace {

constexpr uintmax_t k_max_file_bytes = 1024 * 1024;

size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 0; i < a.size(); i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < b.size(); j++) {
            size_t changed = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
        }
    }
    return row[b.size()];
}

// What the user may have meant; empty if nothing is near.
std::string_view nearest(Program program, std::string_view key) {
    std::string_view best;
    size_t best_distance = 1 + key.size() / 3;
    for (const Option& option : options()) {
        if (option.program != program || !option.in_file) continue;
        size_t distance = edit_distance(key, option.name);
        if (distance <= best_distance) {
            best = option.name;
            best_distance = distance;
        }
    }
    return best;
}

// The value as one would write it in the environment.
std::optional<std::string> as_text(const toml::node& node) {
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* number = node.as_integer()) return std::to_string(number->get());
    if (const auto* flag = node.as_boolean()) return std::string(flag->get() ? "true" : "false");
    if (const auto* array = node.as_array()) {
        std::string list;
        for (const toml::node& item : *array) {
            if (!item.is_string() && !item.is_integer()) return std::nullopt;
            list += (list.empty() ? "" : ",") + *as_text(item);
        }
        return list;
    }
    return std::nullopt;
}

bool apply(std::string_view key, const toml::node& node, const std::string& place, Settings& settings, std::string& problem) {
    const Option* option = find_option(settings.program(), key);
    if (option == nullptr || !option->in_file) {
        problem += place + ": unknown option '" + std::string(key) + "'";
        if (std::string_view near = nearest(settings.program(), key); !near.empty())
            problem += "; did you mean '" + std::string(near) + "'?";
        problem += "\n";
        return false;
    }
    std::optional<std::string> text = as_text(node);
    if (!text || (node.is_array() && option->type != Type::text_list)) {
        problem += place + ": " + std::string(key) + " cannot be set to a value of this kind\n";
        return false;
    }
    return settings.set(key, *text, place, problem);
}

}  // namespace

bool load_file(const std::string& path, Settings& settings, std::string& problem) {
    std::error_code error;
    uintmax_t size = std::filesystem::file_size(path, error);
    if (error || size > k_max_file_bytes) {
        problem += path + ": " + (error ? error.message() : "larger than a configuration can be") + "\n";
        return false;
    }
    toml::parse_result parsed = toml::parse_file(path);
    if (!parsed) {
        const toml::parse_error& mistake = parsed.error();
        problem += path + ":" + std::to_string(mistake.source().begin.line) + ": " + std::string(mistake.description()) + "\n";
        return false;
    }
    bool ok = true;
    for (const auto& [key, node] : parsed.table()) {
        std::string place = path + ":" + std::to_string(key.source().begin.line);
        ok &= apply(key.str(), node, place, settings, problem);
    }
    return ok;
}

}  // namespace warpline::config
