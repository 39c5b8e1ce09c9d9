// setp, set, slct. PTX ISA: Comparison and Selection Instructions.
#include "softgpu/isa/level/level.h"
#include "softgpu/isa/level/tables.h"

namespace warpline::softgpu::isa::WL_LEVEL {

namespace {

// Each comparison has its number in the processor's compares of integers and of floating point, which answer with a bit mask.

struct Eq {
    [[maybe_unused]] static constexpr int k_integers = 0, k_floats = 0;
    template <typename T>
    static bool run(T a, T b) {
        return a == b;
    }
};
struct Ne {
    [[maybe_unused]] static constexpr int k_integers = 4, k_floats = 12;
    template <typename T>
    static bool run(T a, T b) {
        return (a < b) | (a > b);
    }
};  // false for NaN, unlike !=
struct IntNe {
    [[maybe_unused]] static constexpr int k_integers = 4, k_floats = 4;
    template <typename T>
    static bool run(T a, T b) {
        return a != b;
    }
};
struct Lt {
    [[maybe_unused]] static constexpr int k_integers = 1, k_floats = 17;
    template <typename T>
    static bool run(T a, T b) {
        return a < b;
    }
};
struct Le {
    [[maybe_unused]] static constexpr int k_integers = 2, k_floats = 18;
    template <typename T>
    static bool run(T a, T b) {
        return a <= b;
    }
};
struct Gt {
    [[maybe_unused]] static constexpr int k_integers = 6, k_floats = 30;
    template <typename T>
    static bool run(T a, T b) {
        return a > b;
    }
};
struct Ge {
    [[maybe_unused]] static constexpr int k_integers = 5, k_floats = 29;
    template <typename T>
    static bool run(T a, T b) {
        return a >= b;
    }
};
struct Equ {
    [[maybe_unused]] static constexpr int k_integers = 0, k_floats = 8;
    template <typename T>
    static bool run(T a, T b) {
        return !((a < b) | (a > b));
    }
};
struct Neu {
    [[maybe_unused]] static constexpr int k_integers = 4, k_floats = 4;
    template <typename T>
    static bool run(T a, T b) {
        return a != b;
    }
};
struct Ltu {
    [[maybe_unused]] static constexpr int k_integers = 1, k_floats = 25;
    template <typename T>
    static bool run(T a, T b) {
        return !(a >= b);
    }
};
struct Leu {
    [[maybe_unused]] static constexpr int k_integers = 2, k_floats = 26;
    template <typename T>
    static bool run(T a, T b) {
        return !(a > b);
    }
};
struct Gtu {
    [[maybe_unused]] static constexpr int k_integers = 6, k_floats = 22;
    template <typename T>
    static bool run(T a, T b) {
        return !(a <= b);
    }
};
struct Geu {
    [[maybe_unused]] static constexpr int k_integers = 5, k_floats = 21;
    template <typename T>
    static bool run(T a, T b) {
        return !(a < b);
    }
};
struct Num {
    [[maybe_unused]] static constexpr int k_integers = 0, k_floats = 7;
    template <typename T>
    static bool run(T a, T b) {
        return (a == a) & (b == b);
    }
};
struct Nan {
    [[maybe_unused]] static constexpr int k_integers = 0, k_floats = 3;
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

#if defined(__AVX512F__)
// The bits of a mask register. Left to itself, gcc 12 keeps the 8 or 16 of them in memory across a call (as under the thread
// sanitizer) and reads 32 back, with whatever lies beside them.
WL_INLINE uint32_t bits_of(__mmask8 lanes) {
    uint32_t bits;
    asm("kmovb %1, %0" : "=r"(bits) : "k"(lanes));
    return bits;
}
WL_INLINE uint32_t bits_of(__mmask16 lanes) {
    uint32_t bits;
    asm("kmovw %1, %0" : "=r"(bits) : "k"(lanes));
    return bits;
}

template <typename Op>
WL_INLINE uint32_t compare_some(const f32* a, const f32* b) {
    return bits_of(_mm512_cmp_ps_mask(_mm512_loadu_ps(a), _mm512_loadu_ps(b), Op::k_floats));
}
template <typename Op>
WL_INLINE uint32_t compare_some(const f64* a, const f64* b) {
    return bits_of(_mm512_cmp_pd_mask(_mm512_loadu_pd(a), _mm512_loadu_pd(b), Op::k_floats));
}
template <typename Op, typename T>
WL_INLINE uint32_t compare_some(const T* a, const T* b) {
    constexpr bool k_signed = T(-1) < T(0);
    const __m512i x = _mm512_loadu_si512(a), y = _mm512_loadu_si512(b);
    if constexpr (sizeof(T) == 2) {
        return k_signed ? _mm512_cmp_epi16_mask(x, y, Op::k_integers) : _mm512_cmp_epu16_mask(x, y, Op::k_integers);
    } else if constexpr (sizeof(T) == 4) {
        return bits_of(k_signed ? _mm512_cmp_epi32_mask(x, y, Op::k_integers) : _mm512_cmp_epu32_mask(x, y, Op::k_integers));
    } else {
        return bits_of(k_signed ? _mm512_cmp_epi64_mask(x, y, Op::k_integers) : _mm512_cmp_epu64_mask(x, y, Op::k_integers));
    }
}

/// The comparison of all lanes.
template <typename Op, typename T>
WL_INLINE uint32_t compare_rows(const T* a, const T* b) {
    constexpr uint32_t k_together = 64 / sizeof(T);
    uint32_t bits = 0;
    for (uint32_t l = 0; l < 32; l += k_together) bits |= compare_some<Op>(a + l, b + l) << l;
    return bits;
}
#endif

/// op[0] = predicate, op[1], op[2] sources.
template <typename Op, typename T, bool Ftz = false>
Flow setp(Warp& w, const Instr& i, uint32_t mask) {
    const T* a = source<T>(w, i.op[1]);
    const T* b = source<T>(w, i.op[2]);
#if defined(__AVX512F__)
    if constexpr (!Ftz) {
        set_predicate(w, i.op[0], compare_rows<Op, T>(a, b), mask);
        return Flow::next;
    }
#endif
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
