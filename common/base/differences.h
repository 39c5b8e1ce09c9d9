// Where bytes differ from others.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace warpline {

/// Calls visit(begin, end) for each run of bytes that differ between two memories of the same size, in order, with offsets.
/// @param gap  as many equal bytes as this between two differences make no end of a run
template <typename Visit>
void for_each_difference(const std::byte* a, const std::byte* b, uint64_t size_bytes, uint64_t gap, Visit visit) {
    constexpr uint64_t k_step = 64;  // what is the same is passed over at the pace of the memory
    uint64_t first = size_bytes, last = size_bytes;
    for (uint64_t step = 0; step < size_bytes; step += k_step) {
        const uint64_t bytes = std::min(k_step, size_bytes - step);
        if (std::memcmp(a + step, b + step, bytes) == 0) continue;
        for (uint64_t i = step; i < step + bytes; ++i) {
            if (a[i] == b[i]) continue;
            if (first != size_bytes && i - last > gap) {
                visit(first, last);
                first = size_bytes;
            }
            if (first == size_bytes) first = i;
            last = i + 1;
        }
    }
    if (first != size_bytes) visit(first, last);
}

/// The same of memory that somebody else writes meanwhile, who must not lose anything: single bytes, but where many have
/// changed the words of four bytes around them. Numbers are written whole, and what changes in them is here and there.
/// @param address  where the memory is that has these words
template <typename Visit>
void for_each_change(const std::byte* a, const std::byte* b, uint64_t size_bytes, uint64_t address, Visit visit) {
    constexpr uint64_t k_block = 4096, k_word = 4;
    constexpr unsigned k_many = 64;  // in a block
    uint64_t first = 0, last = 0;
    const auto add = [&](uint64_t begin, uint64_t end) {
        if (begin == last && first != last) return void(last = end);
        if (first != last) visit(first, last);
        first = begin;
        last = end;
    };
    for (uint64_t begin = 0, end = 0; begin < size_bytes; begin = end) {
        end = std::min(size_bytes, begin + k_block - (address + begin) % k_block);
        unsigned runs = 0;
        for_each_difference(a + begin, b + begin, end - begin, 0, [&](uint64_t, uint64_t) { ++runs; });
        if (runs <= k_many) {
            for_each_difference(a + begin, b + begin, end - begin, 0,
                                [&](uint64_t from, uint64_t to) { add(begin + from, begin + to); });
            continue;
        }
        for (uint64_t word = begin, next = 0; word < end; word = next) {
            next = std::min(end, word + k_word - (address + word) % k_word);
            if (std::memcmp(a + word, b + word, next - word) != 0) add(word, next);
        }
    }
    if (first != last) visit(first, last);
}

}  // namespace warpline
