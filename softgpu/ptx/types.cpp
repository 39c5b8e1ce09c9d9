// PTX's words to numbers and back.
#include "softgpu/ptx/types.h"

#include <array>
#include <cstring>

namespace warpline::softgpu::ptx {
namespace {

#define WL_PTX_SPELLING(name, spelling) std::string_view(spelling),
constexpr std::string_view k_opcodes[] = {WL_PTX_OPCODES(WL_PTX_SPELLING)};
constexpr std::string_view k_mods[] = {WL_PTX_TYPES(WL_PTX_SPELLING) WL_PTX_MODIFIERS(WL_PTX_SPELLING)};
constexpr std::string_view k_special_registers[] = {WL_PTX_SPECIAL_REGISTERS(WL_PTX_SPELLING)};
#undef WL_PTX_SPELLING

static_assert(std::size(k_opcodes) == size_t(Opcode::count));
static_assert(std::size(k_mods) == size_t(Mod::count));
static_assert(std::size(k_special_registers) == size_t(SpecialReg::count));

constexpr uint32_t hash_of(std::string_view word) {
    uint32_t hash = 2166136261u;
    for (char c : word) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
    return hash ^ (hash >> 15);
}

/// Word to index by open addressing, built at compile time; a quarter full, so that a look-up compares one or two words.
template <size_t Slots>
struct WordTable {
    std::array<uint16_t, Slots> slots{};
    const std::string_view* words;

    template <size_t N>
    constexpr explicit WordTable(const std::string_view (&list)[N]) : words(list) {
        static_assert(N * 2 < Slots && (Slots & (Slots - 1)) == 0);
        for (size_t i = 0; i < N; i++) {
            size_t slot = hash_of(list[i]) & (Slots - 1);
            while (slots[slot] != 0) slot = (slot + 1) & (Slots - 1);
            slots[slot] = static_cast<uint16_t>(i + 1);
        }
    }
    /// `missing` if there is no such word.
    uint16_t find(std::string_view word, uint16_t missing) const {
        for (size_t slot = hash_of(word) & (Slots - 1); slots[slot] != 0; slot = (slot + 1) & (Slots - 1))
            if (same_word(words[slots[slot] - 1], word)) return static_cast<uint16_t>(slots[slot] - 1);
        return missing;
    }
};
constexpr WordTable<512> k_opcode_table(k_opcodes);
constexpr WordTable<2048> k_mod_table(k_mods);
constexpr WordTable<256> k_special_table(k_special_registers);

template <size_t N>
std::string_view spelling(const std::string_view (&words)[N], size_t index) {
    return index < N ? words[index] : std::string_view();
}

constexpr std::array<uint8_t, size_t(Type::none) + 1> make_bits() {
    std::array<uint8_t, size_t(Type::none) + 1> bits{};
    for (Type t : {Type::u8, Type::s8, Type::b8}) bits[size_t(t)] = 8;
    for (Type t : {Type::u16, Type::s16, Type::b16, Type::f16, Type::bf16}) bits[size_t(t)] = 16;
    for (Type t : {Type::u32, Type::s32, Type::b32, Type::f32, Type::f16x2, Type::bf16x2, Type::u16x2, Type::s16x2, Type::tf32})
        bits[size_t(t)] = 32;
    for (Type t : {Type::u64, Type::s64, Type::b64, Type::f64, Type::f32x2, Type::texref, Type::samplerref, Type::surfref})
        bits[size_t(t)] = 64;
    for (Type t : {Type::e4m3x2, Type::e5m2x2, Type::e3m2x2, Type::e2m3x2, Type::ue8m0x2, Type::ue4m3x2, Type::e2m1x4})
        bits[size_t(t)] = 16;
    for (Type t : {Type::e4m3x4, Type::e5m2x4, Type::e3m2x4, Type::e2m3x4}) bits[size_t(t)] = 32;
    bits[size_t(Type::e2m1x2)] = 8;
    bits[size_t(Type::b128)] = 128;
    bits[size_t(Type::pred)] = 1;
    return bits;
}
constexpr auto k_bits = make_bits();

}  // namespace

std::string_view to_string(Opcode opcode) { return spelling(k_opcodes, size_t(opcode)); }
std::string_view to_string(Type type) { return type == Type::none ? std::string_view() : spelling(k_mods, size_t(type)); }
std::string_view to_string(Mod mod) { return spelling(k_mods, size_t(mod)); }
std::string_view to_string(SpecialReg reg) { return spelling(k_special_registers, size_t(reg)); }

std::string_view to_string(Space space) {
    switch (space) {
        case Space::none: return "";
        case Space::reg: return "reg";
        case Space::sreg: return "sreg";
        case Space::constant: return "const";
        case Space::global: return "global";
        case Space::local: return "local";
        case Space::param: return "param";
        case Space::shared: return "shared";
        case Space::tex: return "tex";
    }
    return "";
}

Opcode opcode_from(std::string_view word) { return Opcode(k_opcode_table.find(word, uint16_t(Opcode::count))); }
Mod mod_from(std::string_view word) { return Mod(k_mod_table.find(word, uint16_t(Mod::count))); }
SpecialReg special_reg_from(std::string_view word) {
    return SpecialReg(k_special_table.find(word, uint16_t(SpecialReg::count)));
}

uint32_t bits_of(Type type) { return k_bits[size_t(type)]; }

bool is_float(Type type) {
    switch (type) {
        case Type::f16:
        case Type::f16x2:
        case Type::bf16:
        case Type::bf16x2:
        case Type::f32:
        case Type::f32x2:
        case Type::f64:
        case Type::tf32: return true;
        default: return false;
    }
}

bool is_signed(Type type) { return (type >= Type::s8 && type <= Type::s64) || type == Type::s16x2; }
bool is_unsigned(Type type) { return (type >= Type::u8 && type <= Type::u64) || type == Type::u16x2; }
bool is_bits(Type type) { return type >= Type::b8 && type <= Type::b128; }

}  // namespace warpline::softgpu::ptx
