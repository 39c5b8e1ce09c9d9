// Decodes operands: registers, constants, addresses, special registers.
#include <algorithm>
#include <bit>

#include "softgpu/exec/control.h"
#include "softgpu/exec/decode.h"

namespace warpline::softgpu::exec {

using ptx::Operand;
using ptx::SymbolRef;
using Kind = ptx::Operand::Kind;

std::string_view BodyDecoder::opcode() const { return ptx::to_string(m_instruction->opcode); }

bool BodyDecoder::has(std::string_view modifier) const {
    return std::find(m_modifiers.begin(), m_modifiers.end(), modifier) != m_modifiers.end();
}

uint32_t BodyDecoder::operand_count() const { return m_instruction->operand_count; }

const Operand& BodyDecoder::operand_at(uint32_t operand, uint32_t element) const {
    static const Operand nothing;
    auto operands = m_ptx.operands_of(*m_instruction);
    if (operand >= operands.size()) return nothing;
    const Operand& found = operands[operand];
    if (found.kind == Kind::vector) return element < found.count ? m_ptx.elements_of(found)[element] : nothing;
    if (found.kind != Kind::pair && found.kind != Kind::list) return element == 0 ? found : nothing;
    // [texture, {x, y}] and {r, g, b, a}|p: the elements of a vector inside count like the others.
    for (const Operand& part : m_ptx.elements_of(found)) {
        uint32_t parts = part.kind == Kind::vector ? part.count : 1;
        if (element < parts) return part.kind == Kind::vector ? m_ptx.elements_of(part)[element] : part;
        element -= parts;
    }
    return nothing;
}

uint32_t BodyDecoder::element_count(uint32_t operand) const {
    auto operands = m_ptx.operands_of(*m_instruction);
    if (operand >= operands.size()) return 0;
    const Operand& found = operands[operand];
    if (found.kind == Kind::vector) return found.count;
    if (found.kind != Kind::pair && found.kind != Kind::list) return 1;
    uint32_t count = 0;
    for (const Operand& part : m_ptx.elements_of(found)) count += part.kind == Kind::vector ? part.count : 1;
    return count;
}

bool BodyDecoder::is_memory(uint32_t operand) const {
    auto operands = m_ptx.operands_of(*m_instruction);
    if (operand >= operands.size()) return false;
    Kind kind = operands[operand].kind;
    return kind == Kind::address || kind == Kind::indexed || kind == Kind::list;
}

bool BodyDecoder::is_sink(uint32_t operand, uint32_t element) const { return operand_at(operand, element).kind == Kind::sink; }

bool BodyDecoder::is_predicate(uint32_t operand, uint32_t element) const {
    const Operand& found = operand_at(operand, element);
    return found.kind == Kind::reg && m_ptx.reg_types[found.reg] == ptx::Type::pred;
}

uint8_t BodyDecoder::register_width(uint32_t operand, uint32_t element) const {
    const Operand& found = operand_at(operand, element);
    return found.kind == Kind::reg ? uint8_t(m_lane_bytes[found.reg]) : 0;
}

bool BodyDecoder::constant(uint32_t operand, int64_t& value, uint32_t element) const {
    const Operand& found = operand_at(operand, element);
    if (found.kind != Kind::integer) return false;
    value = int64_t(found.bits);
    return true;
}

std::string_view BodyDecoder::symbol(uint32_t operand, uint32_t element) const {
    const SymbolRef& ref = operand_at(operand, element).symbol;
    switch (ref.kind) {
        case SymbolRef::Kind::variable: return m_input.module.variables[ref.index].name;
        case SymbolRef::Kind::function: return m_input.module.functions[ref.index].name;
        case SymbolRef::Kind::local: return m_ptx.variables[ref.index].name;
        case SymbolRef::Kind::param: return m_input.function.params[ref.index].name;
        case SymbolRef::Kind::return_param: return m_input.function.returns[ref.index].name;
        case SymbolRef::Kind::label: return m_ptx.labels[ref.index].name;
        case SymbolRef::Kind::targets: return m_ptx.targets[ref.index].name;
        case SymbolRef::Kind::prototype: return m_ptx.prototypes[ref.index].name;
        default: return {};
    }
}

/// Notes a use of a register (first pass) and returns its slot (second pass).
int32_t BodyDecoder::touch(ptx::RegId id, bool is_def) {
    id = m_copy_of[id];
    if (m_pass == Pass::analyse) {
        m_uses.push_back({id, m_index, is_def, is_def && m_instruction->guard != ptx::k_no_reg});
        return 0;
    }
    return m_slots.slot_of[id];
}

int32_t BodyDecoder::register_slot(const Operand& operand, uint8_t width, bool is_def) {
    uint32_t bytes = m_lane_bytes[operand.reg];
    if (bytes != width) {
        invalid("operand has a register of another size");
        return 0;
    }
    if (operand.negated) {
        unsupported("a negated register");
        return 0;
    }
    uint32_t component = 0;
    switch (operand.component) {
        case Operand::Component::none:
        case Operand::Component::x: break;
        case Operand::Component::y: component = 1; break;
        case Operand::Component::z: component = 2; break;
        case Operand::Component::w: component = 3; break;
        default: unsupported("a video selector"); return 0;
    }
    if (component >= std::max<uint32_t>(1, m_ptx.reg_vector[operand.reg])) {
        invalid("no such component");
        return 0;
    }
    if (is_def && m_ptx.reg_vector[operand.reg] > 1) touch(operand.reg, false);  // the other components stay
    return touch(operand.reg, is_def) + int32_t(component * bytes * k_warp_size);
}

int32_t BodyDecoder::out(uint32_t operand, uint8_t width, uint32_t element) {
    const Operand& found = operand_at(operand, element);
    if (found.kind == Kind::sink) return scratch(width);
    if (found.kind != Kind::reg) {
        invalid("the destination must be a register");
        return 0;
    }
    return register_slot(found, width, true);
}

int32_t BodyDecoder::in(uint32_t operand, uint8_t width, uint32_t element) {
    const Operand& found = operand_at(operand, element);
    switch (found.kind) {
        case Kind::reg: return register_slot(found, width, false);
        case Kind::special: return special_row(found, width);
        case Kind::integer: return constant_row(found.bits, width);
        case Kind::f32: return constant_row(found.bits, width);  // in 64 bits: the bits extended with zeros, as ptxas does
        case Kind::f64:
            if (width == 8) return constant_row(found.bits, 8);
            if (width == 4) return constant_row(std::bit_cast<uint32_t>(float(std::bit_cast<double>(found.bits))), 4);
            unsupported("this floating-point immediate");
            return 0;
        case Kind::symbol: return symbol_row(found, width);
        default: invalid("an operand of the wrong kind"); return 0;
    }
}

namespace {

isa::Part part_of(const Operand& operand) {
    isa::Part part;
    part.negated = operand.negated;
    auto number = unsigned(operand.component);
    switch (operand.component) {
        case Operand::Component::b0:
        case Operand::Component::b1:
        case Operand::Component::b2:
        case Operand::Component::b3:
            part.kind = isa::Part::Kind::byte;
            part.selector = uint16_t(number - unsigned(Operand::Component::b0));
            break;
        case Operand::Component::h0:
        case Operand::Component::h1:
            part.kind = isa::Part::Kind::half;
            part.selector = uint16_t(number - unsigned(Operand::Component::h0));
            break;
        case Operand::Component::halves:
        case Operand::Component::bytes:
            part.kind = operand.component == Operand::Component::halves ? isa::Part::Kind::halves : isa::Part::Kind::bytes;
            part.selector = operand.selector;
            break;
        default: break;
    }
    return part;
}

}  // namespace

int32_t BodyDecoder::in_part(uint32_t operand, isa::Part& part) {
    const Operand& found = operand_at(operand, 0);
    if (found.kind != Kind::reg) return in(operand, 4, 0);
    part = part_of(found);
    Operand whole = found;
    whole.negated = false;
    whole.component = Operand::Component::none;
    return register_slot(whole, 4, false);
}

int32_t BodyDecoder::out_part(uint32_t operand, isa::Part& part) {
    const Operand& found = operand_at(operand, 0);
    if (found.kind != Kind::reg) return out(operand, 4, 0);
    part = part_of(found);
    Operand whole = found;
    whole.component = Operand::Component::none;
    return register_slot(whole, 4, true);
}

int32_t BodyDecoder::out_pred(uint32_t operand, uint32_t element) {
    const Operand& found = operand_at(operand, element);
    if (found.kind == Kind::sink) return scratch(2);
    if (!is_predicate(operand, element)) {
        invalid("the destination must be a predicate");
        return 0;
    }
    return touch(found.reg, true);
}

int32_t BodyDecoder::in_pred(uint32_t operand, uint32_t element) {
    const Operand& found = operand_at(operand, element);
    if (found.kind == Kind::integer) return constant_pred(found.bits != 0);
    if (found.kind == Kind::special && found.special == ptx::SpecialReg::is_explicit_cluster) return special_row(found, 4);
    if (!is_predicate(operand, element)) {
        invalid("the operand must be a predicate");
        return 0;
    }
    int32_t slot = touch(found.reg, false);
    if (!found.negated) return slot;
    int32_t negated = scratch(2);
    Instr& instr = append(&control::not_predicate, false);
    instr.op[0] = negated;
    instr.op[1] = slot;
    return negated;
}

int32_t BodyDecoder::special_row(const Operand& operand, uint8_t width) {
    uint32_t component = 0;
    if (operand.component == Operand::Component::y) component = 1;
    if (operand.component == Operand::Component::z) component = 2;
    if (operand.component == Operand::Component::w) component = 3;
    Handler read = control::read_special(operand.special, width);
    if (read == nullptr) {
        unsupported(std::string("%") + std::string(ptx::to_string(operand.special)));
        return 0;
    }
    int32_t slot = scratch(width);
    Instr& instr = append(read, false);
    instr.op[0] = slot;
    instr.imm = uint64_t(operand.special) | uint64_t(component) << 8 | uint64_t(operand.special_number) << 16;
    return slot;
}

/// The value of a symbol whose address is the same for all threads and launches of the kernel.
bool BodyDecoder::symbol_value(const Operand& operand, uint64_t& value) {
    const SymbolRef& ref = operand.symbol;
    if (ref.kind == SymbolRef::Kind::function) {
        value = m_input.layout.code_base + ref.index * k_code_stride;
        const bool may_be_called = m_pass == Pass::emit && !m_input.module.functions[ref.index].is_entry;
        m_body.calls_indirectly = m_body.calls_indirectly || may_be_called;
    } else if (ref.kind == SymbolRef::Kind::variable) {
        const ptx::Variable& variable = m_input.module.variables[ref.index];
        value = variable.space == ptx::Space::shared ? m_input.shared.offset_of(variable)
                                                     : m_input.layout.variable_address[ref.index];
        if (value == 0) return false;
    } else if (ref.kind == SymbolRef::Kind::local && m_ptx.variables[ref.index].space == ptx::Space::shared) {
        value = m_input.shared.offset_of(m_ptx.variables[ref.index]);
    } else {
        return false;
    }
    value += operand.bits;
    return true;
}

int32_t BodyDecoder::symbol_row(const Operand& operand, uint8_t width) {
    uint64_t value = 0;
    const SymbolRef& ref = operand.symbol;
    if (symbol_value(operand, value)) return constant_row(value, width);
    if (ref.kind == SymbolRef::Kind::local && m_ptx.variables[ref.index].space == ptx::Space::local) {
        int32_t row = local_address_row(m_local_offset[ref.index] + uint32_t(operand.bits), false);
        if (width == 8) return row;
        int32_t narrow = scratch(4);
        Instr& instr = append(&control::narrow_address, false);
        instr.op[0] = narrow;
        instr.op[1] = row;
        return narrow;
    }
    if (ref.kind == SymbolRef::Kind::param && m_input.function.is_entry && width == 8) {
        int32_t row = scratch(8);
        Instr& instr = append(&control::param_address, false);
        instr.op[0] = row;
        instr.imm = m_param_offset[ref.index] + operand.bits;
        return row;
    }
    unsupported("the address of this symbol");
    return 0;
}

int32_t BodyDecoder::local_address_row(uint32_t offset, bool generic) {
    int32_t row = scratch(8);
    Instr& instr = append(generic ? &control::local_generic_address : &control::local_address, false);
    instr.op[0] = row;
    instr.imm = offset;
    return row;
}

ptx::RegId BodyDecoder::param_register(const SymbolRef& symbol) const {
    switch (symbol.kind) {
        case SymbolRef::Kind::local: return m_first_body_param + symbol.index;
        case SymbolRef::Kind::param: return m_first_param + symbol.index;
        case SymbolRef::Kind::return_param: return m_first_return + symbol.index;
        default: return ptx::k_no_reg;
    }
}

isa::Address BodyDecoder::symbol_address(const Operand& operand, isa::Space space, bool writes) {
    isa::Address out;
    out.space = space;
    out.fixed = true;
    const SymbolRef& ref = operand.symbol;
    bool local_param = ref.kind == SymbolRef::Kind::local && m_ptx.variables[ref.index].space == ptx::Space::param;
    bool any_param = local_param || ref.kind == SymbolRef::Kind::param || ref.kind == SymbolRef::Kind::return_param;
    uint64_t value = 0;
    if (any_param && ref.kind == SymbolRef::Kind::param && m_input.function.is_entry) {
        out.space = isa::Space::param_entry;
        out.displacement = int64_t(m_param_offset[ref.index]) + operand.offset();
        if (out.displacement < 0 || out.displacement > 32764) invalid("an offset outside of the parameters");
    } else if (any_param) {
        ptx::RegId id = param_register(ref);
        out.space = isa::Space::param_call;
        out.slot = touch(id, writes);
        out.lane_bytes = m_lane_bytes[id];
        out.displacement = operand.offset();
        if (out.displacement < 0 || out.displacement >= int64_t(out.lane_bytes)) invalid("an offset outside of the parameter");
    } else if (symbol_value(operand, value)) {
        out.displacement = int64_t(value);
    } else if (ref.kind == SymbolRef::Kind::local && m_ptx.variables[ref.index].space == ptx::Space::local) {
        out.fixed = false;
        out.slot = local_address_row(m_local_offset[ref.index], space == isa::Space::generic);
        out.displacement = operand.offset();
    } else {
        unsupported("the address of this symbol");
    }
    return out;
}

/// symbol[reg + n]: symbol + reg * (bytes of an element) + n.
isa::Address BodyDecoder::indexed_address(const Operand& operand, isa::Space space) {
    isa::Address out;
    out.space = space;
    uint64_t base = 0;
    uint32_t width = m_lane_bytes[operand.reg];
    if (!symbol_value(operand, base) || (width != 4 && width != 8)) {
        unsupported("this indexed address");
        return out;
    }
    int32_t index = touch(operand.reg, false);
    out.slot = scratch(8);
    Instr& instr = append(width == 4 ? &control::index_address<uint32_t> : &control::index_address<uint64_t>, false);
    instr.op[0] = out.slot;
    instr.op[1] = index;
    instr.imm = std::max<uint32_t>(1, operand.count);
    out.displacement = int64_t(base);
    return out;
}

isa::Address BodyDecoder::address(uint32_t operand, isa::Space space, bool writes) {
    isa::Address out;
    out.space = space;
    auto operands = m_ptx.operands_of(*m_instruction);
    if (operand >= operands.size()) {
        invalid("a memory operand is missing");
        return out;
    }
    const Operand* found = &operands[operand];
    if (found->kind == Kind::list) found = &operand_at(operand, 0);
    if (found->kind == Kind::indexed) return indexed_address(*found, space);
    if (found->symbol) return symbol_address(*found, space, writes);
    out.displacement = found->offset();
    if (found->reg == ptx::k_no_reg) {
        out.fixed = true;
        return out;
    }
    out.width = uint8_t(m_lane_bytes[found->reg]);
    if (out.width != 4 && out.width != 8) {
        invalid("an address must have 32 or 64 bits");
        return out;
    }
    out.slot = touch(found->reg, false);
    return out;
}

}  // namespace warpline::softgpu::exec
