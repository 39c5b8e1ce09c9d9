// Handles of the program as numbers that the server can check.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/gen/call_id.gen.h"

namespace warpline::client {

using cuda::HandleKind;

// A token is `kind (8 bits) << 48 | generation (16 bits) << 32 | index (32 bits)` (docs/session.md, Names). Kinds begin at 1,
// so a token is never one of the special stream handles 0, 1 and 2.

constexpr uint64_t make_token(HandleKind kind, uint16_t generation, uint32_t index) {
    return static_cast<uint64_t>(kind) << 48 | static_cast<uint64_t>(generation) << 32 | index;
}
constexpr HandleKind token_kind(uint64_t token) { return static_cast<HandleKind>(token >> 48); }
constexpr uint32_t token_generation(uint64_t token) { return static_cast<uint32_t>(token >> 32) & 0xffff; }
constexpr uint32_t token_index(uint64_t token) { return static_cast<uint32_t>(token); }

/// The token behind a handle of the program, and back. Most handles are pointers, some are integers.
template <typename Handle>
uint64_t to_token(Handle handle) {
    if constexpr (std::is_integral_v<Handle>) {
        return handle;
    } else {
        return reinterpret_cast<uint64_t>(handle);
    }
}
template <typename Handle>
Handle to_handle(uint64_t token) {
    if constexpr (std::is_integral_v<Handle>) {
        return token;
    } else {
        return reinterpret_cast<Handle>(token);
    }
}

}  // namespace warpline::client
