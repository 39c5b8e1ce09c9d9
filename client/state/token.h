// Handles of the program as numbers that the server can check.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/abi/token.h"
#include "cuda/gen/call_id.gen.h"

namespace warpline::client {

using cuda::HandleKind;

using cuda::abi::make_token;
using cuda::abi::token_generation;
using cuda::abi::token_index;
using cuda::abi::token_is;
constexpr HandleKind token_kind(uint64_t token) { return cuda::abi::token_kind<HandleKind>(token); }

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
