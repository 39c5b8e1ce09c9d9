// What somebody asks of compression.
#pragma once

#include <optional>
#include <string_view>

#include "compress/codec.h"

namespace warpline::compress {

struct Choice {
    Codec codec = Codec::none;
    int level = 0;
    friend bool operator==(const Choice&, const Choice&) = default;
};

struct Wish {
    CodecSet codecs = k_all_codecs;  ///< that may be used; empty: nothing is compressed
    std::optional<Choice> forced;    ///< for everything that it makes smaller, whatever that costs
    friend bool operator==(const Wish&, const Wish&) = default;
};

/// Reads "auto", "none", or a codec's name, with a level behind a colon where it has levels ("zstd:9").
/// @errors  bad_argument
Result<Wish> parse_wish(std::string_view text);

}  // namespace warpline::compress
