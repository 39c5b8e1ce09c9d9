// Variables and headers of functions as PTX text.
#include <algorithm>
#include <cstring>

#include "softgpu/ptx/writer.h"

namespace warpline::softgpu::ptx {

Writer& Writer::hex(uint64_t value, int digits) {
    for (int shift = (digits - 1) * 4; shift >= 0; shift -= 4) m_out += "0123456789ABCDEF"[value >> shift & 15];
    return *this;
}

void Writer::linkage(Linkage linkage) {
    switch (linkage) {
        case Linkage::internal: return;
        case Linkage::visible: text(".visible "); return;
        case Linkage::external: text(".extern "); return;
        case Linkage::weak: text(".weak "); return;
        case Linkage::common: text(".common "); return;
    }
}

void Writer::symbol(SymbolRef ref, const Function* function) {
    switch (ref.kind) {
        case SymbolRef::Kind::none: return;
        case SymbolRef::Kind::variable: text(m_module.variables[ref.index].name); return;
        case SymbolRef::Kind::function: text(m_module.functions[ref.index].name); return;
        case SymbolRef::Kind::local: text(function->body->variables[ref.index].name); return;
        case SymbolRef::Kind::param: text(function->params[ref.index].name); return;
        case SymbolRef::Kind::return_param: text(function->returns[ref.index].name); return;
        case SymbolRef::Kind::label: text(function->body->labels[ref.index].name); return;
        case SymbolRef::Kind::targets: text(function->body->targets[ref.index].name); return;
        case SymbolRef::Kind::prototype: text(function->body->prototypes[ref.index].name); return;
    }
}

// .space .attribute .align .vector .type .ptr
void Writer::shape(const Variable& variable) {
    text(".").text(to_string(variable.space)).text(" ");
    if (variable.managed || !variable.unified.empty()) {
        text(".attribute(").text(variable.managed ? ".managed" : "");
        text(variable.managed && !variable.unified.empty() ? ", " : "").text(variable.unified).text(") ");
    }
    if (variable.declared_alignment) text(".align ").number(variable.alignment).text(" ");
    if (variable.vector > 1) text(".v").number(variable.vector).text(" ");
    text(".").text(to_string(variable.type)).text(" ");
    if (!variable.is_ptr) return;
    text(".ptr ");
    if (variable.ptr_space != Space::none) text(".").text(to_string(variable.ptr_space)).text(" ");
    if (variable.ptr_alignment != 0) text(".align ").number(variable.ptr_alignment).text(" ");
}

void Writer::dimensions(const Variable& variable) {
    for (uint64_t dim : variable.dims) {
        text("[");
        if (dim != 0) number(dim);
        text("]");
    }
}

void Writer::variable(const Variable& variable, const Function* function) {
    linkage(variable.linkage);
    shape(variable);
    text(variable.name);
    dimensions(variable);
    if (variable.has_init) {
        text(" = ");
        m_next_address = 0;
        if (!variable.texture_fields.empty())
            text(variable.texture_fields[0]);
        else
            init_level(variable, function, 0, 0);
    }
    text(";\n");
}

void Writer::parameters(const std::vector<Variable>& list) {
    text("(");
    for (size_t i = 0; i < list.size(); i++) {
        if (i > 0) text(", ");
        shape(list[i]);
        text(list[i].name);
        dimensions(list[i]);
    }
    text(")");
}

// The braces follow the dimensions; what lies behind the end of the given values is left out, as it was in the text.
void Writer::init_level(const Variable& variable, const Function* function, size_t level, uint64_t offset) {
    size_t array_levels = variable.dims.size();
    bool in_vector = level == array_levels && variable.vector > 1;
    if (level >= array_levels && !in_vector) return init_element(variable, function, offset);
    uint64_t stride = bytes_of(variable.type);
    if (!in_vector) stride *= variable.vector;
    for (size_t i = level + 1; i < array_levels; i++) stride *= variable.dims[i];
    uint64_t count = in_vector ? variable.vector : variable.dims[level];
    text("{");
    for (uint64_t i = 0; i < count && (in_vector || offset + i * stride < variable.init.size()); i++) {
        if (i > 0) text(", ");
        init_level(variable, function, level + 1, offset + i * stride);
    }
    text("}");
}

void Writer::init_element(const Variable& variable, const Function* function, uint64_t offset) {
    while (m_next_address < variable.init_addresses.size() && variable.init_addresses[m_next_address].offset < offset)
        m_next_address++;
    if (m_next_address < variable.init_addresses.size() && variable.init_addresses[m_next_address].offset == offset)
        return init_address(variable.init_addresses[m_next_address], function);
    uint32_t size = bytes_of(variable.type);
    uint64_t bits = 0;
    if (offset < variable.init.size())
        std::memcpy(&bits, variable.init.data() + offset, std::min<size_t>({size, 8, variable.init.size() - offset}));
    bool negative = size == 16 && offset + 16 <= variable.init.size() && variable.init[offset + 15] != std::byte{0};
    if (variable.type == Type::f32)
        text("0f").hex(bits, 8);
    else if (variable.type == Type::f64)
        text("0d").hex(bits, 16);
    else if (negative)
        signed_number(static_cast<int64_t>(bits));
    else
        number(bits);
}

void Writer::init_address(const InitAddress& address, const Function* function) {
    bool masked = address.size == 1;
    if (masked) text("0x").hex(uint64_t{0xff} << address.shift, 16).text("(");
    if (address.generic) text("generic(");
    symbol(address.symbol, function);
    if (address.generic) text(")");
    if (address.addend != 0) text("+").signed_number(address.addend);
    if (masked) text(")");
}

}  // namespace warpline::softgpu::ptx
