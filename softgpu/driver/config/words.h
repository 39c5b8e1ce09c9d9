// Values as the environment writes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace warpline::softgpu::driver {

/// A whole number at the beginning of a text; `rest` is what follows it. Nothing if there is none.
std::optional<uint64_t> parse_number(std::string_view text, std::string_view& rest);

/// A number of bytes such as 65536, 64KiB or 2G. Nothing if it is no size.
std::optional<uint64_t> parse_size(std::string_view text);

}  // namespace warpline::softgpu::driver
