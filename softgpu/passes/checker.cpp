// Chooses the form of each instruction, and checks modifiers and types.
#include "softgpu/passes/checker.h"

#include <algorithm>

#include "softgpu/passes/check.h"
#include "softgpu/ptx/parser.h"

namespace warpline::softgpu::passes {

bool Checker::run() {
    for (const ptx::Instruction& each : m_body.instructions) instruction(each);
    return m_errors == 0;
}

void Checker::error(const ptx::Instruction& instruction, std::string text) {
    m_errors++;
    if (m_diagnostics.size() >= ptx::Limits::k_diagnostics) return;
    m_diagnostics.push_back(
        {ptx::DiagnosticKind::type, {instruction.line, instruction.column}, std::move(text), m_function.unit});
}

void Checker::instruction(const ptx::Instruction& instruction) {
    if (instruction.opcode == ptx::Opcode::call) return check_call(instruction);
    std::span<const Rule> rules = rules_of(instruction.opcode);
    if (rules.empty()) return;
    Stage furthest = Stage::when;
    for (const Rule& rule : rules) {
        Stage stage = match(instruction, rule);
        if (stage == Stage::matched) return special_cases(instruction);
        furthest = std::max(furthest, stage);
    }
    report(instruction, furthest);
}

void Checker::report(const ptx::Instruction& instruction, Stage stage) {
    std::string opcode = "'" + std::string(to_string(instruction.opcode)) + "'";
    switch (stage) {
        case Stage::when: error(instruction, "modifiers missing or not permitted together for instruction " + opcode); break;
        case Stage::types: error(instruction, "unexpected instruction types specified for " + opcode); break;
        case Stage::modifiers:
            error(instruction, "illegal modifier '." + std::string(to_string(m_illegal)) + "' for instruction " + opcode);
            break;
        default: error(instruction, "arguments mismatch for instruction " + opcode); break;
    }
}

Checker::Stage Checker::match(const ptx::Instruction& instruction, const Rule& rule) {
    if (!match_when(instruction, rule)) return Stage::when;
    if (!match_types(instruction, rule)) return Stage::types;
    if (!match_modifiers(instruction, rule)) return Stage::modifiers;
    return match_operands(instruction, rule) ? Stage::matched : Stage::operands;
}

bool Checker::match_when(const ptx::Instruction& instruction, const Rule& rule) const {
    for (const Rule::Group& group : rule.when) {
        auto present =
            std::count_if(group.any_of.begin(), group.any_of.end(), [&](ptx::Mod mod) { return m_body.has(instruction, mod); });
        if (present != (group.absent ? 0 : 1)) return false;
    }
    return true;
}

bool Checker::match_types(const ptx::Instruction& instruction, const Rule& rule) const {
    if (rule.any_types) return true;
    for (size_t i = 0; i < rule.types.size(); i++) {
        if (i >= instruction.type_count) return rule.types[i].optional;
        if (!rule.types[i].set.contains(ptx::to_mod(instruction.types[i]))) return false;
    }
    return instruction.type_count <= rule.types.size();
}

// Of these there can be one only, whatever the opcode: rounding, memory order, scope.
static int exclusive_group(ptx::Mod mod) {
    using Mod = ptx::Mod;
    switch (mod) {
        case Mod::rn:
        case Mod::rz:
        case Mod::rm:
        case Mod::rp:
        case Mod::rna:
        case Mod::rs:
        case Mod::rni:
        case Mod::rzi:
        case Mod::rmi:
        case Mod::rpi: return 1;
        case Mod::weak:
        case Mod::relaxed:
        case Mod::acquire:
        case Mod::release:
        case Mod::acq_rel:
        case Mod::sc:
        case Mod::volatile_: return 2;
        case Mod::cta:
        case Mod::cluster:
        case Mod::gpu:
        case Mod::sys: return 4;
        default: return 0;
    }
}

bool Checker::match_modifiers(const ptx::Instruction& instruction, const Rule& rule) {
    int seen = 0;
    for (ptx::Mod mod : m_body.mods_of(instruction)) {
        int group = exclusive_group(mod);
        m_illegal = mod;
        if ((seen & group) != 0) return false;
        seen |= group;
    }
    if (rule.any_modifier) return true;
    for (ptx::Mod mod : m_body.mods_of(instruction)) {
        if (ptx::is_type(mod) || rule.modifiers.contains(mod)) continue;
        m_illegal = mod;
        return false;
    }
    return true;
}

bool Checker::match_operands(const ptx::Instruction& instruction, const Rule& rule) const {
    std::span<const ptx::Operand> operands = m_body.operands_of(instruction);
    size_t next = 0;
    for (const OperandPattern& pattern : rule.operands) {
        if (next == operands.size()) {
            if (!pattern.optional) return false;
            continue;
        }
        do {
            if (!match_operand(instruction, pattern, operands[next])) return false;
            next++;
        } while (pattern.repeated && next < operands.size());
    }
    return next == operands.size();
}

bool check(const ptx::Module& module, const ptx::Function& function, ptx::Diagnostics& diagnostics) {
    return function.body == nullptr || Checker(module, function, diagnostics).run();
}

bool check(const ptx::Module& module, ptx::Diagnostics& diagnostics) {
    bool sound = true;
    for (const ptx::Function& function : module.functions)
        if (!check(module, function, diagnostics)) sound = false;
    return sound;
}

}  // namespace warpline::softgpu::passes
