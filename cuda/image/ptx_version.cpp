// Which PTX a driver of a CUDA version takes.
#include "cuda/image/ptx_version.h"

#include <iterator>

#include "cuda/image/ptx_tokens.h"

namespace warpline::cuda::image {

uint32_t parse_ptx_version(std::string_view word) {
    const size_t dot = word.find('.');
    uint64_t major = 0, minor = 0;
    if (dot == std::string_view::npos || !parse_ptx_number(word.substr(0, dot), major)) return 0;
    if (!parse_ptx_number(word.substr(dot + 1), minor) || major > 1000 || minor > 9) return 0;
    return static_cast<uint32_t>(major * 10 + minor);
}

uint32_t ptx_version(std::string_view text) {
    PtxTokens tokens(text);
    return tokens.accept(".version") ? parse_ptx_version(tokens.next()) : 0;
}

uint32_t newest_ptx_version(int driver_version) {
    struct Row {
        int driver;
        uint32_t ptx;
    };
    static constexpr Row k_rows[] = {
        {11000, 70}, {11010, 71}, {11020, 72}, {11030, 73}, {11040, 74}, {11050, 75}, {11060, 76}, {11070, 77}, {11080, 78},
        {12000, 80}, {12010, 81}, {12020, 82}, {12030, 83}, {12040, 84}, {12050, 85}, {12060, 85}, {12070, 86}, {12080, 87},
        {12090, 88}, {13000, 90}, {13010, 91}, {13020, 92}, {13030, 93}, {13040, 94}, {13050, 95},
    };
    if (driver_version / 10 > std::end(k_rows)[-1].driver / 10) return UINT32_MAX;
    uint32_t newest = k_rows[0].ptx;
    for (const Row& row : k_rows) {
        if (row.driver <= driver_version) newest = row.ptx;
    }
    return newest;
}

}  // namespace warpline::cuda::image
