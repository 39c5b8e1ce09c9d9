// Integer arithmetic and logic. PTX ISA: Integer Arithmetic, Logic and Shift Instructions.
#include "softgpu/isa/level/level.h"
#include "softgpu/isa/level/tables.h"

namespace warpline::softgpu::isa::WL_LEVEL {

namespace {

template <typename T>
struct WideOf;
template <>
struct WideOf<u16> {
    using type = u32;
};
template <>
struct WideOf<s16> {
    using type = s32;
};
template <>
struct WideOf<u32> {
    using type = u64;
};
template <>
struct WideOf<s32> {
    using type = s64;
};
template <>
struct WideOf<u64> {
    using type = u128;
};
template <>
struct WideOf<s64> {
    using type = s128;
};
template <typename T>
using Wide = typename WideOf<T>::type;

// Sums and products are computed on unsigned types, where overflow wraps.
struct Add {
    template <typename T>
    static T run(T a, T b) {
        return T(a + b);
    }
};
struct Sub {
    template <typename T>
    static T run(T a, T b) {
        return T(a - b);
    }
};
struct And {
    template <typename T>
    static T run(T a, T b) {
        return T(a & b);
    }
};
struct Or {
    template <typename T>
    static T run(T a, T b) {
        return T(a | b);
    }
};
struct Xor {
    template <typename T>
    static T run(T a, T b) {
        return T(a ^ b);
    }
};
struct Not {
    template <typename T>
    static T run(T a) {
        return T(~a);
    }
};
struct CNot {
    template <typename T>
    static T run(T a) {
        return T(a == 0 ? 1 : 0);
    }
};
struct Neg {
    template <typename T>
    static T run(T a) {
        return T(T(0) - a);
    }
};
struct Min {
    template <typename T>
    static T run(T a, T b) {
        return a < b ? a : b;
    }
};
struct Max {
    template <typename T>
    static T run(T a, T b) {
        return a < b ? b : a;
    }
};
struct Abs16 {
    static u16 run(u16 a) { return s16(a) < 0 ? u16(0u - a) : a; }
};
struct Abs32 {
    static u32 run(u32 a) { return s32(a) < 0 ? 0u - a : a; }
};
struct Abs64 {
    static u64 run(u64 a) { return s64(a) < 0 ? u64{0} - a : a; }
};
struct MulLo16 {
    static u16 run(u16 a, u16 b) { return u16(u32{a} * u32{b}); }
};
struct MulLo {
    template <typename T>
    static T run(T a, T b) {
        return T(a * b);
    }
};
struct MulHi {
    template <typename T>
    static T run(T a, T b) {
        return T((Wide<T>(a) * Wide<T>(b)) >> (sizeof(T) * 8));
    }
};
struct MulWide {
    template <typename T>
    static Wide<T> run(T a, T b) {
        return Wide<T>(a) * Wide<T>(b);
    }
};
struct MadLo16 {
    static u16 run(u16 a, u16 b, u16 c) { return u16(u32{a} * u32{b} + c); }
};
struct MadLo {
    template <typename T>
    static T run(T a, T b, T c) {
        return T(a * b + c);
    }
};
struct MadHi {
    template <typename T>
    static T run(T a, T b, T c) {
        using U = Wide<T>;
        return T(u64(T((U(a) * U(b)) >> (sizeof(T) * 8))) + u64(c));
    }
};
template <typename T>
struct MadWide {
    using W = Wide<T>;
    template <typename C>
    static C run(T a, T b, C c) {
        return C(C(W(a) * W(b)) + c);
    }
};
struct Sad {
    template <typename T, typename C>
    static C run(T a, T b, C c) {
        return C(C(a < b ? C(b) - C(a) : C(a) - C(b)) + c);
    }
};
struct AddSat {
    static s32 run(s32 a, s32 b) {
        s64 sum = s64{a} + s64{b};
        return s32(sum < INT32_MIN ? INT32_MIN : sum > INT32_MAX ? INT32_MAX : sum);
    }
};
struct SubSat {
    static s32 run(s32 a, s32 b) {
        s64 difference = s64{a} - s64{b};
        return s32(difference < INT32_MIN ? INT32_MIN : difference > INT32_MAX ? INT32_MAX : difference);
    }
};

// Shifts: amounts beyond the width clamp.
struct Shl {
    template <typename T>
    static T run(T a, u32 b) {
        return b >= sizeof(T) * 8 ? T(0) : T(T(a) << b);
    }
};
struct ShrU {
    template <typename T>
    static T run(T a, u32 b) {
        return b >= sizeof(T) * 8 ? T(0) : T(a >> b);
    }
};
struct ShrS {
    template <typename T>
    static T run(T a, u32 b) {
        return T(a >> (b >= sizeof(T) * 8 ? sizeof(T) * 8 - 1 : b));
    }
};
// The funnel's two halves, in 32 bits: an amount of 0 (or 32, of the clamping forms) is within the range of each shift.
struct ShfLWrap {
    static u32 run(u32 a, u32 b, u32 c) { return b << (c & 31) | (a >> 1) >> (~c & 31); }
};
struct ShfLClamp {
    static u32 run(u32 a, u32 b, u32 c) { return c > 31 ? a : ShfLWrap::run(a, b, c); }
};
struct ShfRWrap {
    static u32 run(u32 a, u32 b, u32 c) { return a >> (c & 31) | (b << 1) << (~c & 31); }
};
struct ShfRClamp {
    static u32 run(u32 a, u32 b, u32 c) { return c > 31 ? b : ShfRWrap::run(a, b, c); }
};
struct Lop3 {
    static u32 run(u32 a, u32 b, u32 c, u32 table) {
        u32 out = 0;
        out |= (table & 0x01 ? ~u32{0} : 0) & ~a & ~b & ~c;
        out |= (table & 0x02 ? ~u32{0} : 0) & ~a & ~b & c;
        out |= (table & 0x04 ? ~u32{0} : 0) & ~a & b & ~c;
        out |= (table & 0x08 ? ~u32{0} : 0) & ~a & b & c;
        out |= (table & 0x10 ? ~u32{0} : 0) & a & ~b & ~c;
        out |= (table & 0x20 ? ~u32{0} : 0) & a & ~b & c;
        out |= (table & 0x40 ? ~u32{0} : 0) & a & b & ~c;
        out |= (table & 0x80 ? ~u32{0} : 0) & a & b & c;
        return out;
    }
};
struct Popc32 {
    static u32 run(u32 a) { return u32(__builtin_popcount(a)); }
};
struct Popc64 {
    static u32 run(u64 a) { return u32(__builtin_popcountll(a)); }
};
struct Clz32 {
    static u32 run(u32 a) { return a == 0 ? 32u : u32(__builtin_clz(a)); }
};
struct Clz64 {
    static u32 run(u64 a) { return a == 0 ? 64u : u32(__builtin_clzll(a)); }
};
struct Brev32 {
    static u32 run(u32 a) {
        a = (a >> 1 & 0x55555555u) | (a & 0x55555555u) << 1;
        a = (a >> 2 & 0x33333333u) | (a & 0x33333333u) << 2;
        a = (a >> 4 & 0x0f0f0f0fu) | (a & 0x0f0f0f0fu) << 4;
        return __builtin_bswap32(a);
    }
};
struct Brev64 {
    static u64 run(u64 a) { return u64{Brev32::run(u32(a))} << 32 | Brev32::run(u32(a >> 32)); }
};

/// mul.wide of 32 bits. Compilers widen both sides and then multiply 64 bits, which takes three times as long.
template <typename D, typename T>
Flow multiply_wide(Warp& w, const Instr& i, uint32_t mask) {
    const T* a = source<T>(w, i.op[1]);
    const T* b = source<T>(w, i.op[2]);
#if defined(__AVX512F__)
    alignas(64) D computed[32];
    D* d = dest<D>(w, i.op[0]);
    D* to = mask == k_full_mask ? d : computed;
    for (uint32_t l = 0; l < 32; l += 8) {
        // Only the low halves count. (gcc warns about the forms without a mask.)
        constexpr __mmask8 k_all = 0xff;
        const __m512i x = _mm512_maskz_cvtepu32_epi64(k_all, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a + l)));
        const __m512i y = _mm512_maskz_cvtepu32_epi64(k_all, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + l)));
        _mm512_storeu_si512(to + l, T(-1) < T(0) ? _mm512_maskz_mul_epi32(k_all, x, y) : _mm512_maskz_mul_epu32(k_all, x, y));
    }
    if (to != d) [[unlikely]]
        Select<8>::run(d, computed, d, mask);
    return Flow::next;
