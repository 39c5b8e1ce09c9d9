// The forms of all instructions, as tables.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "softgpu/ptx/ast.h"

namespace warpline::softgpu::passes {

/// One form of an instruction as the tables write it; PTX ISA 9.0, chapter "Instruction Set", is the source of all of them.
///
/// when       modifiers that choose the form: groups by spaces, alternatives by '|'; "!x" for one that must not be there
/// modifiers  further modifiers that it may have; "*" for any
/// types      one list per type of the opcode, by spaces, alternatives by '|', names of sets allowed; '?' ends an optional one;
/// "*": any operands   one pattern per operand: a kind, a type, and marks
///   kind     d destination register   s source (register or immediate)   r source register   i integer constant
///            a address   p predicate, negated or not   v register or {vector}   o the same as a result   l label   f name of a
///            variable   x anything
///   type     a digit: that type of the opcode; wN: twice as wide as type N; or the name of a type; nothing: not checked
///   marks    ~ may be wider than the type    _ may be thrown away    | may have a second, predicate result (d|p)
///            ? may be left out    * any number of these    ! special registers allowed
///            @ names of variables allowed
struct RuleText {
    ptx::Opcode opcode;
    const char* when;
    const char* modifiers;
    const char* types;
    const char* operands;
};

std::span<const RuleText> arithmetic_rules();
std::span<const RuleText> memory_rules();
std::span<const RuleText> warp_rules();
std::span<const RuleText> matrix_rules();

/// Set of modifiers or types.
class WordSet {
public:
    void insert(ptx::Mod mod) { m_bits[size_t(mod) / 64] |= uint64_t{1} << (size_t(mod) % 64); }
    bool contains(ptx::Mod mod) const { return (m_bits[size_t(mod) / 64] >> (size_t(mod) % 64) & 1) != 0; }

private:
    std::array<uint64_t, (size_t(ptx::Mod::count) + 63) / 64> m_bits{};
};

struct OperandPattern {
    enum class TypeFrom : uint8_t { none, opcode, twice, fixed };
    char kind = 'x';
    TypeFrom from = TypeFrom::none;
    uint8_t index = 0;                 ///< of the opcode's type
    ptx::Type type = ptx::Type::none;  ///< fixed
    bool may_be_wider = false, may_be_sink = false, may_be_pair = false, optional = false, repeated = false,
         may_be_special = false, may_be_symbol = false;
};

struct Rule {
    struct Group {
        std::vector<ptx::Mod> any_of;
        bool absent = false;
    };
    std::vector<Group> when;
    WordSet modifiers;
    bool any_modifier = false, any_types = false;
    struct TypeList {
        WordSet set;
        bool optional = false;
    };
    std::vector<TypeList> types;
    std::vector<OperandPattern> operands;
};

/// The forms of an opcode; empty for one that the tables leave unchecked.
std::span<const Rule> rules_of(ptx::Opcode opcode);

}  // namespace warpline::softgpu::passes
