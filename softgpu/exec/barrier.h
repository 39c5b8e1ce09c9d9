// CTA barriers (bar, barrier).
#pragma once

#include "softgpu/exec/machine.h"

namespace warpline::softgpu::exec {

struct BarrierResult {
    bool passed;      ///< false: return Flow::switch_; the instruction is executed again when the barrier is complete
    uint32_t result;  ///< of a reduction
};

/// The lanes of `mask` arrive at barrier `number` and wait. `count`: threads that take part, 0 for all of the CTA. For
/// reductions `predicate` has the lanes' values.
BarrierResult barrier_sync(Warp& warp, const Instr& instr, uint32_t mask, uint32_t number, uint32_t count, BarrierKind kind,
                           uint32_t predicate);

/// The lanes arrive and do not wait.
void barrier_arrive(Warp& warp, uint32_t mask, uint32_t number, uint32_t count);

}  // namespace warpline::softgpu::exec
