// Copies of which so much is on its way that a cache would hold nothing of it by the time somebody reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace warpline {

/// As memcpy, but that the target is written to memory without being read first, and displaces nothing in the caches: a third
/// less for the memory to do. For parts of what is larger than caches are; memcpy itself does so, but knows the part only.
inline void copy_past_caches(std::byte* to, const std::byte* from, size_t bytes) {
#if defined(__x86_64__)
    constexpr size_t k_line_bytes = 64;
    const size_t head = -reinterpret_cast<uintptr_t>(to) % k_line_bytes;
    if (bytes >= head + k_line_bytes) {
        std::memcpy(to, from, head);
        to += head, from += head, bytes -= head;
        for (; bytes >= k_line_bytes; to += k_line_bytes, from += k_line_bytes, bytes -= k_line_bytes) {
            auto* const target = reinterpret_cast<__m128i*>(to);
            const auto* const source = reinterpret_cast<const __m128i*>(from);
            const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
            const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
            _mm_stream_si128(target, a);
            _mm_stream_si128(target + 1, b);
            _mm_stream_si128(target + 2, c);
            _mm_stream_si128(target + 3, d);
        }
        // What is written this way is in no order with other writes, such as that it is there.
        _mm_sfence();
    }
#endif
    std::memcpy(to, from, bytes);
}

}  // namespace warpline
