// What several families' decoders need.
#pragma once

#include <string>
#include <string_view>

#include "softgpu/isa/registry.h"

namespace warpline::softgpu::isa {

struct TypeInfo {
    uint8_t bytes = 0;       ///< 0: not a type
    bool is_signed = false;  ///< s8 … s64
    bool is_float = false;
};
/// Type of one lane's value by its name, as loads, stores and atomics know it.
TypeInfo type_info(std::string_view modifier);

/// The last modifier that is a type; bytes == 0 if there is none.
TypeInfo last_type(const DecodeContext& context);

/// Emits an instruction that uses up some of the warp's turn: the next one probably waits for somebody.
void emit_spin_hint(DecodeContext& context);

/// A scratch row with 64-bit addresses made of 32-bit ones.
int32_t emit_widen_address(DecodeContext& context, int32_t slot);

/// Emits `handler` with op[0] = out and op[1] = in.
void emit_simple(DecodeContext& context, Handler handler, int32_t out, int32_t in);

}  // namespace warpline::softgpu::isa
