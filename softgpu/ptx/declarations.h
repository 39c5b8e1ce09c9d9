// Parsing declarations.
#pragma once

#include <vector>

#include "softgpu/ptx/reader.h"

namespace warpline::softgpu::ptx {

/// Reads declarations of variables and parameters, which stand at module level and in bodies alike.
class DeclarationReader : public Reader {
public:
    DeclarationReader(std::string_view text, Location start, Diagnostics& diagnostics, const Module& module, uint32_t unit)
        : Reader(text, start, diagnostics, unit), m_module(module) {}

    /// `.space [.attribute(…)] [.align n] [.v4] .type name[dims] [= init], … ;`, from the space on.
    bool variable_declaration(Linkage linkage, std::vector<Variable>& out);
    /// `(.param … name, …)`, from the parenthesis on.
    bool parameter_list(std::vector<Variable>& out);
    /// `.attribute(…)`, from the word on: the texts between commas.
    bool attribute_list(std::vector<std::string_view>& out);

protected:
    /// What `.reg`, variables and parameters have in common: alignment, vector width, type, in any order before the name.
    struct Shape {
        Space space = Space::none;
        Type type = Type::none;
        uint8_t vector = 1;
        uint32_t alignment = 0;
        bool declared_alignment = false;
        bool managed = false;
        std::string_view unified;
        bool is_ptr = false;
        Space ptr_space = Space::none;
        uint32_t ptr_alignment = 0;
    };
    bool shape(Shape& shape, bool parameter);
    const Module& module() const { return m_module; }

private:
    bool shape_word(Shape& shape, bool parameter);
    bool alignment(uint32_t& value);
    bool pointer(Shape& shape);
    bool dimensions(Variable& variable);
    bool variable(const Shape& shape, Linkage linkage, Variable& out);
    bool parameter(Variable& out);
    bool finish_size(Variable& variable);
    bool initialiser(Variable& variable);
    bool opaque_initialiser(Variable& variable);
    bool init_level(Variable& variable, size_t level, uint64_t& count);
    bool init_element(Variable& variable, uint64_t offset);
    bool init_address(Variable& variable, uint64_t offset, uint8_t shift, bool masked);
    bool init_masked(Variable& variable, uint64_t offset);
    bool init_number(Variable& variable, uint64_t offset);
    bool reserve_init(Variable& variable, uint64_t offset, uint64_t size);
    void put(Variable& variable, uint64_t offset, uint64_t size, uint64_t bits);

    const Module& m_module;
    uint64_t m_init_bytes = 0;   ///< of all initialisers so far
    uint64_t m_init_offset = 0;  ///< in the one being read
};

/// The state space that a directive's word names; none for other words.
Space space_from(std::string_view word);

/// Types that registers and variables can have.
bool is_fundamental(Type type);

}  // namespace warpline::softgpu::ptx
