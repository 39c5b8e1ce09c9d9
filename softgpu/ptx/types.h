// Opcodes, types, spaces and modifiers of PTX.
#pragma once

#include <cstdint>
#include <string_view>

#include "softgpu/ptx/lists.h"

namespace warpline::softgpu::ptx {

#define WL_PTX_NAME(name, spelling) name,

/// Base opcode of an instruction.
enum class Opcode : uint8_t { WL_PTX_OPCODES(WL_PTX_NAME) count };

/// Type of a register, a variable or an operation. `none` is the absence of one.
enum class Type : uint8_t { WL_PTX_TYPES(WL_PTX_NAME) none };

namespace detail {
enum class ModTypes : uint16_t { WL_PTX_TYPES(WL_PTX_NAME) count };
}

/// One dotted word of an opcode. The first values are the types, with the numbers of Type; `t_…` below names the few of them
/// that code asks for as modifiers.
enum class Mod : uint16_t {
    first_modifier_minus_one = uint16_t(detail::ModTypes::count) - 1,
    WL_PTX_MODIFIERS(WL_PTX_NAME) count
};

/// A special register. Vector ones (%tid) are one entry; Operand::component says which element.
enum class SpecialReg : uint8_t { WL_PTX_SPECIAL_REGISTERS(WL_PTX_NAME) count };

#undef WL_PTX_NAME

/// State space of a variable.
enum class Space : uint8_t { none, reg, sreg, constant, global, local, param, shared, tex };

/// What a variable or a function promises to other modules.
enum class Linkage : uint8_t { internal, visible, external, weak, common };

constexpr bool is_type(Mod mod) { return uint16_t(mod) < uint16_t(detail::ModTypes::count); }
constexpr Type to_type(Mod mod) { return is_type(mod) ? Type(uint16_t(mod)) : Type::none; }
constexpr Mod to_mod(Type type) { return Mod(uint16_t(type)); }

/// a == b, without a call: the words of PTX have a few letters each.
constexpr bool same_word(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); i++)
        if (a[i] != b[i]) return false;
    return true;
}

/// Spellings, as in PTX text, without a leading dot or '%'.
std::string_view to_string(Opcode opcode);
std::string_view to_string(Type type);
std::string_view to_string(Mod mod);
std::string_view to_string(SpecialReg reg);
std::string_view to_string(Space space);

/// The reverse; Opcode::count, Mod::count and SpecialReg::count for a word that PTX ISA 9.0 does not know.
Opcode opcode_from(std::string_view word);
Mod mod_from(std::string_view word);
SpecialReg special_reg_from(std::string_view word);

/// Bits of a register or variable of this type: pred 1, b8 8, f16x2 32, b128 128, texref 64; 0 for types that exist only inside
/// an operation's name.
uint32_t bits_of(Type type);
inline uint32_t bytes_of(Type type) { return (bits_of(type) + 7) / 8; }

bool is_float(Type type);     ///< f16 f16x2 bf16 bf16x2 f32 f32x2 f64 tf32
bool is_signed(Type type);    ///< s8 … s64, s16x2
bool is_unsigned(Type type);  ///< u8 … u64, u16x2
bool is_bits(Type type);      ///< b8 … b128

}  // namespace warpline::softgpu::ptx
