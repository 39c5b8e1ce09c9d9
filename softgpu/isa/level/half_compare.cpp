// Comparison of 16-bit floats: the handlers that the decoders of setp and set ask for. A row of .f16 gives 32 bits, one of
// .f16x2 gives two predicates: the lower halves in op[0], the upper ones in op[3].
#include "softgpu/isa/level/half_lanes.h"
#include "softgpu/isa/level/tables.h"

namespace warpline::softgpu::isa::WL_LEVEL {

namespace {

struct Eq {
    WL_INLINE static bool run(float a, float b) { return a == b; }
};
struct Ne {
    WL_INLINE static bool run(float a, float b) { return (a < b) | (a > b); }
};
struct Lt {
    WL_INLINE static bool run(float a, float b) { return a < b; }
};
struct Le {
    WL_INLINE static bool run(float a, float b) { return a <= b; }
};
struct Gt {
    WL_INLINE static bool run(float a, float b) { return a > b; }
};
struct Ge {
    WL_INLINE static bool run(float a, float b) { return a >= b; }
};
struct Equ {
    WL_INLINE static bool run(float a, float b) { return !((a < b) | (a > b)); }
};
struct Neu {
    WL_INLINE static bool run(float a, float b) { return a != b; }
};
struct Ltu {
    WL_INLINE static bool run(float a, float b) { return !(a >= b); }
};
struct Leu {
    WL_INLINE static bool run(float a, float b) { return !(a > b); }
};
struct Gtu {
    WL_INLINE static bool run(float a, float b) { return !(a <= b); }
};
struct Geu {
    WL_INLINE static bool run(float a, float b) { return !(a < b); }
};
struct Num {
    WL_INLINE static bool run(float a, float b) { return (a == a) & (b == b); }
};
struct Nan {
    WL_INLINE static bool run(float a, float b) { return (a != a) | (b != b); }
};

template <typename Op, typename F, bool Ftz>
Flow setp(Warp& w, const Instr& i, uint32_t mask) {
    alignas(64) float a[32], b[32];
    widen_row<F, 32, Ftz>(a, source<uint16_t>(w, i.op[1]));
    widen_row<F, 32, Ftz>(b, source<uint16_t>(w, i.op[2]));
    set_predicate(w, i.op[0], ballot([&](uint32_t l) { return Op::run(a[l], b[l]); }), mask);
    return Flow::next;
}

template <typename Op, typename F, bool Ftz>
Flow setp_pairs(Warp& w, const Instr& i, uint32_t mask) {
    alignas(64) float a[64], b[64];
    widen_row<F, 64, Ftz>(a, source<uint16_t>(w, i.op[1]));
    widen_row<F, 64, Ftz>(b, source<uint16_t>(w, i.op[2]));
    uint32_t low = ballot([&](uint32_t l) { return Op::run(a[2 * l], b[2 * l]); });
    uint32_t high = ballot([&](uint32_t l) { return Op::run(a[2 * l + 1], b[2 * l + 1]); });
    set_predicate(w, i.op[0], low, mask);
    set_predicate(w, i.op[3], high, mask);
    return Flow::next;
}

#define WL_SETP(cmp, op)                                                                                                     \
    {"setp." cmp ".f16", &setp<op, F16, false>, {out_pred(), in(2), in(2)}, 0},                                              \
        {"setp." cmp ".bf16", &setp<op, BF16, false>, {out_pred(), in(2), in(2)}, 0},                                        \
        {"$setp." cmp ".f16", &setp<op, F16, false>, {}, 0}, {"$setp." cmp ".ftz.f16", &setp<op, F16, true>, {}, 0},         \
        {"$setp." cmp ".bf16", &setp<op, BF16, false>, {}, 0}, {"$setp2." cmp ".f16x2", &setp_pairs<op, F16, false>, {}, 0}, \
        {"$setp2." cmp ".ftz.f16x2", &setp_pairs<op, F16, true>, {}, 0}, {                                                   \
        "$setp2." cmp ".bf16x2", &setp_pairs<op, BF16, false>, {}, 0                                                         \
    }

const Row k_rows[] = {
    WL_SETP("eq", Eq),   WL_SETP("ne", Ne),   WL_SETP("lt", Lt),   WL_SETP("le", Le),   WL_SETP("gt", Gt),
    WL_SETP("ge", Ge),   WL_SETP("equ", Equ), WL_SETP("neu", Neu), WL_SETP("ltu", Ltu), WL_SETP("leu", Leu),
    WL_SETP("gtu", Gtu), WL_SETP("geu", Geu), WL_SETP("num", Num), WL_SETP("nan", Nan),
};

}  // namespace

Rows half_compare_rows() { return WL_ROWS(k_rows); }

}  // namespace warpline::softgpu::isa::WL_LEVEL
