// Text that grows.
#pragma once

#include <string>
#include <string_view>

#include "softgpu/ptx/ast.h"

namespace warpline::softgpu::ptx {

/// Appends PTX text to a string: what printer.cpp and its parts share.
class Writer {
public:
    explicit Writer(const Module& module) : m_module(module) {}

    Writer& text(std::string_view s) {
        m_out.append(s);
        return *this;
    }
    Writer& number(uint64_t value) { return text(std::to_string(value)); }
    Writer& signed_number(int64_t value) { return text(std::to_string(value)); }
    Writer& hex(uint64_t value, int digits);
    std::string take() { return std::move(m_out); }

    // print_declarations.cpp
    void linkage(Linkage linkage);
    void variable(const Variable& variable, const Function* function);
    void parameters(const std::vector<Variable>& list);
    void symbol(SymbolRef ref, const Function* function);

    // print_body.cpp
    void body(const Function& function);
    void instruction(const Function& function, const Instruction& instruction);
    void register_name(const Function& function, RegId reg);

private:
    void shape(const Variable& variable);
    void dimensions(const Variable& variable);
    void init_level(const Variable& variable, const Function* function, size_t level, uint64_t offset);
    void init_element(const Variable& variable, const Function* function, uint64_t offset);
    void init_address(const InitAddress& address, const Function* function);

    void item(const Function& function, const BodyItem& item);
    void registers(const RegisterDecl& declared);
    void targets(const Function& function, const Targets& targets);
    void prototype(const Prototype& prototype);
    void operand(const Function& function, const Operand& operand);
    void operand_list(const Function& function, std::span<const Operand> list);
    void address(const Function& function, const Operand& operand);
    void component(const Operand& operand);
    void special(const Operand& operand);
    void call(const Function& function, const Call& call);

    const Module& m_module;
    std::string m_out;
    size_t m_next_address = 0;  ///< of the initialiser being written
};

}  // namespace warpline::softgpu::ptx
