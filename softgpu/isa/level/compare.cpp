// setp, set, slct. PTX ISA: Comparison and Selection Instructions.
#include "softgpu/isa/level/level.h"
#include "softgpu/isa/level/tables.h"

namespace warpline::softgpu::isa::WL_LEVEL {

namespace {

using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;
using f32 = float;
using f64 = double;

struct Eq {
    template <typename T>
    static bool run(T a, T b) {
        return a == b;
    }
};
struct Ne {
    template <typename T>
    static bool run(T a, T b) {
        return (a < b) | (a > b);
    }
};  // false for NaN, unlike !=
struct IntNe {
    template <typename T>
    static bool run(T a, T b) {
        return a != b;
    }
};
struct Lt {
    template <typename T>
    static bool run(T a, T b) {
        return a < b;
    }
};
struct Le {
    template <typename T>
    static bool run(T a, T b) {
        return a <= b;
    }
};
struct Gt {
    template <typename T>
    static bool run(T a, T b) {
        return a > b;
    }
};
struct Ge {
    template <typename T>
    static bool run(T a, T b) {
        return a >= b;
    }
};
struct Equ {
    template <typename T>
    static bool run(T a, T b) {
        return !((a < b) | (a > b));
    }
};
struct Neu {
    template <typename T>
    static bool run(T a, T b) {
        return a != b;
    }
};
struct Ltu {
    template <typename T>
    static bool run(T a, T b) {
        return !(a >= b);
    }
};
struct Leu {
    template <typename T>
    static bool run(T a, T b) {
        return !(a > b);
    }
};
struct Gtu {
    template <typename T>
    static bool run(T a, T b) {
        return !(a <= b);
    }
};
struct Geu {
    template <typename T>
    static bool run(T a, T b) {
        return !(a < b);
    }
};
struct Num {
    template <typename T>
    static bool run(T a, T b) {
        return (a == a) & (b == b);
    }
};
struct Nan {
    template <typename T>
    static bool run(T a, T b) {
        return (a != a) | (b != b);
    }
};

template <bool Ftz>
WL_INLINE f32 flush(f32 value) {
    if constexpr (!Ftz) return value;
    return __builtin_fabsf(value) < __FLT_MIN__ ? __builtin_copysignf(0.0f, value) : value;
}
template <bool Ftz, typename T>
WL_INLINE T flush(T value) {
    return value;
}

/// op[0] = predicate, op[1], op[2] sources.
template <typename Op, typename T, bool Ftz = false>
Flow setp(Warp& w, const Instr& i, uint32_t mask) {
    const T* a = source<T>(w, i.op[1]);
    const T* b = source<T>(w, i.op[2]);
    uint32_t bits = ballot([=](uint32_t l) { return Op::run(flush<Ftz>(a[l]), flush<Ftz>(b[l])); });
    set_predicate(w, i.op[0], bits, mask);
    return Flow::next;
}

#define WL_SETP(cmp, op, type, T)                                                          \
    {"setp." cmp "." type, &setp<op, T>, {out_pred(), in(sizeof(T)), in(sizeof(T))}, 0}, { \
        "$setp." cmp "." type, &setp<op, T>, {}, 0                                         \
    }
#define WL_SETP_FTZ(cmp, op)                                                         \
    {"setp." cmp ".ftz.f32", &setp<op, f32, true>, {out_pred(), in(4), in(4)}, 0}, { \
        "$setp." cmp ".ftz.f32", &setp<op, f32, true>, {}, 0                         \
    }
#define WL_SIGNED(cmp, op) WL_SETP(cmp, op, "s16", s16), WL_SETP(cmp, op, "s32", s32), WL_SETP(cmp, op, "s64", s64)
#define WL_UNSIGNED(cmp, op) WL_SETP(cmp, op, "u16", u16), WL_SETP(cmp, op, "u32", u32), WL_SETP(cmp, op, "u64", u64)
#define WL_BITS(cmp, op) WL_SETP(cmp, op, "b16", u16), WL_SETP(cmp, op, "b32", u32), WL_SETP(cmp, op, "b64", u64)
#define WL_FLOAT(cmp, op) WL_SETP(cmp, op, "f32", f32), WL_SETP_FTZ(cmp, op), WL_SETP(cmp, op, "f64", f64)

const Row k_rows[] = {
    WL_SIGNED("eq", Eq),   WL_SIGNED("ne", IntNe), WL_SIGNED("lt", Lt),      WL_SIGNED("le", Le),   WL_SIGNED("gt", Gt),
    WL_SIGNED("ge", Ge),   WL_UNSIGNED("eq", Eq),  WL_UNSIGNED("ne", IntNe), WL_UNSIGNED("lt", Lt), WL_UNSIGNED("le", Le),
    WL_UNSIGNED("gt", Gt), WL_UNSIGNED("ge", Ge),  WL_UNSIGNED("lo", Lt),    WL_UNSIGNED("ls", Le), WL_UNSIGNED("hi", Gt),
    WL_UNSIGNED("hs", Ge), WL_BITS("eq", Eq),      WL_BITS("ne", IntNe),     WL_FLOAT("eq", Eq),    WL_FLOAT("ne", Ne),
    WL_FLOAT("lt", Lt),    WL_FLOAT("le", Le),     WL_FLOAT("gt", Gt),       WL_FLOAT("ge", Ge),    WL_FLOAT("equ", Equ),
    WL_FLOAT("neu", Neu),  WL_FLOAT("ltu", Ltu),   WL_FLOAT("leu", Leu),     WL_FLOAT("gtu", Gtu),  WL_FLOAT("geu", Geu),
    WL_FLOAT("num", Num),  WL_FLOAT("nan", Nan),
};

}  // namespace

Rows compare_rows() { return WL_ROWS(k_rows); }

}  // namespace warpline::softgpu::isa::WL_LEVEL
