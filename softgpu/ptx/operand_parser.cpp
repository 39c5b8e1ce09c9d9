// Reads registers, constants, addresses, vectors and lists.
#include <charconv>

#include "softgpu/ptx/body_parser.h"

namespace warpline::softgpu::ptx {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// .hXY and .bWXYZ of the packed video instructions.
bool packed_selector(std::string_view word, Operand& out) {
    bool halves = word.size() == 3 && word[0] == 'h', bytes = word.size() == 5 && word[0] == 'b';
    if (!halves && !bytes) return false;
    out.selector = 0;
    for (char c : word.substr(1)) {
        if (c < '0' || c > (halves ? '3' : '7')) return false;
        out.selector = static_cast<uint16_t>(out.selector << 4 | (c - '0'));
    }
    out.component = halves ? Operand::Component::halves : Operand::Component::bytes;
    return true;
}

Operand::Component component_from(std::string_view word) {
    using Component = Operand::Component;
    if (word.size() == 1) {
        switch (word[0]) {
            case 'x':
            case 'r': return Component::x;
            case 'y':
            case 'g': return Component::y;
            case 'z':
            case 'b': return Component::z;
            case 'w':
            case 'a': return Component::w;
            default: return Component::none;
        }
    }
    if (word.size() != 2) return Component::none;
    if (word[0] == 'b' && word[1] >= '0' && word[1] <= '3') return Component(uint8_t(Component::b0) + (word[1] - '0'));
    if (word[0] == 'h' && word[1] >= '0' && word[1] <= '1') return Component(uint8_t(Component::h0) + (word[1] - '0'));
    return Component::none;
}

}  // namespace

// Registers of ranges are found by the text before their number, so that %r<100000> costs one entry.
RegId BodyParser::find_register(std::string_view name) const {
    size_t end = name.size();
    while (end > 0 && is_digit(name[end - 1])) end--;
    const Binding* range = nullptr;
    uint32_t number = 0;
    if (end > 0 && end < name.size() && name.size() - end <= 9) {
        range = m_ranges.find(name.substr(0, end));
        std::from_chars(name.data() + end, name.data() + name.size(), number);
        if (range && number >= range->count) range = nullptr;
        if (range && !m_single_with_digit) return range->index + number;
    }
    const Binding* single = m_names.find(name);
    if (single && single->kind != Binding::Kind::reg) single = nullptr;
    if (range && (!single || range->sequence > single->sequence)) return range->index + number;
    return single ? single->index : k_no_reg;
}

SymbolRef BodyParser::find_symbol(std::string_view name) const {
    if (const Binding* binding = m_names.find(name)) {
        switch (binding->kind) {
            case Binding::Kind::local: return {SymbolRef::Kind::local, binding->index};
            case Binding::Kind::param: return {SymbolRef::Kind::param, binding->index};
            case Binding::Kind::return_param: return {SymbolRef::Kind::return_param, binding->index};
            default: return {};
        }
    }
    return module().find(name, unit());
}

bool BodyParser::operand(Operand& out) {
    if (!simple_operand(out)) return false;
    if (!is('|')) return true;
    // d|p: two results.
    advance();
    Operand first = out, second;
    size_t mark = m_scratch.size();
    if (!simple_operand(second)) return false;
    m_scratch.push_back(first);
    m_scratch.push_back(second);
    out = {};
    out.kind = Operand::Kind::pair;
    gather(out, mark);
    return true;
}

bool BodyParser::simple_operand(Operand& out) {
    if (is_identifier()) return named(out);
    if (is('[')) return address(out);
    if (is('{')) {
        if (!enter()) return false;
        advance();
        out.kind = Operand::Kind::vector;
        bool sound = elements(out, '}', m_scratch.size());
        leave();
        return sound;
    }
    if (is('!') || is('-')) return negated(out);
    return immediate(out);
}

// !p, or -r of the video instructions; anything else with such a sign is a constant.
bool BodyParser::negated(Operand& out) {
    Lexer ahead = lexer();
    Token next = ahead.next();
    bool constant = next.kind != TokenKind::identifier || next.text == "WARP_SZ";
    if (constant) return immediate(out);
    bool predicate = is('!');
    advance();
    Location at = token().at();
    if (!named(out)) return false;
    if (out.kind != Operand::Kind::reg) return error(DiagnosticKind::type, at, "only a register can be negated");
    if (predicate != (m_body.reg_types[out.reg] == Type::pred))
        return error(DiagnosticKind::type, at, predicate ? "'!' is for predicates" : "'-' is not for predicates");
    out.negated = true;
    return true;
}

bool BodyParser::immediate(Operand& out) {
    Constant value;
    if (!constant(value)) return false;
    out.bits = value.bits;
    switch (value.kind) {
        case Constant::Kind::u64: out.is_unsigned = true; [[fallthrough]];
        case Constant::Kind::s64: out.kind = Operand::Kind::integer; break;
        case Constant::Kind::f32: out.kind = Operand::Kind::f32; break;
        case Constant::Kind::f64: out.kind = Operand::Kind::f64; break;
    }
    return true;
}

bool BodyParser::named(Operand& out) {
    std::string_view name = token().text;
    if (name == "_") {
        out.kind = Operand::Kind::sink;
        advance();
        return true;
    }
    if (name == "WARP_SZ") return immediate(out);
    out.reg = find_register(name);
    if (out.reg != k_no_reg) {
        out.kind = Operand::Kind::reg;
        advance();
        return token().kind != TokenKind::dotted || component(out);
    }
    if (name[0] == '%' && special(name.substr(1), out)) {
        advance();
        return token().kind != TokenKind::dotted || component(out);
    }
    out.symbol = find_symbol(name);
    if (!out.symbol) return error(DiagnosticKind::symbol, token().at(), "unknown symbol '" + std::string(name) + "'");
    advance();
    out.kind = Operand::Kind::symbol;
    if (is('[')) return indexed(out);
    return offset(out);
}

