// The check at work.
#pragma once

#include <initializer_list>
#include <string>

#include "softgpu/passes/rules.h"

namespace warpline::softgpu::passes {

/// Checks the instructions of one body.
class Checker {
public:
    Checker(const ptx::Module& module, const ptx::Function& function, ptx::Diagnostics& diagnostics)
        : m_module(module), m_function(function), m_body(*function.body), m_diagnostics(diagnostics) {}
    bool run();

private:
    /// How far a form got before it did not match; the message is about the form that got furthest.
    enum class Stage : uint8_t { when, types, modifiers, operands, matched };

    // checker.cpp
    void instruction(const ptx::Instruction& instruction);
    Stage match(const ptx::Instruction& instruction, const Rule& rule);
    bool match_when(const ptx::Instruction& instruction, const Rule& rule) const;
    bool match_types(const ptx::Instruction& instruction, const Rule& rule) const;
    bool match_modifiers(const ptx::Instruction& instruction, const Rule& rule);
    bool match_operands(const ptx::Instruction& instruction, const Rule& rule) const;
    void report(const ptx::Instruction& instruction, Stage stage);
    void error(const ptx::Instruction& instruction, std::string text);

    // check_operands.cpp
    bool match_operand(const ptx::Instruction& instruction, const OperandPattern& pattern, const ptx::Operand& operand) const;
    bool match_source(const OperandPattern& pattern, const ptx::Operand& operand, ptx::Type type) const;
    bool match_destination(const OperandPattern& pattern, const ptx::Operand& operand, ptx::Type type) const;
    bool match_vector(const ptx::Instruction& instruction, const OperandPattern& pattern, const ptx::Operand& operand,
                      ptx::Type type) const;
    bool match_elements(const OperandPattern& pattern, std::span<const ptx::Operand> elements, ptx::Type type) const;
    static bool accesses_memory(const ptx::Instruction& instruction);
    bool match_address(const ptx::Operand& operand) const;
    bool register_conforms(const ptx::Operand& operand, ptx::Type type, bool may_be_wider) const;
    ptx::Type wanted_type(const ptx::Instruction& instruction, const OperandPattern& pattern) const;

    // check_special.cpp: what a table cannot say
    void special_cases(const ptx::Instruction& instruction);
    void check_comparison(const ptx::Instruction& instruction);
    void check_mov(const ptx::Instruction& instruction);
    bool mov_packs(ptx::Type type, const ptx::Operand& vector, const ptx::Operand& whole, bool unpacks) const;
    bool mov_plain(ptx::Type type, const ptx::Operand& to, const ptx::Operand& from) const;
    void check_memory(const ptx::Instruction& instruction);
    void check_address(const ptx::Instruction& instruction, const ptx::Operand& operand, ptx::Space wanted);
    bool has_any(const ptx::Instruction& instruction, std::initializer_list<ptx::Mod> mods) const;
    ptx::Space space_of(ptx::SymbolRef symbol) const;
    void check_call(const ptx::Instruction& instruction);
    bool argument_fits(const ptx::Variable& parameter, const ptx::Operand& argument) const;

    const ptx::Module& m_module;
    const ptx::Function& m_function;
    const ptx::Body& m_body;
    ptx::Diagnostics& m_diagnostics;
    size_t m_errors = 0;
    ptx::Mod m_illegal = ptx::Mod::count;  ///< the modifier that a form does not have
};

}  // namespace warpline::softgpu::passes
