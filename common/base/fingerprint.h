// A number that tells bytes from other bytes. Who makes them can make others with the same number: not for strangers' bytes.
#pragma once

#include <cstdint>
#include <cstring>

#include "common/base/bytes.h"

namespace warpline {

/// The same number for the same bytes, on every machine of one byte order; of others another one, but for one in 2^64.
inline uint64_t fingerprint(BytesView bytes) {
    // Odd numbers without a pattern; four lanes, so that multiplications do not wait for one another.
    constexpr uint64_t k_odd[4] = {0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f, 0xd6e8feb86659fd93, 0xa0761d6478bd642f};
    // Both halves of the product: of the lower one alone, a word's highest bits would change few.
    const auto mixed = [](uint64_t value, uint64_t odd) {
        __extension__ using Wide = unsigned __int128;
        const Wide product = Wide{value} * odd;
        return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    };
    uint64_t lanes[4] = {k_odd[1], k_odd[2], k_odd[3], k_odd[0]};
    const auto take = [&](const uint64_t(&words)[4]) {
        for (unsigned i = 0; i < 4; ++i) lanes[i] = mixed(lanes[i] ^ words[i], k_odd[i]) + (lanes[i] << 31 | lanes[i] >> 33);
    };
    uint64_t words[4] = {};
    size_t at = 0;
    for (; at + sizeof words <= bytes.size(); at += sizeof words) {
        std::memcpy(words, bytes.data() + at, sizeof words);
        take(words);
    }
    for (uint64_t& word : words) word = 0;
    if (at < bytes.size()) std::memcpy(words, bytes.data() + at, bytes.size() - at);
    take(words);
    uint64_t all = bytes.size();
    for (unsigned i = 0; i < 4; ++i) all = mixed(all ^ lanes[i], k_odd[3 - i]);
    return mixed(all, k_odd[2]);
}

}  // namespace warpline
