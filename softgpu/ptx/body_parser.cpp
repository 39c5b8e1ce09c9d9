// Reads the blocks and statements of a body.
#include "softgpu/ptx/body_parser.h"

namespace warpline::softgpu::ptx {

bool BodyParser::run() {
    reserve();
    m_open.push_back({0, 0, 0});
    m_body.scopes.emplace_back();
    declare_parameters();
    m_names.open();  // a body may hide its parameters
    m_ranges.open();
    if (!expect('{') || !block()) return false;
    m_body.scopes[0].end_instruction = static_cast<uint32_t>(m_body.instructions.size());
    resolve_scope();
    report_unresolved();
    return error_count() == 0;
}

// Typical sizes, measured on nvcc's output: 33 bytes for an instruction, 12 for an operand, 14 for a modifier.
void BodyParser::reserve() {
    size_t size = m_function.body_text.size();
    m_body.instructions.reserve(size / 33);
    m_body.items.reserve(size / 30);
    m_body.operands.reserve(size / 12);
    m_body.mods.reserve(size / 14);
}

void BodyParser::declare_parameters() {
    auto declare = [&](const std::vector<Variable>& list, Binding::Kind kind, std::vector<RegId>& regs) {
        for (uint32_t i = 0; i < list.size(); i++) {
            const Variable& parameter = list[i];
            RegId reg = k_no_reg;
            Binding binding{kind, i};
            if (parameter.space == Space::reg) {
                reg = static_cast<RegId>(m_body.reg_types.size());
                m_body.reg_types.push_back(parameter.type);
                m_body.reg_vector.push_back(parameter.vector);
                binding = {Binding::Kind::reg, reg};
                m_single_with_digit = true;
            }
            regs.push_back(reg);
            binding.sequence = m_sequence++;
            if (parameter.name != "_" && !m_names.declare(parameter.name, binding))
                error(DiagnosticKind::symbol, parameter.at, "duplicate parameter '" + std::string(parameter.name) + "'");
        }
    };
    declare(m_function.returns, Binding::Kind::return_param, m_body.return_regs);
    declare(m_function.params, Binding::Kind::param, m_body.param_regs);
}

// Statements up to the closing brace of the body; inner blocks are on m_open and not on the machine's stack.
bool BodyParser::block() {
    while (true) {
        if (is('}')) {
            advance();
            if (m_open.size() == 1) break;
            close_scope();
            continue;
        }
        if (at_end()) return unexpected("'}'");
        size_t pending = m_pending.size();
        bool sound = is('{') ? open_scope() : statement();
        if (!sound) {
            m_scratch.clear();
            m_pending.resize(pending);  // they name parts of a statement that does not exist
            resynchronise();
        }
    }
    return at_end() || unexpected("nothing behind the body");
}

bool BodyParser::open_scope() {
    advance();
    if (m_open.size() >= Limits::k_nesting) return error(DiagnosticKind::limit, token().at(), "nested too deeply");
    auto scope = static_cast<uint32_t>(m_body.scopes.size());
    auto next = static_cast<uint32_t>(m_body.instructions.size());
    m_body.scopes.push_back({m_open.back().scope, next, next});
    m_open.push_back({scope, m_pending.size(), m_places.size()});
    m_names.open();
    m_ranges.open();
    item(BodyItem::Kind::open, scope);
    return true;
}

void BodyParser::close_scope() {
    uint32_t scope = m_open.back().scope;
    resolve_scope();
    m_body.scopes[scope].end_instruction = static_cast<uint32_t>(m_body.instructions.size());
    m_open.pop_back();
    m_names.close();
    m_ranges.close();
    item(BodyItem::Kind::close, scope);
}

bool BodyParser::statement() {
    if (is_identifier()) return lexer().next_is(':') ? labelled() : instruction();
    if (is('@')) return instruction();
    if (token().kind == TokenKind::dotted) return directive();
    return unexpected("a statement");
}

bool BodyParser::directive() {
    std::string_view word = token().text;
    if (word == "reg") return register_declaration();
    if (word == "loc") return loc();
    if (word == "pragma") return pragma();
    if (space_from(word) != Space::none) return local_variables();
    return unexpected("a statement");
}

bool BodyParser::register_declaration() {
    advance();
    Shape common;
    common.space = Space::reg;
    if (!shape(common, false)) return false;
    if (common.type == Type::texref || common.type == Type::samplerref || common.type == Type::surfref)
        return error(DiagnosticKind::type, token().at(), "a reference cannot be a register");
    do {
        if (!one_register(common)) return false;
    } while (accept(','));
    return expect(';');
}

bool BodyParser::one_register(const Shape& shape) {
    RegisterDecl declared;
    Location at = token().at();
    if (!expect_identifier(declared.name)) return false;
    if (accept('<')) {
        declared.is_range = true;
        if (!expect_u32(declared.count) || !expect('>')) return false;
    }
    declared.first = m_body.register_count();
    declared.type = shape.type;
    declared.vector = shape.vector;
    declared.alignment = shape.declared_alignment ? shape.alignment : 0;
    if (declared.count > Limits::k_registers - m_body.reg_types.size())
        return error(DiagnosticKind::limit, at, "too many registers");
    Binding binding{declared.is_range ? Binding::Kind::range : Binding::Kind::reg, declared.first, declared.count,
                    m_sequence++};
    ScopedNames& names = declared.is_range ? m_ranges : m_names;
    if (!names.declare(declared.name, binding))
        return error(DiagnosticKind::symbol, at, "duplicate definition of register '" + std::string(declared.name) + "'");
    char last = declared.name.back();
    if (!declared.is_range && last >= '0' && last <= '9') m_single_with_digit = true;
    m_body.reg_types.resize(m_body.reg_types.size() + declared.count, declared.type);
    m_body.reg_vector.resize(m_body.reg_vector.size() + declared.count, declared.vector);
    item(BodyItem::Kind::registers, m_body.registers.size());
    m_body.registers.push_back(declared);
    return true;
}

bool BodyParser::local_variables() {
    size_t first = m_body.variables.size();
    if (!variable_declaration(Linkage::internal, m_body.variables)) return false;
    for (size_t i = first; i < m_body.variables.size(); i++) {
        Variable& variable = m_body.variables[i];
        Binding binding{Binding::Kind::local, static_cast<uint32_t>(i), 1, m_sequence++};
        if (!m_names.declare(variable.name, binding))
            return error(DiagnosticKind::symbol, variable.at,
                         "duplicate definition of variable '" + std::string(variable.name) + "'");
        for (InitAddress& address : variable.init_addresses) {
            address.symbol = find_symbol(address.name);
            if (!address.symbol)
                return error(DiagnosticKind::symbol, address.at,
                             "invalid initial value symbol '" + std::string(address.name) + "'");
        }
        item(BodyItem::Kind::variable, i);
    }
    return true;
}

// .loc file line column[, function_name label[+offset], inlined_at file line column]: no semicolon ends it.
bool BodyParser::loc() {
    advance();
    Loc loc;
    if (!expect_u32(loc.file) || !expect_u32(loc.line)) return false;
    if (token().kind != TokenKind::integer) return unexpected("a column");
    const char* end = lexer().position();
    if (!expect_u32(loc.column)) return false;
    if (is(',')) {
        const char* begin = end;
        if (!loc_tail(loc)) return false;
        loc.tail = {begin, static_cast<size_t>(loc.tail.data() - begin)};
    }
    m_loc = static_cast<uint32_t>(m_body.locs.size());
    item(BodyItem::Kind::loc, m_loc);
    m_body.locs.push_back(loc);
    return true;
}

// Leaves the end of the tail in loc.tail.
bool BodyParser::loc_tail(Loc& loc) {
    const char* end = nullptr;
    auto number = [&] {
        end = lexer().position();
        uint32_t ignored = 0;
        return expect_u32(ignored);
    };
    while (accept(',')) {
        std::string_view word, label;
        if (!expect_identifier(word)) return false;
        if (word == "function_name") {
            end = lexer().position();
            if (!expect_identifier(label)) return false;
            if (accept('+') && !number()) return false;
        } else if (word == "inlined_at") {
            if (!number() || !number() || !number()) return false;
        } else {
            return unexpected("'function_name' or 'inlined_at'");
        }
    }
    loc.tail = {end, 0};
    return true;
}

bool BodyParser::pragma() {
    do {
        advance();
        std::string_view text;
        if (!expect_string(text)) return false;
        item(BodyItem::Kind::pragma, m_body.pragmas.size());
        m_body.pragmas.push_back(text);
    } while (is(','));
    return expect(';');
}

}  // namespace warpline::softgpu::ptx
