// Decodes branches and calls.
#include "softgpu/exec/control.h"
#include "softgpu/exec/decode.h"
#include "softgpu/isa/externs.h"

namespace warpline::softgpu::exec {

using ptx::Opcode;
using ptx::Operand;
using ptx::SymbolRef;

bool BodyDecoder::decode_control() {
    switch (m_instruction->opcode) {
        case Opcode::bra: return decode_branch();
        case Opcode::brx: return decode_branch_table();
        case Opcode::call: return decode_call();
        case Opcode::exit: emit(&control::exit); return true;
        case Opcode::ret:
            for (uint32_t i = 0; i < m_input.function.returns.size(); ++i) {
                bool in_register = i < m_ptx.return_regs.size() && m_ptx.return_regs[i] != ptx::k_no_reg;
                touch(in_register ? m_ptx.return_regs[i] : m_first_return + i, false);
            }
            emit(&control::ret);
            return true;
        default: return unsupported({});
    }
}

void BodyDecoder::set_target(const SymbolRef& label, uint32_t at, const Instr** table) {
    if (m_pass == Pass::analyse) return;
    uint32_t instruction = m_ptx.labels[label.index].instruction;
    m_fixups.push_back({at, m_graph.block_of[instruction], table});
}

bool BodyDecoder::decode_branch() {
    const Operand& target = operand_at(0, 0);
    if (target.symbol.kind != SymbolRef::Kind::label) return invalid("the target must be a label");
    // The guard of a branch is its condition: it must not go through the guard stub, which would skip lanes.
    bool conditional = m_instruction->guard != ptx::k_no_reg;
    Handler handler = !conditional ? &control::bra : m_instruction->guard_negated ? &control::bra_if_not : &control::bra_if;
    Instr& instr = append(handler, false);
    if (conditional && m_pass == Pass::emit) instr.op[1] = m_slots.slot_of[m_copy_of[m_instruction->guard]];
    set_target(target.symbol, uint32_t(m_body.code.size() - 1), nullptr);
    return true;
}

bool BodyDecoder::decode_branch_table() {
    int32_t index = in(0, 4, 0);
    const Operand& list = operand_at(1, 0);
    if (list.symbol.kind != SymbolRef::Kind::targets) return invalid("the targets must be a list of labels");
    if (m_failed) return false;
    const auto& entries = m_ptx.targets[list.symbol.index].entries;
    auto* table = DecodeContext::storage<BranchTable>();
    table->count = uint32_t(entries.size());
    table->targets = static_cast<const Instr**>(storage(sizeof(const Instr*) * std::max<size_t>(1, entries.size())));
    Instr& instr = emit(&control::brx);
    instr.op[1] = index;
    instr.extra = table;
    for (size_t i = 0; i < entries.size(); ++i) {
        if (entries[i].kind != SymbolRef::Kind::label) return invalid("the targets must be labels");
        set_target(entries[i], uint32_t(m_body.code.size() - 1), table->targets + i);
    }
    return true;
}

/// Slots of arguments or results: .param variables, registers, or constants.
bool BodyDecoder::call_params(uint32_t first, uint32_t count, bool writes, const ParamSlot*& out) {
    auto* slots = static_cast<ParamSlot*>(storage(sizeof(ParamSlot) * std::max<size_t>(1, count)));
    out = slots;
    for (uint32_t i = 0; i < count; ++i) {
        const Operand& operand = m_ptx.operands[first + i];
        if (operand.kind == Operand::Kind::reg) {
            slots[i] = {touch(operand.reg, writes), m_lane_bytes[operand.reg]};
        } else if (operand.kind == Operand::Kind::integer && !writes) {
            slots[i] = {constant_row(operand.bits, 8), 8};
        } else if (ptx::RegId id = param_register(operand.symbol); id != ptx::k_no_reg) {
            slots[i] = {touch(id, writes), m_lane_bytes[id]};
        } else if (operand.kind != Operand::Kind::sink) {
            return unsupported("an argument of this kind");
        }
    }
    return true;
}

bool BodyDecoder::decode_call() {
    const ptx::Call& call = m_ptx.calls[m_instruction->call];
    auto* info = DecodeContext::storage<CallInfo>();
    info->arg_count = call.arg_count;
    info->ret_count = call.ret_count;
    if (!call_params(call.first_arg, call.arg_count, false, info->args)) return false;
    if (!call_params(call.first_ret, call.ret_count, true, info->rets)) return false;
    const Operand& target = m_ptx.operands[call.target];
    if (target.kind == Operand::Kind::reg) {
        if (m_lane_bytes[target.reg] != 8) return invalid("a function's address must have 64 bits");
        int32_t address = touch(target.reg, false);
        m_body.calls_indirectly = true;
        Instr& instr = emit(&control::call_indirect);
        instr.op[1] = address;
        instr.extra = info;
        return true;
    }
    if (target.symbol.kind != SymbolRef::Kind::function) return invalid("the target must be a function");
    return decode_direct_call(call, *info);
}

bool BodyDecoder::decode_direct_call(const ptx::Call& call, CallInfo& info) {
    uint32_t index = m_ptx.operands[call.target].symbol.index;
    const ptx::Function* callee = &m_input.module.functions[index];
    while (callee->is_alias && callee->alias_of != UINT32_MAX) {
        index = callee->alias_of;
        callee = &m_input.module.functions[index];
    }
    if (!callee->has_body) {
        Handler external = isa::extern_function(callee->name, info.arg_count, info.ret_count);
        if (external == nullptr) return unsupported("the external function " + std::string(callee->name));
        if (callee->name == "vprintf") m_body.uses_printf = true;
        Instr& instr = emit(external);
        instr.extra = &info;
        return true;
    }
    info.callee = m_input.kernel.bodies[index].get();
    if (info.callee == nullptr) return unsupported("a call of " + std::string(callee->name));
    if (m_pass == Pass::emit) m_body.callees.push_back(index);
    if (info.arg_count != callee->params.size()) return invalid("wrong number of arguments");
    emit(&control::call).extra = &info;
    return true;
}

}  // namespace warpline::softgpu::exec
