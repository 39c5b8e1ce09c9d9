// Bodies as PTX text.
#include <algorithm>

#include "softgpu/ptx/writer.h"

namespace warpline::softgpu::ptx {

void Writer::body(const Function& function) {
    text("{\n");
    for (const BodyItem& entry : function.body->items) item(function, entry);
    text("}\n");
}

void Writer::item(const Function& function, const BodyItem& entry) {
    const Body& body = *function.body;
    switch (entry.kind) {
        case BodyItem::Kind::instruction:
            text("\t");
            instruction(function, body.instructions[entry.index]);
            text(";\n");
            break;
        case BodyItem::Kind::label: text(body.labels[entry.index].name).text(":\n"); break;
        case BodyItem::Kind::open: text("\t{\n"); break;
        case BodyItem::Kind::close: text("\t}\n"); break;
        case BodyItem::Kind::registers: registers(body.registers[entry.index]); break;
        case BodyItem::Kind::variable:
            text("\t");
            variable(body.variables[entry.index], &function);
            break;
        case BodyItem::Kind::loc: {
            if (m_module.units.size() > 1) break;  // the file numbers of several texts clash, and a linked module has no .file
            const Loc& loc = body.locs[entry.index];
            text("\t.loc\t").number(loc.file).text(" ").number(loc.line).text(" ").number(loc.column).text(loc.tail).text("\n");
            break;
        }
        case BodyItem::Kind::pragma: text("\t.pragma \"").text(body.pragmas[entry.index]).text("\";\n"); break;
        case BodyItem::Kind::targets: targets(function, body.targets[entry.index]); break;
        case BodyItem::Kind::prototype: prototype(body.prototypes[entry.index]); break;
    }
}

void Writer::registers(const RegisterDecl& declared) {
    text("\t.reg ");
    if (declared.alignment != 0) text(".align ").number(declared.alignment).text(" ");
    if (declared.vector > 1) text(".v").number(declared.vector).text(" ");
    text(".").text(to_string(declared.type)).text(" ").text(declared.name);
    if (declared.is_range) text("<").number(declared.count).text(">");
    text(";\n");
}

void Writer::targets(const Function& function, const Targets& targets) {
    text(targets.name).text(targets.calls ? ": .calltargets" : ": .branchtargets");
    for (size_t i = 0; i < targets.entries.size(); i++) {
        text(i == 0 ? " " : ", ");
        symbol(targets.entries[i], &function);
    }
    text(";\n");
}

void Writer::prototype(const Prototype& prototype) {
    text(prototype.name).text(": .callprototype ");
    if (!prototype.returns.empty()) parameters(prototype.returns);
    text("_ ");
    parameters(prototype.params);
    if (prototype.noreturn) text(" .noreturn");
    if (prototype.abi_preserve != UINT32_MAX) text(" .abi_preserve ").number(prototype.abi_preserve);
    if (prototype.abi_preserve_control != UINT32_MAX) text(" .abi_preserve_control ").number(prototype.abi_preserve_control);
    text(";\n");
}

void Writer::instruction(const Function& function, const Instruction& instruction) {
    const Body& body = *function.body;
    if (instruction.guard != k_no_reg) {
        text(instruction.guard_negated ? "@!" : "@");
        register_name(function, instruction.guard);
        text(" ");
    }
    text(to_string(instruction.opcode));
    for (Mod mod : body.mods_of(instruction)) text(".").text(to_string(mod));
    if (instruction.call != UINT32_MAX) return call(function, body.calls[instruction.call]);
    if (instruction.operand_count > 0) text(" ");
    operand_list(function, body.operands_of(instruction));
}

void Writer::call(const Function& function, const Call& call) {
    const Body& body = *function.body;
    std::span<const Operand> all(body.operands);
    text(" ");
    if (call.ret_count > 0) {
        text("(");
        operand_list(function, all.subspan(call.first_ret, call.ret_count));
        text("), ");
    }
    operand(function, all[call.target]);
    if (call.arg_count > 0 || call.via) {
        text(", (");
        operand_list(function, all.subspan(call.first_arg, call.arg_count));
        text(")");
    }
    if (!call.via) return;
    text(", ");
    symbol(call.via, &function);
}

void Writer::operand_list(const Function& function, std::span<const Operand> list) {
    for (size_t i = 0; i < list.size(); i++) {
        if (i > 0) text(", ");
        operand(function, list[i]);
    }
}

void Writer::operand(const Function& function, const Operand& operand) {
    std::span<const Operand> parts = function.body->elements_of(operand);
    switch (operand.kind) {
        case Operand::Kind::none: return;
        case Operand::Kind::reg:
            if (operand.negated) text(function.body->reg_types[operand.reg] == Type::pred ? "!" : "-");
            register_name(function, operand.reg);
            return component(operand);
        case Operand::Kind::special: return special(operand);
        case Operand::Kind::integer:
            if (operand.is_unsigned)
                number(operand.bits);
            else
                signed_number(operand.offset());
            return;
        case Operand::Kind::f32: text("0f").hex(operand.bits, 8); return;
        case Operand::Kind::f64: text("0d").hex(operand.bits, 16); return;
        case Operand::Kind::symbol:
            symbol(operand.symbol, &function);
            if (operand.bits != 0) text("+").signed_number(operand.offset());
            return;
        case Operand::Kind::label: symbol(operand.symbol, &function); return;
        case Operand::Kind::sink: text("_"); return;
        case Operand::Kind::address:
        case Operand::Kind::indexed: return address(function, operand);
        case Operand::Kind::vector:
            text("{");
            operand_list(function, parts);
            text("}");
            return;
        case Operand::Kind::pair:
            this->operand(function, parts[0]);
            text("|");
            this->operand(function, parts[1]);
            return;
        case Operand::Kind::list:
            // The base is an address without its closing bracket.
            address(function, parts[0]);
            m_out.pop_back();
            text(", ");
            operand_list(function, parts.subspan(1));
            text("]");
            return;
    }
}

void Writer::address(const Function& function, const Operand& operand) {
    if (operand.kind == Operand::Kind::indexed) {
        symbol(operand.symbol, &function);
        text("[");
        register_name(function, operand.reg);
        uint64_t scale = std::max<uint64_t>(operand.count, 1);
        if (operand.bits != 0) text("+").signed_number(operand.offset() / static_cast<int64_t>(scale));
        text("]");
        return;
    }
    text("[");
    bool based = operand.reg != k_no_reg || operand.symbol;
    if (operand.reg != k_no_reg) {
        register_name(function, operand.reg);
        component(operand);
    } else {
        symbol(operand.symbol, &function);
    }
    bool offset = operand.bits != 0 || operand.has_offset;
    if (based && offset) text("+");
    if (!based || offset) signed_number(operand.offset());
    text("]");
}

void Writer::component(const Operand& operand) {
    using Component = Operand::Component;
    static constexpr std::string_view k_names[] = {"", ".x", ".y", ".z", ".w", ".b0", ".b1", ".b2", ".b3", ".h0", ".h1"};
    if (operand.component <= Component::h1) {
        text(k_names[size_t(operand.component)]);
        return;
    }
    bool halves = operand.component == Component::halves;
    text(halves ? ".h" : ".b").hex(operand.selector, halves ? 2 : 4);
}

void Writer::special(const Operand& operand) {
    text("%");
    switch (operand.special) {
        case SpecialReg::envreg: text("envreg").number(operand.special_number); break;
        case SpecialReg::pm: text("pm").number(operand.special_number); break;
        case SpecialReg::pm64: text("pm").number(operand.special_number).text("_64"); break;
        case SpecialReg::reserved_smem_offset: text("reserved_smem_offset_").number(operand.special_number); break;
        default: text(to_string(operand.special)); break;
    }
    component(operand);
}

// Declarations are in the order of their registers; those of .reg parameters come before all of them.
void Writer::register_name(const Function& function, RegId reg) {
    const Body& body = *function.body;
    auto parameter = [&](const std::vector<RegId>& regs, const std::vector<Variable>& list) {
        auto found = std::find(regs.begin(), regs.end(), reg);
        if (found == regs.end()) return false;
        text(list[static_cast<size_t>(found - regs.begin())].name);
        return true;
    };
    auto after = std::upper_bound(body.registers.begin(), body.registers.end(), reg,
                                  [](RegId id, const RegisterDecl& declared) { return id < declared.first; });
    if (after == body.registers.begin() || reg - (after - 1)->first >= (after - 1)->count) {
        if (!parameter(body.param_regs, function.params)) parameter(body.return_regs, function.returns);
        return;
    }
    const RegisterDecl& declared = *(after - 1);
    text(declared.name);
    if (declared.is_range) number(reg - declared.first);
}

}  // namespace warpline::softgpu::ptx
