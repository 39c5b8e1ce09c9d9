// What the tables cannot say about instructions.
#include <algorithm>
#include <string>

#include "softgpu/passes/checker.h"
#include "softgpu/passes/conformity.h"

namespace warpline::softgpu::passes {

using ptx::Mod;
using ptx::Opcode;
using ptx::Operand;
using ptx::Space;
using ptx::SymbolRef;
using ptx::Type;

void Checker::special_cases(const ptx::Instruction& instruction) {
    switch (instruction.opcode) {
        case Opcode::set:
        case Opcode::setp: return check_comparison(instruction);
        case Opcode::mov: return check_mov(instruction);
        case Opcode::bra:
        case Opcode::brx: {
            const Operand& target = m_body.operands_of(instruction).back();
            auto wanted = instruction.opcode == Opcode::bra ? SymbolRef::Kind::label : SymbolRef::Kind::targets;
            if (target.symbol.kind != wanted) error(instruction, "the target of a branch is not one");
            return;
        }
        case Opcode::ld:
        case Opcode::ldu:
        case Opcode::st:
        case Opcode::atom:
        case Opcode::red: return check_memory(instruction);
        default: return;
    }
}

// PTX ISA, "Comparison and Selection Instructions": ordering needs numbers; lo … hs are for unsigned, …u and num/nan for
// floats.
void Checker::check_comparison(const ptx::Instruction& instruction) {
    Type type = instruction.types[instruction.opcode == Opcode::set ? 1 : 0];
    for (Mod mod : m_body.mods_of(instruction)) {
        bool sound = true;
        if (mod >= Mod::lt && mod <= Mod::ge) sound = !ptx::is_bits(type);
        if (mod >= Mod::ls && mod <= Mod::hs) sound = ptx::is_unsigned(type);
        if (mod == Mod::lo || mod == Mod::hi) sound = ptx::is_unsigned(type);
        if (mod >= Mod::equ && mod <= Mod::nan) sound = ptx::is_float(type);
        if (sound) continue;
        return error(instruction, "mismatch between instruction type and comparison '." + std::string(to_string(mod)) + "'");
    }
}

// mov.b64 {a, b}, c and mov.b64 c, {a, b}: the elements are as wide as the whole together.
bool Checker::mov_packs(Type type, const Operand& vector, const Operand& whole, bool unpacks) const {
    if (!ptx::is_bits(type) || vector.count == 0 || ptx::bits_of(type) % vector.count != 0) return false;
    uint32_t width = ptx::bits_of(type) / vector.count;
    for (const Operand& element : m_body.elements_of(vector)) {
        if (element.kind == Operand::Kind::sink && unpacks) continue;
        if (element.kind == Operand::Kind::integer && !unpacks) continue;
        if (element.kind != Operand::Kind::reg || ptx::bits_of(m_body.reg_types[element.reg]) != width) return false;
    }
    if (whole.kind == Operand::Kind::integer) return unpacks;
    return whole.kind == Operand::Kind::reg && register_conforms(whole, type, false);
}

bool Checker::mov_plain(Type type, const Operand& to, const Operand& from) const {
    if (to.kind != Operand::Kind::reg || to.negated || !register_conforms(to, type, false)) return false;
    switch (from.kind) {
        case Operand::Kind::reg: return !from.negated && register_conforms(from, type, false);
        case Operand::Kind::special: return special_conforms(from.special, type);
        case Operand::Kind::symbol: return !ptx::is_float(type) && ptx::bits_of(type) >= 32 && ptx::bits_of(type) <= 64;
        default: return conforms(from, type);
    }
}

void Checker::check_mov(const ptx::Instruction& instruction) {
    std::span<const Operand> operands = m_body.operands_of(instruction);
    const Operand &to = operands[0], &from = operands[1];
    Type type = instruction.types[0];
    if (type == Type::pred || m_body.has(instruction, Mod::v2) || m_body.has(instruction, Mod::v4)) return;
    bool sound = to.kind == Operand::Kind::vector     ? mov_packs(type, to, from, true)
                 : from.kind == Operand::Kind::vector ? mov_packs(type, from, to, false)
                                                      : mov_plain(type, to, from);
    if (!sound) error(instruction, "arguments mismatch for instruction 'mov'");
}

bool Checker::has_any(const ptx::Instruction& instruction, std::initializer_list<Mod> mods) const {
    return std::any_of(mods.begin(), mods.end(), [&](Mod mod) { return m_body.has(instruction, mod); });
}

Space Checker::space_of(SymbolRef symbol) const {
    switch (symbol.kind) {
        case SymbolRef::Kind::variable: return m_module.variables[symbol.index].space;
        case SymbolRef::Kind::local: return m_body.variables[symbol.index].space;
        case SymbolRef::Kind::param:
        case SymbolRef::Kind::return_param: return Space::param;
        default: return Space::none;
    }
}

// A named address must lie in the state space that the instruction names, and the parameters that came in are read only.
void Checker::check_address(const ptx::Instruction& instruction, const Operand& operand, Space wanted) {
    std::string opcode = "'" + std::string(to_string(instruction.opcode)) + "'";
    bool based = operand.reg != ptx::k_no_reg || operand.symbol;
    if (!based && wanted != Space::local && wanted != Space::none)
        return error(instruction, "immediate addresses allowed only for .local state space");
    if (!operand.symbol || wanted == Space::none) return;
    if (space_of(operand.symbol) != wanted)
        return error(instruction, "state space mismatch between instruction and address in instruction " + opcode);
    if (instruction.opcode == Opcode::st && operand.symbol.kind == SymbolRef::Kind::param)
        error(instruction, "illegal to write to function input parameter '" +
                               std::string(m_function.params[operand.symbol.index].name) + "'");
}

void Checker::check_memory(const ptx::Instruction& instruction) {
    Space wanted = Space::none;
    int spaces = 0;
    for (Mod mod : m_body.mods_of(instruction)) {
        Space space = Space::none;
        if (mod == Mod::const_) space = Space::constant;
        if (mod == Mod::global) space = Space::global;
        if (mod == Mod::local) space = Space::local;
        if (mod == Mod::param || mod == Mod::param_entry || mod == Mod::param_func) space = Space::param;
        if (mod == Mod::shared || mod == Mod::shared_cta || mod == Mod::shared_cluster) space = Space::shared;
        if (space == Space::none) continue;
        wanted = space;
        spaces++;
    }
    bool load_or_store = instruction.opcode == Opcode::ld || instruction.opcode == Opcode::st;
    if (load_or_store && has_any(instruction, {Mod::relaxed, Mod::acquire, Mod::release}) !=
                             has_any(instruction, {Mod::cta, Mod::cluster, Mod::gpu, Mod::sys}))
        return error(instruction, "memory order and scope go together");
    if (spaces > 1) return error(instruction, "unexpected number of state spaces specified");
    for (const Operand& operand : m_body.operands_of(instruction))
        if (operand.kind == Operand::Kind::address || operand.kind == Operand::Kind::indexed)
            check_address(instruction, operand, wanted);
}

bool Checker::argument_fits(const ptx::Variable& parameter, const Operand& argument) const {
    switch (argument.kind) {
        case Operand::Kind::reg: return conforms(m_body.reg_types[argument.reg], parameter.type, false) || parameter.is_array;
        case Operand::Kind::symbol: {
            if (argument.symbol.kind != SymbolRef::Kind::local) return true;
            const ptx::Variable& variable = m_body.variables[argument.symbol.index];
            return variable.space == Space::param && (variable.size_bytes == parameter.size_bytes || parameter.size_bytes == 0);
        }
        default: return true;
    }
}

void Checker::check_call(const ptx::Instruction& instruction) {
    const ptx::Call& call = m_body.calls[instruction.call];
    const Operand& target = m_body.operands[call.target];
    const std::vector<ptx::Variable>*returns = nullptr, *params = nullptr;
    std::string name = "the prototype";
    if (target.kind == Operand::Kind::symbol) {
        const ptx::Function& callee = m_module.functions[target.symbol.index];
        name = "'" + std::string(callee.name) + "'";
        if (callee.is_entry) return error(instruction, "call of " + name + ", which is an entry");
        returns = &callee.returns;
        params = &callee.params;
    } else if (call.via.kind == SymbolRef::Kind::prototype) {
        returns = &m_body.prototypes[call.via.index].returns;
        params = &m_body.prototypes[call.via.index].params;
    } else {
        return;
    }
    bool variadic = !params->empty() && params->back().is_array && params->back().size_bytes == 0;
    if (call.ret_count != returns->size() ||
        (variadic ? call.arg_count + 1 < params->size() : call.arg_count != params->size()))
        return error(instruction, "number of arguments does not match " + name);
    for (uint32_t i = 0; i < call.arg_count && i < params->size(); i++)
        if (!argument_fits((*params)[i], m_body.operands[call.first_arg + i]))
            return error(instruction, "argument " + std::to_string(i + 1) + " does not match " + name);
    for (uint32_t i = 0; i < call.ret_count; i++)
        if (!argument_fits((*returns)[i], m_body.operands[call.first_ret + i]))
            return error(instruction, "result " + std::to_string(i + 1) + " does not match " + name);
}

}  // namespace warpline::softgpu::passes
