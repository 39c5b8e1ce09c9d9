// Predicates, comparisons with a third operand, traps, hints.
#include <cstring>
#include <thread>

#include "softgpu/exec/launch.h"
#include "softgpu/exec/warp.h"
#include "softgpu/isa/access.h"
#include "softgpu/isa/combine.h"
#include "softgpu/isa/decode_helpers.h"
#include "softgpu/isa/families.h"

namespace warpline::softgpu::isa {

namespace {

using exec::dest;
using exec::predicate;
using exec::set_predicate;
using exec::source;

// --- logic on predicates

Flow and_pred(Warp& w, const Instr& i, uint32_t mask) {
    set_predicate(w, i.op[0], predicate(w, i.op[1]) & predicate(w, i.op[2]), mask);
    return Flow::next;
}
Flow or_pred(Warp& w, const Instr& i, uint32_t mask) {
    set_predicate(w, i.op[0], predicate(w, i.op[1]) | predicate(w, i.op[2]), mask);
    return Flow::next;
}
Flow xor_pred(Warp& w, const Instr& i, uint32_t mask) {
    set_predicate(w, i.op[0], predicate(w, i.op[1]) ^ predicate(w, i.op[2]), mask);
    return Flow::next;
}
Flow not_pred(Warp& w, const Instr& i, uint32_t mask) {
    set_predicate(w, i.op[0], ~predicate(w, i.op[1]), mask);
    return Flow::next;
}
Flow mov_pred(Warp& w, const Instr& i, uint32_t mask) {
    set_predicate(w, i.op[0], predicate(w, i.op[1]), mask);
    return Flow::next;
}

// --- setp.cmp.op.type p|q, a, b, c and set

/// op[0] = p, op[1] = q, op[2] = the comparison, op[3] = c.
Flow combine_pred(Warp& w, const Instr& i, uint32_t mask) {
    uint32_t compared = predicate(w, i.op[2]), c = predicate(w, i.op[3]);
    set_predicate(w, i.op[0], combine(i.imm, compared, c), mask);
    set_predicate(w, i.op[1], combine(i.imm, ~compared, c), mask);
    return Flow::next;
}

struct Comparison {
    std::string handler;  ///< of the comparison itself
    uint64_t combine = combine_none;
    uint8_t width = 0;
};

/// cmp, bool op, ftz and the type of the sources, from the modifiers after `first`.
bool parse_comparison(DecodeContext& context, size_t first, Comparison& out) {
    auto modifiers = context.modifiers();
    std::string cmp, ftz, type;
    for (size_t i = first; i < modifiers.size(); ++i) {
        std::string_view m = modifiers[i];
        if (const uint64_t how = combine_of(m); how != combine_none) {
            out.combine = how;
        } else if (m == "ftz") {
            ftz = "ftz.";
        } else if (type_info(m).bytes != 0) {
            type = m;
            out.width = type_info(m).bytes;
        } else {
            cmp = std::string(m) + ".";
        }
    }
    if (type.empty() || cmp.empty()) return context.unsupported();
    out.handler = "$setp." + cmp + ftz + type;
    return true;
}

bool decode_setp(DecodeContext& context) {
    Comparison comparison;
    if (!parse_comparison(context, 0, comparison)) return false;
    Handler handler = context.handler(comparison.handler);
    if (handler == nullptr) return false;
    bool has_third = context.operand_count() == 4;
    if (has_third != (comparison.combine != combine_none)) return context.invalid("wrong number of operands");
    int32_t a = context.in(1, comparison.width, 0), b = context.in(2, comparison.width, 0);
    int32_t c = has_third ? context.in_pred(3, 0) : context.constant_pred(false);
    int32_t compared = context.scratch(2);
    int32_t p = context.out_pred(0, 0);
    int32_t q = context.element_count(0) == 2 ? context.out_pred(0, 1) : context.scratch(2);
    Instr& compare = context.emit(handler);
    compare.op[0] = compared;
    compare.op[1] = a;
    compare.op[2] = b;
    Instr& join = context.emit(&combine_pred);
    join.op[0] = p;
    join.op[1] = q;
    join.op[2] = compared;
    join.op[3] = c;
    join.imm = comparison.combine;
    return true;
}

/// set: all bits (or 1.0) if the comparison holds.
Flow set_value(Warp& w, const Instr& i, uint32_t mask) {
    uint32_t holds = predicate(w, i.op[1]);
    uint32_t* d = dest<uint32_t>(w, i.op[0]);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        d[lane] = (holds >> lane & 1) != 0 ? uint32_t(i.imm) : 0;
    }
    return Flow::next;
}

bool decode_set(DecodeContext& context) {
    auto modifiers = context.modifiers();
    if (modifiers.size() < 3) return context.unsupported();
    // set.cmp[.bool][.ftz].dtype.stype
    std::string_view into = modifiers[modifiers.size() - 2];
    if (into != "u32" && into != "s32" && into != "f32") return context.unsupported();
    Comparison comparison;
    if (!parse_comparison(context, 0, comparison)) return false;
    Handler handler = context.handler(comparison.handler);
    if (handler == nullptr) return false;
    bool has_third = context.operand_count() == 4;
    if (has_third != (comparison.combine != combine_none)) return context.invalid("wrong number of operands");
    int32_t a = context.in(1, comparison.width, 0), b = context.in(2, comparison.width, 0);
    int32_t c = has_third ? context.in_pred(3, 0) : context.constant_pred(false);
    int32_t compared = context.scratch(2), joined = context.scratch(2), unused = context.scratch(2);
    int32_t d = context.out(0, 4, 0);
    Instr& compare = context.emit(handler);
    compare.op[0] = compared;
    compare.op[1] = a;
    compare.op[2] = b;
    Instr& join = context.emit(&combine_pred);
    join.op[0] = joined;
    join.op[1] = unused;
    join.op[2] = compared;
    join.op[3] = c;
    join.imm = comparison.combine;
    Instr& set = context.emit(&set_value);
    set.op[0] = d;
    set.op[1] = joined;
    set.imm = into == "f32" ? 0x3f800000u : 0xffffffffu;
    return true;
}

/// slct: a if c >= 0, else b.
template <typename T, typename C>
Flow slct(Warp& w, const Instr& i, uint32_t mask) {
    const T* a = source<T>(w, i.op[1]);
    const T* b = source<T>(w, i.op[2]);
    const C* c = source<C>(w, i.op[3]);
    T* d = dest<T>(w, i.op[0]);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        d[lane] = c[lane] >= C(0) ? a[lane] : b[lane];
    }
    return Flow::next;
}

