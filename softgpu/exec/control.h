// Handlers that belong to the core: control flow, guards, and the rows that decoding needs for operands which are no
// registers.
#pragma once

#include "softgpu/exec/body.h"

namespace warpline::softgpu::exec::control {

Flow guard(Warp& warp, const Instr& instr, uint32_t mask);  ///< runs Instr::inner for the lanes whose predicate holds
Flow guard_not(Warp& warp, const Instr& instr, uint32_t mask);
Flow fall_through(Warp& warp, const Instr& instr, uint32_t mask);

Flow bra(Warp& warp, const Instr& instr, uint32_t mask);     ///< unconditional
Flow bra_if(Warp& warp, const Instr& instr, uint32_t mask);  ///< op[1]: predicate
Flow bra_if_not(Warp& warp, const Instr& instr, uint32_t mask);
Flow brx(Warp& warp, const Instr& instr, uint32_t mask);   ///< op[1]: index row; extra: BranchTable
Flow call(Warp& warp, const Instr& instr, uint32_t mask);  ///< extra: CallInfo
Flow call_indirect(Warp& warp, const Instr& instr, uint32_t mask);
Flow ret(Warp& warp, const Instr& instr, uint32_t mask);
Flow exit(Warp& warp, const Instr& instr, uint32_t mask);
Flow refused(Warp& warp, const Instr& instr, uint32_t mask);  ///< stands for what is not supported

Flow not_predicate(Warp& warp, const Instr& instr, uint32_t mask);
Flow local_address(Warp& warp, const Instr& instr, uint32_t mask);  ///< imm: offset in the frame's locals
Flow local_generic_address(Warp& warp, const Instr& instr, uint32_t mask);
Flow param_address(Warp& warp, const Instr& instr, uint32_t mask);   ///< imm: offset in the kernel's parameters
Flow narrow_address(Warp& warp, const Instr& instr, uint32_t mask);  ///< 64 bits to 32

/// op[0] = op[1] * imm, in 64 bits.
template <typename T>
Flow index_address(Warp& warp, const Instr& instr, uint32_t mask) {
    uint64_t* row = dest<uint64_t>(warp, instr.op[0]);
    const T* index = source<T>(warp, instr.op[1]);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        row[lane] = uint64_t{index[lane]} * instr.imm;
    }
    return Flow::next;
}

/// Handler that fills a row of `width` bytes with a special register (Instr::imm: number, component << 8, index << 16).
/// Null if that register does not exist or has another width.
Handler read_special(ptx::SpecialReg reg, uint8_t width);

}  // namespace warpline::softgpu::exec::control