#else
    return fill(dest<D>(w, i.op[0]), mask, [=](uint32_t l) { return D(MulWide::run(a[l], b[l])); });
#endif
}

template <unsigned Bytes>
Flow select_row(Warp& w, const Instr& i, uint32_t mask) {
    using D = unsigned char;
    D* d = dest<D>(w, i.op[0]);
    const D* a = source<D>(w, i.op[1]);
    const D* b = source<D>(w, i.op[2]);
    uint32_t chosen = predicate(w, i.op[3]);
    if (mask == k_full_mask) {
        Select<Bytes>::run(d, a, b, chosen);
    } else {
        alignas(64) D row[Bytes * 32];
        Select<Bytes>::run(row, a, b, chosen);
        Select<Bytes>::run(d, row, d, mask);
    }
    return Flow::next;
}

template <unsigned Bytes>
Flow move_row(Warp& w, const Instr& i, uint32_t mask) {
    using D = unsigned char;
    D* d = dest<D>(w, i.op[0]);
    const D* a = source<D>(w, i.op[1]);
    if (mask == k_full_mask) {
        copy_row<Bytes * 32>(d, a);
    } else {
        Select<Bytes>::run(d, a, d, mask);
    }
    return Flow::next;
}

#define WL_U(name, op)                                                                    \
    WL_BINARY(name ".b16", op, u16, u16, u16), WL_BINARY(name ".b32", op, u32, u32, u32), \
        WL_BINARY(name ".b64", op, u64, u64, u64)