// %envreg<n>, %pm<n>, %pm<n>_64 and %reserved_smem_offset_<n> carry a number.
bool BodyParser::special(std::string_view name, Operand& out) {
    out.special = special_reg_from(name);
    out.kind = Operand::Kind::special;
    if (out.special != SpecialReg::count) return out.special != SpecialReg::envreg && out.special != SpecialReg::pm;
    bool wide = name.ends_with("_64");
    if (wide) name.remove_suffix(3);
    size_t end = name.size();
    while (end > 0 && is_digit(name[end - 1])) end--;
    if (end == name.size() || name.size() - end > 2) return false;
    std::from_chars(name.data() + end, name.data() + name.size(), out.special_number);
    std::string_view base = name.substr(0, end);
    if (base == "envreg" && !wide && out.special_number < 32)
        out.special = SpecialReg::envreg;
    else if (base == "pm" && out.special_number < 8)
        out.special = wide ? SpecialReg::pm64 : SpecialReg::pm;
    else if (base == "reserved_smem_offset_" && !wide && out.special_number < 2)
        out.special = SpecialReg::reserved_smem_offset;
    else
        return false;
    return true;
}

bool BodyParser::component(Operand& out) {
    std::string_view word = token().text;
    out.component = component_from(word);
    bool element = out.component >= Operand::Component::x && out.component <= Operand::Component::w;
    if (out.component == Operand::Component::none && !packed_selector(word, out))
        return error("unknown component '." + std::string(word) + "'");
    if (out.kind == Operand::Kind::special && !element) return error("unknown component '." + std::string(word) + "'");
    if (out.kind == Operand::Kind::reg && element) {
        unsigned index = unsigned(out.component) - unsigned(Operand::Component::x);
        if (index >= m_body.reg_vector[out.reg])
            return error(DiagnosticKind::type, token().at(), "the register is not such a vector");
    }
    advance();
    return true;
}

// + constant, if there is one.
bool BodyParser::offset(Operand& out) {
    out.has_offset = accept('+');
    return !out.has_offset || constant_integer(out.bits);
}

// symbol[n], symbol[reg], symbol[reg + n]: elements of an array, counted in elements.
bool BodyParser::indexed(Operand& out) {
    advance();
    uint64_t element = 0;
    SymbolRef::Kind kind = out.symbol.kind;
    if (kind == SymbolRef::Kind::variable)
        element = uint64_t{bytes_of(module().variables[out.symbol.index].type)} * module().variables[out.symbol.index].vector;
    else if (kind == SymbolRef::Kind::local)
        element = uint64_t{bytes_of(m_body.variables[out.symbol.index].type)} * m_body.variables[out.symbol.index].vector;
    else
        return error(DiagnosticKind::type, token().at(), "only a variable has elements");
    if (is_identifier() && token().text != "WARP_SZ") {
        out.reg = find_register(token().text);
        if (out.reg == k_no_reg) return unexpected("a register");
        out.kind = Operand::Kind::indexed;
        advance();
        if (!offset(out)) return false;
    } else if (!constant_integer(out.bits)) {
        return false;
    }
    out.count = static_cast<uint32_t>(element);
    out.bits *= element;
    return expect(']');
}

bool BodyParser::address_base(Operand& out) {
    out.kind = Operand::Kind::address;
    if (!is_identifier() || token().text == "WARP_SZ") return constant_integer(out.bits);
    std::string_view name = token().text;
    out.reg = find_register(name);
    if (out.reg == k_no_reg) out.symbol = find_symbol(name);
    if (out.reg == k_no_reg && !out.symbol)
        return error(DiagnosticKind::symbol, token().at(), "unknown symbol '" + std::string(name) + "'");
    advance();
    if (out.reg != k_no_reg && token().kind == TokenKind::dotted && !component(out)) return false;
    return offset(out);
}

// [base], [base + n], or a list: [texture, sampler, {x, y}]
bool BodyParser::address(Operand& out) {
    advance();
    if (!address_base(out)) return false;
    if (accept(']')) return true;
    if (!is(',')) return unexpected("']'");
    size_t mark = m_scratch.size();
    m_scratch.push_back(out);
    advance();
    if (!enter()) return false;
    out = {};
    out.kind = Operand::Kind::list;
    bool sound = elements(out, ']', mark);
    leave();
    return sound;
}

// Operands up to the closing bracket; m_scratch holds those of this list from `mark` on.
bool BodyParser::elements(Operand& out, char closing, size_t mark) {
    do {
        if (m_scratch.size() - mark >= Limits::k_elements)
            return error(DiagnosticKind::limit, token().at(), "too many elements");
        Operand element;
        if (!operand(element)) return false;
        m_scratch.push_back(element);
    } while (accept(','));
    if (!expect(closing)) return false;
    gather(out, mark);
    return true;
}

// Moves what was collected to the body's operands, where it lies in a row.
void BodyParser::gather(Operand& out, size_t mark) {
    out.first = static_cast<uint32_t>(m_body.operands.size());
    out.count = static_cast<uint32_t>(m_scratch.size() - mark);
    m_body.operands.insert(m_body.operands.end(), m_scratch.begin() + static_cast<ptrdiff_t>(mark), m_scratch.end());
    m_scratch.resize(mark);
}

}  // namespace warpline::softgpu::ptx
