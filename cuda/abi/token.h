// Names of objects as numbers that can be checked: what the client gives programs for handles, what travels to the server, and
// what the software GPU gives out.
#pragma once

#include <cstdint>
#include <type_traits>

namespace warpline::cuda::abi {

// A token is `kind (8 bits) << 48 | generation (16 bits) << 32 | index (28 bits) << 4` (docs/session.md, Names). Kinds begin at
// 1, so a token is never one of the special stream handles 0, 1 and 2. Its last bits are 0, as a pointer's: programs keep marks
// of their own there (PyTorch, in a stream's).

constexpr unsigned k_mark_bits = 4;

/// @param index  less than 2^28
template <typename Kind>
constexpr uint64_t make_token(Kind kind, uint16_t generation, uint32_t index) {
    static_assert(std::is_enum_v<Kind> && sizeof(Kind) == 1);
    return static_cast<uint64_t>(kind) << 48 | static_cast<uint64_t>(generation) << 32 | uint64_t{index} << k_mark_bits;
}

/// Compared as a number of 16 bits: what is above the kind is not cut off, so that such a value is of no kind; nor is one with
/// a mark.
template <typename Kind>
constexpr bool token_is(Kind kind, uint64_t token) {
    return token >> 48 == static_cast<uint64_t>(kind) && token % (1u << k_mark_bits) == 0;
}

/// Meaningless for values that are no tokens: ask token_is() where they may be.
template <typename Kind>
constexpr Kind token_kind(uint64_t token) {
    return static_cast<Kind>(token >> 48);
}
constexpr uint16_t token_generation(uint64_t token) { return static_cast<uint16_t>(token >> 32); }
constexpr uint32_t token_index(uint64_t token) { return static_cast<uint32_t>(token) >> k_mark_bits; }

}  // namespace warpline::cuda::abi
