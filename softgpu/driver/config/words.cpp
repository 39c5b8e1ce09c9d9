// Numbers, sizes and lists from text.
#include "softgpu/driver/config/words.h"

#include <charconv>

namespace warpline::softgpu::driver {

std::optional<uint64_t> parse_number(std::string_view text, std::string_view& rest) {
    uint64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end == text.data()) return std::nullopt;
    rest = text.substr(static_cast<size_t>(end - text.data()));
    return value;
}

std::optional<uint64_t> parse_size(std::string_view text) {
    std::string_view unit;
    auto value = parse_number(text, unit);
    uint64_t shift = 64;
    if (unit.empty() || unit == "B") shift = 0;
    if (unit == "KiB" || unit == "K" || unit == "k") shift = 10;
    if (unit == "MiB" || unit == "M" || unit == "m") shift = 20;
    if (unit == "GiB" || unit == "G" || unit == "g") shift = 30;
    if (unit == "TiB" || unit == "T" || unit == "t") shift = 40;
    if (!value || shift == 64 || (*value << shift) >> shift != *value) return std::nullopt;
    return *value << shift;
}

}  // namespace warpline::softgpu::driver