#define WL_BOTH(name, op)                                                                     \
    WL_BINARY(name ".u16", op, u16, u16, u16), WL_BINARY(name ".s16", op, u16, u16, u16),     \
        WL_BINARY(name ".u32", op, u32, u32, u32), WL_BINARY(name ".s32", op, u32, u32, u32), \
        WL_BINARY(name ".u64", op, u64, u64, u64), WL_BINARY(name ".s64", op, u64, u64, u64)
#define WL_SIGNED(name, op)                                                                   \
    WL_BINARY(name ".u16", op, u16, u16, u16), WL_BINARY(name ".s16", op, s16, s16, s16),     \
        WL_BINARY(name ".u32", op, u32, u32, u32), WL_BINARY(name ".s32", op, s32, s32, s32), \
        WL_BINARY(name ".u64", op, u64, u64, u64), WL_BINARY(name ".s64", op, s64, s64, s64)
#define WL_SHIFT(name, op, T) WL_BINARY(name, op, T, T, u32)
#define WL_SELECT(type, bytes) \
    { "selp." type, &select_row<bytes>, {out(bytes), in(bytes), in(bytes), in_pred()}, 0 }
#define WL_MOVE(type, bytes) \
    { "mov." type, &move_row<bytes>, {out(bytes), in(bytes)}, 0 }

