// Bit fields, bytes put together, dot products of bytes, pairs of 16 bits. PTX ISA: bfe, bfi, bfind, prmt, dp4a, dp2a. Forms
// that are rare are in integer_ops.cpp.
#include "softgpu/isa/level/level.h"
#include "softgpu/isa/level/tables.h"

namespace warpline::softgpu::isa::WL_LEVEL {

namespace {

template <typename T>
struct UnsignedOf {
    using type = T;
};
template <>
struct UnsignedOf<s32> {
    using type = u32;
};
template <>
struct UnsignedOf<s64> {
    using type = u64;
};
template <typename T>
using Unsigned = typename UnsignedOf<T>::type;
template <typename T>
constexpr bool k_signed = T(-1) < T(0);
template <typename T>
constexpr u32 k_bits = sizeof(T) * 8;

/// The field is shifted to the top and back, which fills it with its highest bit (or zeros). What of it lies beyond the source
/// is copies of the source's sign (or zeros): what a shift brings in.
struct ExtractField {
    template <typename T>
    static T run(T a, u32 b, u32 c) {
        const u32 start = b & 0xff, length = c & 0xff, most = k_bits<T> - 1;
        const T shifted = T(a >> (start < most ? start : most));
        const T value = k_signed<T> || start <= most ? shifted : T(0);
        const u32 spare = length < k_bits<T> ? (k_bits<T> - length) & most : 0;
        const T field = T(T(Unsigned<T>(value) << spare) >> spare);
        return length == 0 ? T(0) : field;
    }
};

struct InsertField {
    template <typename T>
    static T run(T a, T b, u32 c, u32 d) {
        const u32 start = c & 0xff, length = d & 0xff, most = k_bits<T> - 1;
        const T ones = T(~T(0)) >> (length < k_bits<T> ? (k_bits<T> - length) & most : 0);
        const T field = length == 0 || start > most ? T(0) : T(ones << (start & most));
        return T((b & T(~field)) | (T(a << (start & most)) & field));
    }
};

/// Position of the highest significant bit: the highest 1, or for negative numbers the highest 0.
template <bool ShiftAmount>
struct FindBit {
    template <typename T>
    static u32 run(T a) {
        const auto value = Unsigned<T>(k_signed<T> && a < T(0) ? T(~a) : a);
        const u32 zeros = sizeof(T) == 8 ? u32(__builtin_clzll(u64(value) | 1)) : u32(__builtin_clz(u32(value) | 1));
        return value == 0 ? ~u32{0} : ShiftAmount ? zeros : k_bits<T> - 1 - zeros;
    }
};

/// One byte of the result, in its place: of a (0 to 3) or b (4 to 7), or copies of its sign.
WL_INLINE u32 pick_byte(u32 a, u32 b, u32 choice, u32 place) {
    const u32 word = (choice & 4) != 0 ? b : a;
    const u32 byte = word >> (8 * (choice & 3)) & 0xff;
    const u32 sign = (byte >> 7) * 0xff;
    return ((choice & 8) != 0 ? sign : byte) << (8 * place);
}
struct PickBytes {
    static u32 run(u32 a, u32 b, u32 c) {
        return pick_byte(a, b, c, 0) | pick_byte(a, b, c >> 4, 1) | pick_byte(a, b, c >> 8, 2) | pick_byte(a, b, c >> 12, 3);
    }
};

/// prmt. Selectors are nearly always a constant: then each byte is a shift by the same amount in all lanes.
Flow pick_bytes(Warp& w, const Instr& i, uint32_t mask) {
    const u32* a = source<u32>(w, i.op[1]);
    const u32* b = source<u32>(w, i.op[2]);
    const u32* c = source<u32>(w, i.op[3]);
    u32* d = dest<u32>(w, i.op[0]);
    if (i.op[3] >= 0) return fill(d, mask, [=](uint32_t l) { return PickBytes::run(a[l], b[l], c[l]); });
    const u32 selector = c[0];
    const bool signs = (selector & 0x8888) != 0;
    const u32* word[4];
    u32 shift[4];
    for (u32 n = 0; n < 4; ++n) {
        const u32 choice = selector >> (4 * n);
        word[n] = (choice & 4) != 0 ? b : a;
        shift[n] = 8 * (choice & 3);
    }
    if (signs) return fill(d, mask, [=](uint32_t l) { return PickBytes::run(a[l], b[l], selector); });
    const u32 *w0 = word[0], *w1 = word[1], *w2 = word[2], *w3 = word[3];
    const u32 s0 = shift[0], s1 = shift[1], s2 = shift[2], s3 = shift[3];
    return fill(d, mask, [=](uint32_t l) {
        return (w0[l] >> s0 & 0xff) | (w1[l] >> s1 & 0xff) << 8 | (w2[l] >> s2 & 0xff) << 16 | w3[l] >> s3 << 24;
    });
}

/// Sums of products that fit 32 bits, where overflow wraps.
template <typename A, typename B>
struct DotBytes {
    static u32 run(u32 a, u32 b, u32 c) {
        for (u32 n = 0; n < 32; n += 8) c += u32(s32(A(a >> n)) * s32(B(b >> n)));
        return c;
    }
};
template <typename A16, typename B, u32 Shift>
struct DotPairs {
    static u32 run(u32 a, u32 b, u32 c) {
        for (u32 n = 0; n < 2; ++n) c += u32(s32(A16(a >> (16 * n)))) * u32(s32(B(b >> (8 * n + Shift))));
        return c;
    }
};

/// add, min, max of pairs of 16 bits.
struct PairAdd {
    static u32 run(u32 a, u32 b) { return ((a + b) & 0xffff) | ((a >> 16) + (b >> 16)) << 16; }
};
template <typename T, bool Greater>
struct PairPick {
    static u32 run(u32 a, u32 b) {
        const T a0 = T(a), a1 = T(a >> 16), b0 = T(b), b1 = T(b >> 16);
        const T low = (a0 < b0) == Greater ? b0 : a0, high = (a1 < b1) == Greater ? b1 : a1;
        return u32(u16(low)) | u32(u16(high)) << 16;
    }
};

template <typename T>
Flow insert_field(Warp& w, const Instr& i, uint32_t mask) {
    const T* a = source<T>(w, i.op[1]);
    const T* b = source<T>(w, i.op[2]);
    const u32* c = source<u32>(w, i.op[3]);
    const u32* d = source<u32>(w, i.op[4]);
    return fill(dest<T>(w, i.op[0]), mask, [=](uint32_t l) { return InsertField::run(a[l], b[l], c[l], d[l]); });
}

#define WL_BFE(type, T) WL_TERNARY("bfe." type, ExtractField, T, T, u32, u32)
#define WL_BFI(type, T) \
    { "bfi." type, &insert_field<T>, {out(sizeof(T)), in(sizeof(T)), in(sizeof(T)), in(4), in(4)}, 0 }
#define WL_BFIND(type, T) \
    WL_UNARY("bfind." type, FindBit<false>, u32, T), WL_UNARY("bfind.shiftamt." type, FindBit<true>, u32, T)
#define WL_PAIRS(name, ...) \
    { name, &binary<__VA_ARGS__, u32, u32, u32>, {out(4), in(4), in(4)}, 0 }
#define WL_DOT(name, ...) \
    { name, &ternary<__VA_ARGS__, u32, u32, u32, u32>, {out(4), in(4), in(4), in(4)}, 0 }
#define WL_DOTS(a, b, A, A16, B)                                                              \
    WL_DOT("dp4a." a "." b, DotBytes<A, B>), WL_DOT("dp2a.lo." a "." b, DotPairs<A16, B, 0>), \
        WL_DOT("dp2a.hi." a "." b, DotPairs<A16, B, 16>)

const Row k_rows[] = {
    WL_BFE("u32", u32),
    WL_BFE("s32", s32),
    WL_BFE("u64", u64),
    WL_BFE("s64", s64),
    WL_BFI("b32", u32),
    WL_BFI("b64", u64),
    WL_BFIND("u32", u32),
    WL_BFIND("s32", s32),
    WL_BFIND("u64", u64),
    WL_BFIND("s64", s64),
    {"prmt.b32", &pick_bytes, {out(4), in(4), in(4), in(4)}, 0},
    WL_BINARY("add.u16x2", PairAdd, u32, u32, u32),
    WL_BINARY("add.s16x2", PairAdd, u32, u32, u32),
    WL_PAIRS("min.u16x2", PairPick<u16, false>),
    WL_PAIRS("min.s16x2", PairPick<s16, false>),
    WL_PAIRS("max.u16x2", PairPick<u16, true>),
    WL_PAIRS("max.s16x2", PairPick<s16, true>),
    WL_DOTS("u32", "u32", u8, u16, u8),
    WL_DOTS("u32", "s32", u8, u16, s8),
    WL_DOTS("s32", "u32", s8, s16, u8),
    WL_DOTS("s32", "s32", s8, s16, s8),
};

}  // namespace

Rows bits_rows() { return WL_ROWS(k_rows); }

}  // namespace warpline::softgpu::isa::WL_LEVEL
