// Reads guards, opcodes with modifiers, and operands in a row.
#include "softgpu/ptx/body_parser.h"

namespace warpline::softgpu::ptx {

// [@[!]p] opcode[.modifier]… [operand, …] ;
bool BodyParser::instruction() {
    Instruction out;
    out.line = token().line;
    out.column = token().column;
    out.loc = m_loc;
    if (is('@') && !guard(out)) return false;
    if (!opcode(out)) return false;
    bool sound = out.opcode == Opcode::call ? call(out) : operands(out);
    if (!sound || !expect(';')) return false;
    item(BodyItem::Kind::instruction, m_body.instructions.size());
    m_body.instructions.push_back(out);
    return true;
}

bool BodyParser::guard(Instruction& out) {
    advance();
    out.guard_negated = accept('!');
    Location at = token().at();
    std::string_view name;
    if (!expect_identifier(name)) return false;
    out.guard = find_register(name);
    if (out.guard == k_no_reg) return error(DiagnosticKind::symbol, at, "unknown symbol '" + std::string(name) + "'");
    if (m_body.reg_types[out.guard] != Type::pred)
        return error(DiagnosticKind::type, at, "guard '" + std::string(name) + "' is not a predicate");
    return true;
}

bool BodyParser::opcode(Instruction& out) {
    if (!is_identifier()) return unexpected("an instruction");
    out.opcode = opcode_from(token().text);
    if (out.opcode == Opcode::count)
        return error(DiagnosticKind::syntax, token().at(),
                     "not a name of any known instruction: '" + std::string(token().text) + "'");
    advance();
    size_t first = m_body.mods.size();
    out.first_mod = static_cast<uint32_t>(first);
    while (token().kind == TokenKind::dotted) {
        Mod mod = mod_from(token().text);
        if (mod == Mod::count)
            return error(DiagnosticKind::unsupported, token().at(), "unknown modifier '." + std::string(token().text) + "'");
        if (is_type(mod)) {
            if (out.type_count == out.types.size()) return error("too many types");
            out.types[out.type_count++] = to_type(mod);
        }
        m_body.mods.push_back(mod);
        advance();
    }
    size_t count = m_body.mods.size() - first;
    if (count > UINT8_MAX) return error(DiagnosticKind::limit, token().at(), "too many modifiers");
    out.mod_count = static_cast<uint8_t>(count);
    return true;
}

bool BodyParser::needs_label(const Instruction& instruction, size_t operand) const {
    if (instruction.opcode == Opcode::bra) return operand == 0;
    return instruction.opcode == Opcode::brx && operand == 1;
}

bool BodyParser::operands(Instruction& out) {
    size_t mark = m_scratch.size();
    size_t pending = m_pending.size();
    if (!is(';')) {
        do {
            if (m_scratch.size() - mark >= Limits::k_operands)
                return error(DiagnosticKind::limit, token().at(), "too many operands");
            Operand parsed;
            if (needs_label(out, m_scratch.size() - mark) ? !label_operand(parsed) : !operand(parsed)) return false;
            m_scratch.push_back(parsed);
        } while (accept(','));
    }
    out.operand_count = static_cast<uint8_t>(m_scratch.size() - mark);
    Operand all;
    gather(all, mark);
    out.first_operand = all.first;
    elements_in_memory(out);
    for (size_t i = pending; i < m_pending.size(); i++) m_pending[i].index += all.first - static_cast<uint32_t>(mark);
    return true;
}

bool BodyParser::label_operand(Operand& out) {
    out.kind = Operand::Kind::label;
    Pending pending;
    pending.where = Pending::Where::operand;
    pending.index = static_cast<uint32_t>(m_scratch.size());
    pending.at = token().at();
    if (!expect_identifier(pending.name)) return false;
    m_pending.push_back(pending);
    return true;
}

// An element of an array, a[2], is its value where memory is accessed, and its address elsewhere (mov).
void BodyParser::elements_in_memory(const Instruction& instruction) {
    switch (instruction.opcode) {
        case Opcode::ld:
        case Opcode::ldu:
        case Opcode::st:
        case Opcode::atom:
        case Opcode::red: break;
        default: return;
    }
    for (size_t i = 0; i < instruction.operand_count; i++) {
        Operand& operand = m_body.operands[instruction.first_operand + i];
        if (operand.kind == Operand::Kind::symbol && operand.count != 0) operand.kind = Operand::Kind::address;
    }
}

// ( a, b, … ): operands of the body, in a row.
bool BodyParser::call_list(uint32_t& first, uint32_t& count) {
    size_t mark = m_scratch.size();
    if (!expect('(')) return false;
    if (!is(')')) {
        do {
            if (m_scratch.size() - mark >= Limits::k_elements)
                return error(DiagnosticKind::limit, token().at(), "too many arguments");
            Operand parsed;
            if (!operand(parsed)) return false;
            m_scratch.push_back(parsed);
        } while (accept(','));
    }
    count = static_cast<uint32_t>(m_scratch.size() - mark);
    Operand all;
    gather(all, mark);
    first = all.first;
    return expect(')');
}

// call[.uni] [(rets),] target [, (args)] [, prototype or targets];
bool BodyParser::call(Instruction& out) {
    Call call;
    if (is('(') && (!call_list(call.first_ret, call.ret_count) || !expect(','))) return false;
    Operand target;
    Location at = token().at();
    if (!operand(target)) return false;
    bool direct = target.kind == Operand::Kind::symbol && target.symbol.kind == SymbolRef::Kind::function;
    if (!direct && target.kind != Operand::Kind::reg)
        return error(DiagnosticKind::type, at, "a call needs a function or a register");
    call.target = static_cast<uint32_t>(m_body.operands.size());
    m_body.operands.push_back(target);
    out.call = static_cast<uint32_t>(m_body.calls.size());
    bool via = false;
    if (accept(',')) {
        bool arguments = is('(');
        if (arguments && !call_list(call.first_arg, call.arg_count)) return false;
        via = !arguments || accept(',');
        if (via && !call_via(call)) return false;
    }
    if (!direct && !via) return error(DiagnosticKind::symbol, at, "an indirect call needs a prototype or a list of targets");
    out.first_operand = call.target;
    m_body.calls.push_back(call);
    return true;
}

bool BodyParser::call_via(Call& call) {
    Pending pending;
    pending.where = Pending::Where::via;
    pending.index = static_cast<uint32_t>(m_body.calls.size());
    pending.at = token().at();
    if (!expect_identifier(pending.name)) return false;
    SymbolRef table = find_symbol(pending.name);
    if (table.kind == SymbolRef::Kind::variable)
        call.via = table;
    else
        m_pending.push_back(pending);
    return true;
}

}  // namespace warpline::softgpu::ptx
