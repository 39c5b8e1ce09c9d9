// What somebody asks of compression, read.
#include "compress/wish.h"

#include <charconv>

namespace warpline::compress {

Result<Wish> parse_wish(std::string_view text) {
    if (text == "auto") return Wish{};
    if (text == "none") return Wish{0, std::nullopt};
    const size_t colon = text.find(':');
    Choice choice;
    for (uint8_t number = 1; number < k_codec_count; ++number)
        if (text.substr(0, colon) == to_string(static_cast<Codec>(number))) choice.codec = static_cast<Codec>(number);
    if (choice.codec == Codec::none) return Error{Code::bad_argument, "no such codec"};
    if (colon != std::string_view::npos) {
        const std::string_view level = text.substr(colon + 1);
        const auto read = std::from_chars(level.data(), level.data() + level.size(), choice.level);
        if (read.ec != std::errc() || read.ptr != level.data() + level.size() || choice.level < 1 ||
            choice.level > k_highest_level || choice.codec == Codec::lz4)
            return Error{Code::bad_argument, "no such level"};
    }
    return Wish{bit(choice.codec), choice};
}

}  // namespace warpline::compress
