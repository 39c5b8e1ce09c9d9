// The hot part of floating-point arithmetic: round to nearest even, with and without flushing. The rest is in isa/float_*.cpp.
#include "softgpu/isa/level/careful.h"
#include "softgpu/isa/level/functions.h"
#include "softgpu/isa/level/tables.h"

namespace warpline::softgpu::isa::WL_LEVEL {

namespace {

// The GPU gives one quiet NaN for every invalid f32 operation (CUDA C++ Programming Guide, Floating-Point Standard).
WL_INLINE f32 canonical(f32 value) { return value == value ? value : __builtin_bit_cast(f32, 0x7fffffffu); }
WL_INLINE f64 canonical(f64 value) { return value; }

template <bool Ftz>
WL_INLINE f32 flush(f32 value) {
    if constexpr (!Ftz) return value;
    return __builtin_fabsf(value) < __FLT_MIN__ ? __builtin_copysignf(0.0f, value) : value;
}
template <bool Ftz>
WL_INLINE f64 flush(f64 value) {
    return value;
}

struct Add {
    static constexpr bool k_careful = false;
    template <typename T>
    static T run(T a, T b) {
        return a + b;
    }
};
struct Sub {
    static constexpr bool k_careful = false;
    template <typename T>
    static T run(T a, T b) {
        return a - b;
    }
};
// What is slow on denormals has a second form, for where they turn up.
struct Mul {
    static constexpr bool k_careful = true;
    template <typename T>
    static T run(T a, T b) {
        return a * b;
    }
    static f32 careful(f32 a, f32 b) { return careful_product(a, b); }
    static f64 careful(f64 a, f64 b) { return a * b; }
};
struct Div {
    static constexpr bool k_careful = true;
    template <typename T>
    static T run(T a, T b) {
        return a / b;
    }
    static f32 careful(f32 a, f32 b) { return careful_quotient(a, b); }
    static f64 careful(f64 a, f64 b) { return a / b; }
};
struct Fma {
    static constexpr bool k_careful = true;
    static f32 run(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
    static f64 run(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
    static f32 careful(f32 a, f32 b, f32 c) { return careful_fma(a, b, c); }
    static f64 careful(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
};
struct Sqrt {
    static constexpr bool k_careful = true;
    static f32 run(f32 a) { return __builtin_sqrtf(a); }
    static f64 run(f64 a) { return __builtin_sqrt(a); }
    static f32 careful(f32 a) { return careful_root(a); }
    static f64 careful(f64 a) { return __builtin_sqrt(a); }
};
struct Rcp {
    static constexpr bool k_careful = true;
    template <typename T>
    static T run(T a) {
        return T(1) / a;
    }
    static f32 careful(f32 a) { return careful_quotient(1.0f, a); }
    static f64 careful(f64 a) { return 1.0 / a; }
};
/// The careful forms: f32 by their own arithmetic, f64 with nothing in the lanes that take no part.
template <typename Op, typename T, bool Ftz>
[[gnu::noinline]] Flow careful1(Warp& w, const Instr& i, uint32_t mask) {
    alignas(64) T spare[32];
    const T* a = only_active(source<T>(w, i.op[1]), mask, spare);
    return fill(dest<T>(w, i.op[0]), mask, [=](uint32_t l) { return canonical(flush<Ftz>(Op::careful(flush<Ftz>(a[l])))); });
}
template <typename Op, typename T, bool Ftz>
[[gnu::noinline]] Flow careful2(Warp& w, const Instr& i, uint32_t mask) {
    alignas(64) T spare[2][32];
    const T* a = only_active(source<T>(w, i.op[1]), mask, spare[0]);
    const T* b = only_active(source<T>(w, i.op[2]), mask, spare[1]);
    return fill(dest<T>(w, i.op[0]), mask,
                [=](uint32_t l) { return canonical(flush<Ftz>(Op::careful(flush<Ftz>(a[l]), flush<Ftz>(b[l])))); });
}
template <typename Op, typename T, bool Ftz>
[[gnu::noinline]] Flow careful3(Warp& w, const Instr& i, uint32_t mask) {
    alignas(64) T spare[3][32];
    const T* a = only_active(source<T>(w, i.op[1]), mask, spare[0]);
    const T* b = only_active(source<T>(w, i.op[2]), mask, spare[1]);
    const T* c = only_active(source<T>(w, i.op[3]), mask, spare[2]);
    if constexpr (sizeof(T) == 4) {
        uint32_t met = 0;
        WL_LANES(l) met |= may_meet_denormals(a[l], b[l], c[l]);
        if (met == 0) {
            return fill(dest<T>(w, i.op[0]), mask, [=](uint32_t l) {
                return canonical(flush<Ftz>(Op::run(flush<Ftz>(a[l]), flush<Ftz>(b[l]), flush<Ftz>(c[l]))));
            });
        }
    }
    return fill(dest<T>(w, i.op[0]), mask, [=](uint32_t l) {
        return canonical(flush<Ftz>(Op::careful(flush<Ftz>(a[l]), flush<Ftz>(b[l]), flush<Ftz>(c[l]))));
    });
}

template <typename Op, typename T, bool Ftz>
Flow arithmetic1(Warp& w, const Instr& i, uint32_t mask) {
    if constexpr (Op::k_careful) {
        if (w.careful) [[unlikely]]
            return careful1<Op, T, Ftz>(w, i, mask);
    }
    const T* a = source<T>(w, i.op[1]);
    return fill(dest<T>(w, i.op[0]), mask, [=](uint32_t l) { return canonical(flush<Ftz>(Op::run(flush<Ftz>(a[l])))); });
}
template <typename Op, typename T, bool Ftz>
Flow arithmetic2(Warp& w, const Instr& i, uint32_t mask) {
    if constexpr (Op::k_careful) {
        if (w.careful) [[unlikely]]
            return careful2<Op, T, Ftz>(w, i, mask);
    }
    const T* a = source<T>(w, i.op[1]);
    const T* b = source<T>(w, i.op[2]);
    return fill(dest<T>(w, i.op[0]), mask,
                [=](uint32_t l) { return canonical(flush<Ftz>(Op::run(flush<Ftz>(a[l]), flush<Ftz>(b[l])))); });
}
template <typename Op, typename T, bool Ftz>
Flow arithmetic3(Warp& w, const Instr& i, uint32_t mask) {
    if constexpr (Op::k_careful) {
        if (w.careful) [[unlikely]]
            return careful3<Op, T, Ftz>(w, i, mask);
    }
    const T* a = source<T>(w, i.op[1]);
    const T* b = source<T>(w, i.op[2]);
    const T* c = source<T>(w, i.op[3]);
    return fill(dest<T>(w, i.op[0]), mask, [=](uint32_t l) {
        return canonical(flush<Ftz>(Op::run(flush<Ftz>(a[l]), flush<Ftz>(b[l]), flush<Ftz>(c[l]))));
    });
}

struct RcpApprox {
    static constexpr bool k_careful = true;
    static f32 run(f32 a) { return 1.0f / a; }
    static f32 careful(f32 a) { return careful_quotient(1.0f, a); }
};
struct SqrtApprox {
    static constexpr bool k_careful = true;
    static f32 run(f32 a) { return __builtin_sqrtf(a); }
    static f32 careful(f32 a) { return careful_root(a); }
};
struct RsqrtApprox {
    static constexpr bool k_careful = false;
    static f32 run(f32 a) { return f32(1.0 / __builtin_sqrt(f64(a))); }
};

struct Ex2Approx {
    static constexpr bool k_careful = false;
    static f32 run(f32 a) {
        // Beyond these bounds float overflows, or rounds to zero. A NaN passes.
        const f64 x = f64(a);
        return f32(power_of_two(x < -160.0 ? -160.0 : x > 130.0 ? 130.0 : x));
    }
};
struct TanhApprox {
    static constexpr bool k_careful = false;
    static f32 run(f32 a) { return f32(hyperbolic_tangent(f64(a))); }
};
template <unsigned Turn, bool Ftz>
Flow sine_row(Warp& w, const Instr& i, uint32_t mask) {
    const f32* a = source<f32>(w, i.op[1]);
    alignas(64) f32 angle[32];
    WL_LANES(l) angle[l] = flush<Ftz>(a[l]);
    f32* d = dest<f32>(w, i.op[0]);
    fill(d, mask, [&](uint32_t l) { return canonical(flush<Ftz>(f32(sine<Turn>(f64(angle[l]))))); });
    // Angles of many turns, and what is no number, are left to the C library.
    uint32_t rest = ballot([&](uint32_t l) { return !(__builtin_fabs(f64(angle[l])) < k_most_angle); }) & mask;
    for (; rest != 0; rest &= rest - 1) {
        const auto l = uint32_t(__builtin_ctz(rest));
        const f64 x = f64(angle[l]);
        d[l] = canonical(flush<Ftz>(f32(Turn == 0 ? __builtin_sin(x) : __builtin_cos(x))));
    }
    return Flow::next;
}
struct Lg2Approx {
    static constexpr bool k_careful = false;
    static f32 run(f32 a) {
        const f64 value = f64(a);  // denormals of float are none of double
        const uint64_t bits = __builtin_bit_cast(uint64_t, value);
        // value = m 2^e with m from sqrt(1/2) to sqrt(2)
        constexpr uint64_t k_half_root = 0x3fe6a09e667f3bcd, k_one = uint64_t{1023} << 52;
        const uint64_t biased = (bits - k_half_root + k_one) >> 52;
        const f64 m = __builtin_bit_cast(f64, bits - (biased << 52) + k_one);
        const f64 e = __builtin_bit_cast(f64, biased | 0x4330000000000000u) - (0x1p52 + 1023.0);
        // log2(m) = 2 / ln 2 * atanh(s): the first term left out is below 2^-39 of the first.
        const f64 s = (m - 1.0) / (m + 1.0), q = s * s;
        f64 p = 1.0 / 13.0;
        p = p * q + 1.0 / 11.0;
        p = p * q + 1.0 / 9.0;
        p = p * q + 1.0 / 7.0;
        p = p * q + 1.0 / 5.0;
        p = p * q + 1.0 / 3.0;
        p = p * q + 1.0;
        const auto result = f32(e + 2.8853900817779268 * s * p);
        const f32 not_positive = a == 0.0f ? -__builtin_inff() : __builtin_nanf("");
        return a > 0.0f ? (a > __FLT_MAX__ ? a : result) : not_positive;
    }
};

// A NaN operand loses; -0 is less than +0. With Nan, a NaN operand wins.
template <typename T, bool Largest>
WL_INLINE T select_extreme(T a, T b) {
    // Equal values may be zeros of different sign: and'ing or or'ing the bits gives the larger or smaller one.
    using U = decltype([] {
        if constexpr (sizeof(T) == 4)
            return uint32_t{};
        else
            return uint64_t{};
    }());
    const U bits =
        Largest ? (__builtin_bit_cast(U, a) & __builtin_bit_cast(U, b)) : (__builtin_bit_cast(U, a) | __builtin_bit_cast(U, b));
    T chosen = (Largest ? a > b : a < b) ? a : b;
    return a == b ? __builtin_bit_cast(T, bits) : chosen;
}
template <bool Largest, bool Nan>
struct Extreme {
    static constexpr bool k_careful = false;
    template <typename T>
    static T run(T a, T b) {
        T chosen = select_extreme<T, Largest>(a, b);
        if constexpr (Nan) return a != a ? a : b != b ? b : chosen;
        return a != a ? b : b != b ? a : chosen;
    }
};
using Min = Extreme<false, false>;
using Max = Extreme<true, false>;
using MinNan = Extreme<false, true>;
using MaxNan = Extreme<true, true>;

// Sign bits only: no arithmetic, so NaN and zero keep their bits.
Flow neg32(Warp& w, const Instr& i, uint32_t mask) {
    const uint32_t* a = source<uint32_t>(w, i.op[1]);
    return fill(dest<uint32_t>(w, i.op[0]), mask, [=](uint32_t l) { return a[l] ^ 0x80000000u; });
}
Flow abs32(Warp& w, const Instr& i, uint32_t mask) {
    const uint32_t* a = source<uint32_t>(w, i.op[1]);
    return fill(dest<uint32_t>(w, i.op[0]), mask, [=](uint32_t l) { return a[l] & 0x7fffffffu; });
}
Flow neg64(Warp& w, const Instr& i, uint32_t mask) {
    const uint64_t* a = source<uint64_t>(w, i.op[1]);
    return fill(dest<uint64_t>(w, i.op[0]), mask, [=](uint32_t l) { return a[l] ^ 0x8000000000000000u; });
}
Flow abs64(Warp& w, const Instr& i, uint32_t mask) {
    const uint64_t* a = source<uint64_t>(w, i.op[1]);
    return fill(dest<uint64_t>(w, i.op[0]), mask, [=](uint32_t l) { return a[l] & 0x7fffffffffffffffu; });
}

/// neg.ftz, abs.ftz.
template <bool Negate>
Flow sign_ftz(Warp& w, const Instr& i, uint32_t mask) {
    const f32* a = source<f32>(w, i.op[1]);
    return fill(dest<uint32_t>(w, i.op[0]), mask, [=](uint32_t l) {
        const auto bits = __builtin_bit_cast(uint32_t, flush<true>(a[l]));
        return Negate ? bits ^ 0x80000000u : bits & 0x7fffffffu;
    });
}
/// copysign d, a, b: the sign of a, the rest of b.
template <typename U>
Flow copy_sign(Warp& w, const Instr& i, uint32_t mask) {
    constexpr U k_sign = U(1) << (sizeof(U) * 8 - 1);
    const U* a = source<U>(w, i.op[1]);
    const U* b = source<U>(w, i.op[2]);
    return fill(dest<U>(w, i.op[0]), mask, [=](uint32_t l) { return U((a[l] & k_sign) | (b[l] & ~k_sign)); });
}

#define WL_FLOAT2(name, op)                                                           \
    {name ".f32", &arithmetic2<op, f32, false>, {out(4), in(4), in(4)}, 0},           \
        {name ".rn.f32", &arithmetic2<op, f32, false>, {out(4), in(4), in(4)}, 0},    \
        {name ".ftz.f32", &arithmetic2<op, f32, true>, {out(4), in(4), in(4)}, 0},    \
        {name ".rn.ftz.f32", &arithmetic2<op, f32, true>, {out(4), in(4), in(4)}, 0}, \
        {name ".f64", &arithmetic2<op, f64, false>, {out(8), in(8), in(8)}, 0}, {     \
        name ".rn.f64", &arithmetic2<op, f64, false>, {out(8), in(8), in(8)}, 0       \
    }
#define WL_FLOAT1(name, op)                                                      \
    {name ".rn.f32", &arithmetic1<op, f32, false>, {out(4), in(4)}, 0},          \
        {name ".rn.ftz.f32", &arithmetic1<op, f32, true>, {out(4), in(4)}, 0}, { \
        name ".rn.f64", &arithmetic1<op, f64, false>, {out(8), in(8)}, 0         \
    }

const Row k_rows[] = {
    WL_FLOAT2("add", Add),
    WL_FLOAT2("sub", Sub),
    WL_FLOAT2("mul", Mul),
    {"fma.rn.f32", &arithmetic3<Fma, f32, false>, {out(4), in(4), in(4), in(4)}, 0},
    {"fma.rn.ftz.f32", &arithmetic3<Fma, f32, true>, {out(4), in(4), in(4), in(4)}, 0},
    {"fma.rn.f64", &arithmetic3<Fma, f64, false>, {out(8), in(8), in(8), in(8)}, 0},
    {"mad.rn.f32", &arithmetic3<Fma, f32, false>, {out(4), in(4), in(4), in(4)}, 0},
    {"mad.rn.ftz.f32", &arithmetic3<Fma, f32, true>, {out(4), in(4), in(4), in(4)}, 0},
    {"mad.rn.f64", &arithmetic3<Fma, f64, false>, {out(8), in(8), in(8), in(8)}, 0},
    {"div.rn.f32", &arithmetic2<Div, f32, false>, {out(4), in(4), in(4)}, 0},
    {"div.rn.ftz.f32", &arithmetic2<Div, f32, true>, {out(4), in(4), in(4)}, 0},
    {"div.rn.f64", &arithmetic2<Div, f64, false>, {out(8), in(8), in(8)}, 0},
    WL_FLOAT1("sqrt", Sqrt),
    WL_FLOAT1("rcp", Rcp),
    {"rcp.approx.f32", &arithmetic1<RcpApprox, f32, false>, {out(4), in(4)}, 0},
    {"rcp.approx.ftz.f32", &arithmetic1<RcpApprox, f32, true>, {out(4), in(4)}, 0},
    {"sqrt.approx.f32", &arithmetic1<SqrtApprox, f32, false>, {out(4), in(4)}, 0},
    {"sqrt.approx.ftz.f32", &arithmetic1<SqrtApprox, f32, true>, {out(4), in(4)}, 0},
    {"rsqrt.approx.f32", &arithmetic1<RsqrtApprox, f32, false>, {out(4), in(4)}, 0},
    {"rsqrt.approx.ftz.f32", &arithmetic1<RsqrtApprox, f32, true>, {out(4), in(4)}, 0},
    {"ex2.approx.f32", &arithmetic1<Ex2Approx, f32, false>, {out(4), in(4)}, 0},
    {"ex2.approx.ftz.f32", &arithmetic1<Ex2Approx, f32, true>, {out(4), in(4)}, 0},
    {"lg2.approx.f32", &arithmetic1<Lg2Approx, f32, false>, {out(4), in(4)}, 0},
    {"lg2.approx.ftz.f32", &arithmetic1<Lg2Approx, f32, true>, {out(4), in(4)}, 0},
    {"tanh.approx.f32", &arithmetic1<TanhApprox, f32, false>, {out(4), in(4)}, 0},
    {"sin.approx.f32", &sine_row<0, false>, {out(4), in(4)}, 0},
    {"sin.approx.ftz.f32", &sine_row<0, true>, {out(4), in(4)}, 0},
    {"cos.approx.f32", &sine_row<1, false>, {out(4), in(4)}, 0},
    {"cos.approx.ftz.f32", &sine_row<1, true>, {out(4), in(4)}, 0},
    {"div.approx.f32", &arithmetic2<Div, f32, false>, {out(4), in(4), in(4)}, 0},
    {"div.approx.ftz.f32", &arithmetic2<Div, f32, true>, {out(4), in(4), in(4)}, 0},
    {"div.full.f32", &arithmetic2<Div, f32, false>, {out(4), in(4), in(4)}, 0},
    {"div.full.ftz.f32", &arithmetic2<Div, f32, true>, {out(4), in(4), in(4)}, 0},
    {"min.f32", &arithmetic2<Min, f32, false>, {out(4), in(4), in(4)}, 0},
    {"max.f32", &arithmetic2<Max, f32, false>, {out(4), in(4), in(4)}, 0},
    {"min.ftz.f32", &arithmetic2<Min, f32, true>, {out(4), in(4), in(4)}, 0},
    {"max.ftz.f32", &arithmetic2<Max, f32, true>, {out(4), in(4), in(4)}, 0},
    {"min.NaN.f32", &arithmetic2<MinNan, f32, false>, {out(4), in(4), in(4)}, 0},
    {"max.NaN.f32", &arithmetic2<MaxNan, f32, false>, {out(4), in(4), in(4)}, 0},
    {"min.ftz.NaN.f32", &arithmetic2<MinNan, f32, true>, {out(4), in(4), in(4)}, 0},
    {"max.ftz.NaN.f32", &arithmetic2<MaxNan, f32, true>, {out(4), in(4), in(4)}, 0},
    {"min.f64", &arithmetic2<Min, f64, false>, {out(8), in(8), in(8)}, 0},
    {"max.f64", &arithmetic2<Max, f64, false>, {out(8), in(8), in(8)}, 0},
    {"neg.f32", &neg32, {out(4), in(4)}, 0},
    {"neg.f64", &neg64, {out(8), in(8)}, 0},
    {"abs.f32", &abs32, {out(4), in(4)}, 0},
    {"neg.ftz.f32", &sign_ftz<true>, {out(4), in(4)}, 0},
    {"abs.ftz.f32", &sign_ftz<false>, {out(4), in(4)}, 0},
    {"copysign.f32", &copy_sign<uint32_t>, {out(4), in(4), in(4)}, 0},
    {"copysign.f64", &copy_sign<uint64_t>, {out(8), in(8), in(8)}, 0},
    {"abs.f64", &abs64, {out(8), in(8)}, 0},
};

}  // namespace

Rows float_rows() { return WL_ROWS(k_rows); }

}  // namespace warpline::softgpu::isa::WL_LEVEL
