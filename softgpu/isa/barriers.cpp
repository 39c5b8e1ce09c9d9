// bar, barrier. PTX ISA: Parallel Synchronization and Communication Instructions.
#include "softgpu/exec/barrier.h"

#include "softgpu/check/options.h"
#include "softgpu/isa/decode_helpers.h"
#include "softgpu/isa/families.h"

namespace warpline::softgpu::isa {

namespace {

using exec::BarrierKind;
using exec::dest;
using exec::predicate;
using exec::source;

/// op[1] = barrier, op[2] = count; lanes agree on both.
struct Which {
    uint32_t number, count;
};

bool which_barrier(Warp& w, const Instr& i, uint32_t mask, Which& out) {
    auto first = uint32_t(__builtin_ctz(mask));
    out = {source<uint32_t>(w, i.op[1])[first], source<uint32_t>(w, i.op[2])[first]};
    if (out.number < exec::k_max_barriers && out.count % exec::k_warp_size == 0) return true;
    w.raise(i, 715, first, "barrier number above 15, or a count that is no multiple of 32");
    return false;
}

Flow sync(Warp& w, const Instr& i, uint32_t mask) {
    Which which{};
    if (!which_barrier(w, i, mask, which)) return Flow::fault;
    bool passed = exec::barrier_sync(w, i, mask, which.number, which.count, BarrierKind::plain, 0).passed;
    return passed ? Flow::next : Flow::switch_;
}

Flow arrive(Warp& w, const Instr& i, uint32_t mask) {
    Which which{};
    if (!which_barrier(w, i, mask, which)) return Flow::fault;
    exec::barrier_arrive(w, mask, which.number, which.count);
    return Flow::next;
}

/// op[3] = predicate, op[0] = result (a row for popc, a predicate otherwise).
template <BarrierKind Kind>
Flow reduce(Warp& w, const Instr& i, uint32_t mask) {
    Which which{};
    if (!which_barrier(w, i, mask, which)) return Flow::fault;
    auto outcome = exec::barrier_sync(w, i, mask, which.number, which.count, Kind, predicate(w, i.op[3]));
    if (!outcome.passed) return Flow::switch_;
    if (Kind != BarrierKind::popc) {
        exec::set_predicate(w, i.op[0], outcome.result != 0 ? exec::k_full_mask : 0, mask);
        return Flow::next;
    }
    uint32_t* d = dest<uint32_t>(w, i.op[0]);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) d[__builtin_ctz(rest)] = outcome.result;
    return Flow::next;
}

Flow warp_sync(Warp& w, const Instr& i, uint32_t mask) {
    return w.converge(i, mask, source<uint32_t>(w, i.op[1])) ? Flow::next : Flow::switch_;
}

/// With race checks: the lanes that meet are in order from here on. Lanes that others released have been told then.
Flow checked_warp_sync(Warp& w, const Instr& i, uint32_t mask) {
    const bool released = w.fragments[w.current].released;
    if (!w.converge(i, mask, source<uint32_t>(w, i.op[1]))) return Flow::switch_;
    if (!released) exec::check_meeting(w, mask, source<uint32_t>(w, i.op[1]));
    return Flow::next;
}

bool decode_warp_sync(DecodeContext& context) {
    int32_t members = context.in(0, 4, 0);
    Instr& instr = context.emit((context.checks() & check::check_race) != 0 ? &checked_warp_sync : &warp_sync);
    instr.op[1] = members;
    instr.flags |= exec::instr_warp_barrier;
    return true;
}

bool decode_reduce(DecodeContext& context) {
    // barrier.red.popc d, a{, b}, {!}c and barrier.red.and/or p, a{, b}, {!}c
    uint32_t operands = context.operand_count();
    if (operands != 3 && operands != 4) return context.invalid("wrong number of operands");
    int32_t number = context.in(1, 4, 0);
    int32_t count = operands == 4 ? context.in(2, 4, 0) : context.constant_row(0, 4);
    int32_t value = context.in_pred(operands - 1, 0);
    bool popc = context.has("popc");
    int32_t result = popc ? context.out(0, 4, 0) : context.out_pred(0, 0);
    Handler handler = popc                 ? &reduce<BarrierKind::popc>
                      : context.has("and") ? &reduce<BarrierKind::all>
                                           : &reduce<BarrierKind::any>;
    Instr& instr = context.emit(handler);
    instr.op[0] = result;
    instr.op[1] = number;
    instr.op[2] = count;
    instr.op[3] = value;
    return true;
}

bool decode_barrier(DecodeContext& context) {
    if (context.has("cluster")) return context.unsupported();
    if (context.has("warp")) return decode_warp_sync(context);
    if (context.has("red")) return decode_reduce(context);
    bool arrives = context.has("arrive");
    if (!arrives && !context.has("sync")) return context.unsupported();
    int32_t number = context.in(0, 4, 0);
    int32_t count = context.operand_count() > 1 ? context.in(1, 4, 0) : context.constant_row(0, 4);
    Instr& instr = context.emit(arrives ? &arrive : &sync);
    instr.op[1] = number;
    instr.op[2] = count;
    return true;
}

}  // namespace

void register_barrier(Registry& registry) {
    registry.add_decoder("bar", &decode_barrier);
    registry.add_decoder("barrier", &decode_barrier);
}

}  // namespace warpline::softgpu::isa
