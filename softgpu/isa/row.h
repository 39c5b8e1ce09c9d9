// Rows of the instruction table. Like machine.h, this header is compiled once per CPU level and includes no C++ library.
#pragma once

#include "softgpu/exec/machine.h"

namespace warpline::softgpu::isa {

using exec::Flow;
using exec::Handler;
using exec::Instr;
using exec::k_full_mask;
using exec::Warp;

/// How one operand is put into Instr::op[] (in order of the operands as written; op[0] is the first).
enum class Role : uint8_t {
    none,
    out,       ///< destination row of `width` bytes per lane
    in,        ///< source row; a floating-point immediate is rounded to `width`
    out_pred,  ///< destination predicate
    in_pred,   ///< source predicate (`!p` is handled: the negation becomes an instruction before)
    imm,       ///< an integer constant, stored in Instr::imm (at most one)
};

struct Operand {
    Role role = Role::none;
    uint8_t width = 0;  ///< bytes per lane: 2, 4, 8, 16. A register of another width is a type error
};

constexpr Operand out(uint8_t width) { return {Role::out, width}; }
constexpr Operand in(uint8_t width) { return {Role::in, width}; }
constexpr Operand out_pred() { return {Role::out_pred, 4}; }
constexpr Operand in_pred() { return {Role::in_pred, 4}; }
constexpr Operand imm() { return {Role::imm, 8}; }

/// One row of the table: a name with all its modifiers ("add.sat.s32"), its handler and the shape of its operands. A name that
/// begins with '$' is no PTX: a handler that a decoder asks for by that name (DecodeContext::handler). Slots of destinations
/// never overlap slots of sources, unless the PTX names the same register for both: lane-wise handlers need not care, handlers
/// that look at other lanes read all sources before they write.
struct Row {
    const char* name;
    Handler handler;
    Operand operands[5] = {};
    uint64_t imm = 0;  ///< Instr::imm, unless an operand sets it
};

/// What a family hands over: a static array of rows.
struct Rows {
    const Row* first;
    uint32_t count;
};

}  // namespace warpline::softgpu::isa