const Row k_rows[] = {
    WL_BOTH("add", Add),
    WL_BOTH("sub", Sub),
    WL_BINARY("add.sat.s32", AddSat, s32, s32, s32),
    WL_BINARY("sub.sat.s32", SubSat, s32, s32, s32),
    WL_SIGNED("min", Min),
    WL_SIGNED("max", Max),
    WL_U("and", And),
    WL_U("or", Or),
    WL_U("xor", Xor),
    WL_UNARY("not.b16", Not, u16, u16),
    WL_UNARY("not.b32", Not, u32, u32),
    WL_UNARY("not.b64", Not, u64, u64),
    WL_UNARY("cnot.b16", CNot, u16, u16),
    WL_UNARY("cnot.b32", CNot, u32, u32),
    WL_UNARY("cnot.b64", CNot, u64, u64),
    WL_UNARY("neg.s16", Neg, u16, u16),
    WL_UNARY("neg.s32", Neg, u32, u32),
    WL_UNARY("neg.s64", Neg, u64, u64),
    WL_UNARY("abs.s16", Abs16, u16, u16),
    WL_UNARY("abs.s32", Abs32, u32, u32),
    WL_UNARY("abs.s64", Abs64, u64, u64),
    WL_BINARY("mul.lo.u16", MulLo16, u16, u16, u16),
    WL_BINARY("mul.lo.s16", MulLo16, u16, u16, u16),
    WL_BINARY("mul.lo.u32", MulLo, u32, u32, u32),
    WL_BINARY("mul.lo.s32", MulLo, u32, u32, u32),
    WL_BINARY("mul.lo.u64", MulLo, u64, u64, u64),
    WL_BINARY("mul.lo.s64", MulLo, u64, u64, u64),
    WL_SIGNED("mul.hi", MulHi),
    WL_BINARY("mul.wide.u16", MulWide, u32, u16, u16),
    WL_BINARY("mul.wide.s16", MulWide, s32, s16, s16),
    {"mul.wide.u32", &multiply_wide<u64, u32>, {out(8), in(4), in(4)}, 0},
    {"mul.wide.s32", &multiply_wide<s64, s32>, {out(8), in(4), in(4)}, 0},
    WL_TERNARY("mad.lo.u16", MadLo16, u16, u16, u16, u16),
    WL_TERNARY("mad.lo.s16", MadLo16, u16, u16, u16, u16),
    WL_TERNARY("mad.lo.u32", MadLo, u32, u32, u32, u32),
    WL_TERNARY("mad.lo.s32", MadLo, u32, u32, u32, u32),
    WL_TERNARY("mad.lo.u64", MadLo, u64, u64, u64, u64),
    WL_TERNARY("mad.lo.s64", MadLo, u64, u64, u64, u64),
    WL_TERNARY("mad.hi.u16", MadHi, u16, u16, u16, u16),
    WL_TERNARY("mad.hi.s16", MadHi, s16, s16, s16, s16),
    WL_TERNARY("mad.hi.u32", MadHi, u32, u32, u32, u32),
    WL_TERNARY("mad.hi.s32", MadHi, s32, s32, s32, s32),
    WL_TERNARY("mad.hi.u64", MadHi, u64, u64, u64, u64),
    WL_TERNARY("mad.hi.s64", MadHi, s64, s64, s64, s64),
    WL_TERNARY("mad.wide.u16", MadWide<u16>, u32, u16, u16, u32),
    WL_TERNARY("mad.wide.s16", MadWide<s16>, u32, s16, s16, u32),
    WL_TERNARY("mad.wide.u32", MadWide<u32>, u64, u32, u32, u64),
    WL_TERNARY("mad.wide.s32", MadWide<s32>, u64, s32, s32, u64),
    WL_TERNARY("sad.u16", Sad, u16, u16, u16, u16),
    WL_TERNARY("sad.s16", Sad, u16, s16, s16, u16),
    WL_TERNARY("sad.u32", Sad, u32, u32, u32, u32),
    WL_TERNARY("sad.s32", Sad, u32, s32, s32, u32),
    WL_TERNARY("sad.u64", Sad, u64, u64, u64, u64),
    WL_TERNARY("sad.s64", Sad, u64, s64, s64, u64),
    WL_SHIFT("shl.b16", Shl, u16),
    WL_SHIFT("shl.b32", Shl, u32),
    WL_SHIFT("shl.b64", Shl, u64),
    WL_SHIFT("shr.b16", ShrU, u16),
    WL_SHIFT("shr.b32", ShrU, u32),
    WL_SHIFT("shr.b64", ShrU, u64),
    WL_SHIFT("shr.u16", ShrU, u16),
    WL_SHIFT("shr.u32", ShrU, u32),
    WL_SHIFT("shr.u64", ShrU, u64),
    WL_SHIFT("shr.s16", ShrS, s16),
    WL_SHIFT("shr.s32", ShrS, s32),
    WL_SHIFT("shr.s64", ShrS, s64),
    WL_TERNARY("shf.l.wrap.b32", ShfLWrap, u32, u32, u32, u32),
    WL_TERNARY("shf.l.clamp.b32", ShfLClamp, u32, u32, u32, u32),
    WL_TERNARY("shf.r.wrap.b32", ShfRWrap, u32, u32, u32, u32),
    WL_TERNARY("shf.r.clamp.b32", ShfRClamp, u32, u32, u32, u32),
    {"lop3.b32", &ternary_imm<Lop3, u32, u32, u32, u32>, {out(4), in(4), in(4), in(4), imm()}, 0},
    WL_UNARY("popc.b32", Popc32, u32, u32),
    WL_UNARY("popc.b64", Popc64, u32, u64),
    WL_UNARY("clz.b32", Clz32, u32, u32),
    WL_UNARY("clz.b64", Clz64, u32, u64),
    WL_UNARY("brev.b32", Brev32, u32, u32),
    WL_UNARY("brev.b64", Brev64, u64, u64),
    WL_SELECT("b16", 2),
    WL_SELECT("u16", 2),
    WL_SELECT("s16", 2),
    WL_SELECT("b32", 4),
    WL_SELECT("u32", 4),
    WL_SELECT("s32", 4),
    WL_SELECT("f32", 4),
    WL_SELECT("b64", 8),
    WL_SELECT("u64", 8),
    WL_SELECT("s64", 8),
    WL_SELECT("f64", 8),
    WL_MOVE("b16", 2),
    WL_MOVE("u16", 2),
    WL_MOVE("s16", 2),
    WL_MOVE("f16", 2),
    WL_MOVE("bf16", 2),
    WL_MOVE("b32", 4),
    WL_MOVE("u32", 4),
    WL_MOVE("s32", 4),
    WL_MOVE("f32", 4),
    WL_MOVE("b64", 8),
    WL_MOVE("u64", 8),
    WL_MOVE("s64", 8),
    WL_MOVE("f64", 8),
    WL_MOVE("b128", 16),
    {"$move.2", &move_row<2>, {}, 0},
    {"$move.4", &move_row<4>, {}, 0},
    {"$move.8", &move_row<8>, {}, 0},
    {"$move.16", &move_row<16>, {}, 0},
};

}  // namespace

Rows integer_rows() { return WL_ROWS(k_rows); }

}  // namespace warpline::softgpu::isa::WL_LEVEL
