// Reads CUDA_VISIBLE_DEVICES as the driver does.
#include "cuda/abi/visible_devices.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>

namespace warpline::cuda::abi {

namespace {

constexpr size_t k_prefix_bytes = 4;  // "GPU-", "MIG-"

std::string_view without_blanks(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    return text;
}

std::optional<size_t> find_named(std::string_view entry, std::span<const std::string> names) {
    size_t ordinal = 0;
    const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), ordinal);
    if (error == std::errc{} && end == entry.data() + entry.size()) {
        return ordinal < names.size() ? std::optional(ordinal) : std::nullopt;
    }
    if (entry.size() <= k_prefix_bytes) return std::nullopt;
    std::optional<size_t> found;
    for (size_t i = 0; i < names.size(); ++i) {
        if (!names[i].starts_with(entry)) continue;
        if (found) return std::nullopt;  // it fits two
        found = i;
    }
    return found;
}

}  // namespace

std::string device_name_of(const CUuuid& uuid, std::string_view model) {
    std::string text = model.find(" MIG ") != std::string_view::npos ? "MIG-" : "GPU-";
    for (size_t i = 0; i < sizeof uuid.bytes; ++i) {
        char digits[3];
        std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
        if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
        text += digits;
    }
    return text;
}

std::vector<size_t> visible_devices(std::string_view text, std::span<const std::string> names) {
    std::vector<size_t> visible;
    while (!text.empty()) {
        const size_t comma = std::min(text.find(','), text.size());
        const auto found = find_named(without_blanks(text.substr(0, comma)), names);
        text.remove_prefix(std::min(comma + 1, text.size()));
        if (!found) break;
        if (std::find(visible.begin(), visible.end(), *found) != visible.end()) return {};
        visible.push_back(*found);
    }
    return visible;
}

}  // namespace warpline::cuda::abi