bool decode_slct(DecodeContext& context) {
    auto modifiers = context.modifiers();
    std::string_view by = modifiers.empty() ? "" : modifiers.back();
    TypeInfo type = modifiers.empty() ? TypeInfo{} : type_info(modifiers[0]);
    if ((by != "s32" && by != "f32") || (type.bytes != 2 && type.bytes != 4 && type.bytes != 8)) return context.unsupported();
    bool f = by == "f32";  // with .ftz a subnormal c counts as zero: -0 >= 0 holds, and so must a negative subnormal
    if (context.has("ftz")) return context.unsupported();
    Handler handler = type.bytes == 2   ? (f ? &slct<uint16_t, float> : &slct<uint16_t, int32_t>)
                      : type.bytes == 4 ? (f ? &slct<uint32_t, float> : &slct<uint32_t, int32_t>)
                                        : (f ? &slct<uint64_t, float> : &slct<uint64_t, int32_t>);
    int32_t a = context.in(1, type.bytes, 0), b = context.in(2, type.bytes, 0), c = context.in(3, 4, 0);
    int32_t d = context.out(0, type.bytes, 0);
    Instr& instr = context.emit(handler);
    instr.op[0] = d;
    instr.op[1] = a;
    instr.op[2] = b;
    instr.op[3] = c;
    return true;
}

// --- the end of a kernel, and waiting

Flow trap(Warp& w, const Instr& i, uint32_t mask) { return w.raise(i, 719, uint32_t(__builtin_ctz(mask)), "trap"); }
Flow nothing(Warp&, const Instr&, uint32_t) { return Flow::next; }

Flow nanosleep(Warp& w, const Instr&, uint32_t) {
    // The time itself does not matter; that others run meanwhile does.
    w.spend(exec::k_turn_back_edges, true);
    w.spins += exec::k_warp_size;
    return Flow::next;
}
bool decode_nanosleep(DecodeContext& context) {
    context.in(0, 4, 0);
    context.emit(&nanosleep);
    return true;
}
bool decode_nothing(DecodeContext&) { return true; }

Flow fence(Warp&, const Instr&, uint32_t) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return Flow::next;
}
bool decode_fence(DecodeContext& context) {
    context.emit(&fence);
    return true;
}

const Row k_rows[] = {
    {"and.pred", &and_pred, {out_pred(), in_pred(), in_pred()}, 0},
    {"or.pred", &or_pred, {out_pred(), in_pred(), in_pred()}, 0},
    {"xor.pred", &xor_pred, {out_pred(), in_pred(), in_pred()}, 0},
    {"not.pred", &not_pred, {out_pred(), in_pred()}, 0},
    {"mov.pred", &mov_pred, {out_pred(), in_pred()}, 0},
    {"trap", &trap, {}, 0},
    {"brkpt", &nothing, {}, 0},
};

}  // namespace

void register_misc(Registry& registry) {
    registry.add(k_rows);
    registry.add_decoder("setp", &decode_setp);
    registry.add_decoder("set", &decode_set);
    registry.add_decoder("slct", &decode_slct);
    registry.add_decoder("nanosleep", &decode_nanosleep);
    registry.add_decoder("pmevent", &decode_nothing);
    registry.add_decoder("griddepcontrol", &decode_nothing);
    registry.add_decoder("setmaxnreg", &decode_nothing);
    registry.add_decoder("membar", &decode_fence);
    registry.add_decoder("fence", &decode_fence);
}

}  // namespace warpline::softgpu::isa
