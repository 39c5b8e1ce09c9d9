// Parsing bodies.
#pragma once

#include <unordered_map>

#include "softgpu/ptx/declarations.h"
#include "softgpu/ptx/scoped_names.h"

namespace warpline::softgpu::ptx {

/// Reads one function's body.
class BodyParser : public DeclarationReader {
public:
    BodyParser(const Module& module, const Function& function, Body& body, Diagnostics& diagnostics)
        : DeclarationReader(function.body_text, function.body_at, diagnostics, module, function.unit),
          m_function(function),
          m_body(body) {}

    /// False if anything was wrong; the messages say what.
    bool run();

private:
    /// A use of a label, a target list or a prototype, which may all stand further down.
    struct Pending {
        enum class Where : uint8_t { operand, via, target };
        Where where = Where::operand;
        uint32_t index = 0;  ///< of the operand, the call, or the target list
        uint32_t entry = 0;  ///< of the target list
        std::string_view name;
        Location at;
    };

    // body_parser.cpp: statements and scopes
    void reserve();
    void declare_parameters();
    bool block();
    bool statement();
    bool directive();
    bool open_scope();
    void close_scope();
    bool register_declaration();
    bool one_register(const Shape& shape);
    bool local_variables();
    bool loc();
    bool loc_tail(Loc& loc);
    bool pragma();
    void item(BodyItem::Kind kind, size_t index) { m_body.items.push_back({kind, static_cast<uint32_t>(index)}); }

    // body_labels.cpp: names of places
    bool labelled();
    bool target_list(std::string_view name, Location at, bool calls);
    bool prototype(std::string_view name, Location at);
    void resolve(const Pending& pending, SymbolRef symbol);
    void resolve_scope();
    void report_unresolved();
    SymbolRef call_target(std::string_view name);

    // instruction_parser.cpp
    bool instruction();
    bool guard(Instruction& out);
    bool opcode(Instruction& out);
    bool operands(Instruction& out);
    bool call(Instruction& out);
    bool call_list(uint32_t& first, uint32_t& count);
    bool call_via(Call& call);
    void elements_in_memory(const Instruction& instruction);
    bool needs_label(const Instruction& instruction, size_t operand) const;

    // operand_parser.cpp
    bool operand(Operand& out);
    bool simple_operand(Operand& out);
    bool named(Operand& out);
    bool special(std::string_view name, Operand& out);
    bool component(Operand& out);
    bool negated(Operand& out);
    bool immediate(Operand& out);
    bool label_operand(Operand& out);
    bool address(Operand& out);
    bool address_base(Operand& out);
    bool offset(Operand& out);
    bool indexed(Operand& out);
    bool elements(Operand& out, char closing, size_t mark);
    void gather(Operand& out, size_t mark);
    RegId find_register(std::string_view name) const;
    SymbolRef find_symbol(std::string_view name) const;

    const Function& m_function;
    Body& m_body;
    ScopedNames m_names;               ///< registers, variables, parameters
    ScopedNames m_ranges;              ///< prefixes of register ranges
    bool m_single_with_digit = false;  ///< a register that is not of a range, whose name ends in a digit, was declared
    uint32_t m_sequence = 0;
    std::vector<Operand> m_scratch;  ///< elements of operands that are not complete yet
    std::vector<Pending> m_pending;
    struct Place {
        std::string_view name;
        SymbolRef symbol;
    };
    std::vector<Place> m_places;
    struct Open {
        uint32_t scope = 0;
        size_t pending = 0, places = 0;  ///< where those of this scope begin
    };
    std::vector<Open> m_open;
    uint32_t m_loc = UINT32_MAX;
};

}  // namespace warpline::softgpu::ptx
