// Whether operands fit the form of their instruction.
#include "softgpu/passes/checker.h"
#include "softgpu/passes/conformity.h"

namespace warpline::softgpu::passes {

using ptx::Mod;
using ptx::Operand;
using ptx::Type;

Type Checker::wanted_type(const ptx::Instruction& instruction, const OperandPattern& pattern) const {
    switch (pattern.from) {
        case OperandPattern::TypeFrom::none: return Type::none;
        case OperandPattern::TypeFrom::opcode: return instruction.types[pattern.index];
        case OperandPattern::TypeFrom::twice: return twice(instruction.types[pattern.index]);
        case OperandPattern::TypeFrom::fixed: return pattern.type;
    }
    return Type::none;
}

bool Checker::register_conforms(const Operand& operand, Type type, bool may_be_wider) const {
    bool whole_vector = m_body.reg_vector[operand.reg] > 1 && operand.component == Operand::Component::none;
    if (whole_vector) return false;
    return type == Type::none || conforms(m_body.reg_types[operand.reg], type, may_be_wider);
}

bool Checker::match_source(const OperandPattern& pattern, const Operand& operand, Type type) const {
    switch (operand.kind) {
        case Operand::Kind::reg:
            return (!operand.negated || type == Type::none) && register_conforms(operand, type, pattern.may_be_wider);
        case Operand::Kind::integer:
        case Operand::Kind::f32:
        case Operand::Kind::f64: return type == Type::none || conforms(operand, type);
        case Operand::Kind::special: return pattern.may_be_special && special_conforms(operand.special, type);
        case Operand::Kind::symbol: return pattern.may_be_symbol;
        default: return false;
    }
}

bool Checker::match_destination(const OperandPattern& pattern, const Operand& operand, Type type) const {
    if (operand.kind == Operand::Kind::sink) return pattern.may_be_sink;
    if (operand.kind == Operand::Kind::pair) {
        if (!pattern.may_be_pair) return false;
        std::span<const Operand> parts = m_body.elements_of(operand);
        bool first = parts[0].kind == Operand::Kind::sink ||
                     (parts[0].kind == Operand::Kind::reg && register_conforms(parts[0], type, false));
        bool second = parts[1].kind == Operand::Kind::sink ||
                      (parts[1].kind == Operand::Kind::reg && m_body.reg_types[parts[1].reg] == Type::pred);
        return first && second && !parts[0].negated && !parts[1].negated;
    }
    return operand.kind == Operand::Kind::reg && !operand.negated && register_conforms(operand, type, pattern.may_be_wider);
}

bool Checker::accesses_memory(const ptx::Instruction& instruction) {
    switch (instruction.opcode) {
        case ptx::Opcode::ld:
        case ptx::Opcode::ldu:
        case ptx::Opcode::st:
        case ptx::Opcode::atom:
        case ptx::Opcode::red: return true;
        default: return false;
    }
}

// Elements of one vector are of one width. Where one of them is untyped, the whole vector is.
bool Checker::match_elements(const OperandPattern& pattern, std::span<const Operand> elements, Type type) const {
    uint32_t width = 0;
    bool untyped = false;
    for (const Operand& element : elements) {
        if (element.kind != Operand::Kind::reg) continue;
        uint32_t bits = ptx::bits_of(m_body.reg_types[element.reg]);
        if (width != 0 && bits != width) return false;
        width = bits;
        if (ptx::is_bits(m_body.reg_types[element.reg])) untyped = match_source(pattern, element, type);
    }
    for (const Operand& element : elements) {
        bool result = pattern.kind == 'o';
        if (element.kind == Operand::Kind::sink && result) continue;
        if (result && element.kind != Operand::Kind::reg) return false;
        if (!match_source(pattern, element, type) && !(untyped && element.kind == Operand::Kind::reg && !element.negated))
            return false;
    }
    return true;
}

// A register, or a braced vector whose length the opcode's .v2/.v4/.v8 gives where it accesses memory.
bool Checker::match_vector(const ptx::Instruction& instruction, const OperandPattern& pattern, const Operand& operand,
                           Type type) const {
    bool memory = accesses_memory(instruction);
    uint32_t width = 1;
    if (m_body.has(instruction, Mod::v2)) width = 2;
    if (m_body.has(instruction, Mod::v4)) width = 4;
    if (m_body.has(instruction, Mod::v8)) width = 8;
    switch (operand.kind) {
        case Operand::Kind::pair:
            return pattern.may_be_pair && match_vector(instruction, pattern, m_body.elements_of(operand)[0], type);
        case Operand::Kind::vector:
            return (!memory || operand.count == width) && match_elements(pattern, m_body.elements_of(operand), type);
        case Operand::Kind::sink: return pattern.may_be_sink && width == 1;
        case Operand::Kind::reg:
            if (operand.component == Operand::Component::none && m_body.reg_vector[operand.reg] > 1)
                return m_body.reg_vector[operand.reg] == width &&
                       (type == Type::none || conforms(m_body.reg_types[operand.reg], type, pattern.may_be_wider));
            break;
        default:
            if (pattern.kind == 'o') return false;
    }
    return (!memory || width == 1) && match_source(pattern, operand, type);
}

bool Checker::match_address(const Operand& operand) const {
    if (operand.kind == Operand::Kind::indexed || operand.kind == Operand::Kind::list) return true;
    if (operand.kind != Operand::Kind::address) return false;
    if (operand.reg == ptx::k_no_reg) return true;
    Type type = m_body.reg_types[operand.reg];
    return type != Type::pred && !ptx::is_float(type) && ptx::bits_of(type) <= 64;
}

bool Checker::match_operand(const ptx::Instruction& instruction, const OperandPattern& pattern, const Operand& operand) const {
    Type type = wanted_type(instruction, pattern);
    switch (pattern.kind) {
        case 'd': return match_destination(pattern, operand, type);
        case 's': return match_source(pattern, operand, type);
        case 'r':
            return operand.kind == Operand::Kind::reg && (!operand.negated || type == Type::pred) &&
                   register_conforms(operand, type, pattern.may_be_wider);
        case 'i': return operand.kind == Operand::Kind::integer;
        case 'a': return match_address(operand);
        case 'p':
            return operand.kind == Operand::Kind::integer ||
                   (operand.kind == Operand::Kind::special && pattern.may_be_special &&
                    operand.special == ptx::SpecialReg::is_explicit_cluster) ||
                   (operand.kind == Operand::Kind::reg && m_body.reg_types[operand.reg] == Type::pred);
        case 'o':
        case 'v': return match_vector(instruction, pattern, operand, type);
        case 'l': return operand.kind == Operand::Kind::label;
        case 'f': return operand.kind == Operand::Kind::symbol;
        default: return true;
    }
}

}  // namespace warpline::softgpu::passes
