// Integer instructions that are too rare for level/integer.cpp: bit fields, permutations, carries, dot products.
// PTX ISA: Integer Arithmetic, Extended-Precision Arithmetic, Logic and Shift Instructions.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "softgpu/isa/decode_helpers.h"
#include "softgpu/isa/families.h"

namespace warpline::softgpu::isa {

namespace {

using exec::dest;
using exec::source;

template <typename D, typename F>
Flow each(Warp& w, const Instr& i, uint32_t mask, F&& f) {
    D* d = dest<D>(w, i.op[0]);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto l = uint32_t(__builtin_ctz(rest));
        d[l] = D(f(l));
    }
    return Flow::next;
}

// --- bit fields

template <typename T>
Flow bfe(Warp& w, const Instr& i, uint32_t mask) {
    using U = std::make_unsigned_t<T>;
    constexpr uint32_t k_bits = sizeof(T) * 8;
    const T* a = source<T>(w, i.op[1]);
    const uint32_t* b = source<uint32_t>(w, i.op[2]);
    const uint32_t* c = source<uint32_t>(w, i.op[3]);
    return each<T>(w, i, mask, [&](uint32_t l) -> T {
        uint32_t start = b[l] & 0xff, length = c[l] & 0xff;
        if (length == 0) return 0;
        // Bits beyond the source are copies of its sign (or zero).
        U fill = std::is_signed_v<T> && a[l] < 0 ? ~U(0) : U(0);
        U value = start >= k_bits ? fill : U(U(a[l]) >> start);
        if (start > 0 && start < k_bits) value |= U(fill << (k_bits - start));
        if (length >= k_bits) return T(value);
        U low = U(value & ((U(1) << length) - 1));
        if (!std::is_signed_v<T>) return T(low);
        // The sign is the field's top bit, or the source's if the field reaches beyond it.
        bool negative = start + length > k_bits ? a[l] < 0 : (low >> (length - 1) & 1) != 0;
        return T(negative ? U(low | U(~U(0) << length)) : low);
    });
}

template <typename U>
Flow bfi(Warp& w, const Instr& i, uint32_t mask) {
    constexpr uint32_t k_bits = sizeof(U) * 8;
    const U* a = source<U>(w, i.op[1]);
    const U* b = source<U>(w, i.op[2]);
    const uint32_t* c = source<uint32_t>(w, i.op[3]);
    const uint32_t* d = source<uint32_t>(w, i.op[4]);
    return each<U>(w, i, mask, [&](uint32_t l) -> U {
        uint32_t start = c[l] & 0xff, length = d[l] & 0xff;
        if (length == 0 || start >= k_bits) return b[l];
        U field = length >= k_bits ? ~U(0) : U((U(1) << length) - 1);
        field = U(field << start);
        return U((b[l] & ~field) | (U(a[l] << start) & field));
    });
}

/// Position of the highest significant bit: the highest 1, or for negative numbers the highest 0.
template <typename T, bool ShiftAmount>
Flow bfind(Warp& w, const Instr& i, uint32_t mask) {
    using U = std::make_unsigned_t<T>;
    const T* a = source<T>(w, i.op[1]);
    return each<uint32_t>(w, i, mask, [&](uint32_t l) -> uint32_t {
        U value = std::is_signed_v<T> && a[l] < 0 ? U(~U(a[l])) : U(a[l]);
        if (value == 0) return 0xffffffffu;
        auto position = uint32_t(63 - __builtin_clzll(value));
        return ShiftAmount ? uint32_t(sizeof(T) * 8 - 1) - position : position;
    });
}

/// fns: the |offset|-th set bit from `base` upwards (or downwards).
Flow fns(Warp& w, const Instr& i, uint32_t mask) {
    const uint32_t* a = source<uint32_t>(w, i.op[1]);
    const uint32_t* base = source<uint32_t>(w, i.op[2]);
    const int32_t* offset = source<int32_t>(w, i.op[3]);
    return each<uint32_t>(w, i, mask, [&](uint32_t l) -> uint32_t {
        if (base[l] > 31) return 0xffffffffu;
        if (offset[l] == 0) return (a[l] >> base[l] & 1) != 0 ? base[l] : 0xffffffffu;
        int step = offset[l] > 0 ? 1 : -1, left = std::abs(std::clamp(offset[l], -64, 64));
        for (int at = int(base[l]); at >= 0 && at < 32; at += step) {
            if ((a[l] >> at & 1) != 0 && --left == 0) return uint32_t(at);
        }
        return 0xffffffffu;
    });
}

template <bool Wrap>
Flow bmsk(Warp& w, const Instr& i, uint32_t mask) {
    const uint32_t* a = source<uint32_t>(w, i.op[1]);
    const uint32_t* b = source<uint32_t>(w, i.op[2]);
    return each<uint32_t>(w, i, mask, [&](uint32_t l) -> uint32_t {
        uint32_t start = Wrap ? a[l] & 31 : std::min(a[l], 32u), length = Wrap ? b[l] & 31 : std::min(b[l], 32u);
        if (length == 0 || start >= 32) return 0;
        uint64_t ones = (1ull << length) - 1;
        return uint32_t(ones << start);
    });
}

template <typename T, bool Wrap>
Flow szext(Warp& w, const Instr& i, uint32_t mask) {
    const uint32_t* a = source<uint32_t>(w, i.op[1]);
    const uint32_t* b = source<uint32_t>(w, i.op[2]);
    return each<uint32_t>(w, i, mask, [&](uint32_t l) -> uint32_t {
        uint32_t length = Wrap ? b[l] & 31 : std::min(b[l], 32u);
        if (length == 0) return 0;
        if (length == 32) return a[l];
        uint32_t low = a[l] & ((1u << length) - 1);
        bool negative = std::is_signed_v<T> && (low >> (length - 1) & 1) != 0;
        return negative ? low | ~0u << length : low;
    });
}

// --- prmt

enum class Permute { index, f4e, b4e, rc8, ecl, ecr, rc16 };

uint32_t selector_of(Permute mode, uint32_t control) {
    constexpr uint16_t k_f4e[] = {0x3210, 0x4321, 0x5432, 0x6543};
    constexpr uint16_t k_b4e[] = {0x5670, 0x6701, 0x7012, 0x0123};
    constexpr uint16_t k_rc8[] = {0x0000, 0x1111, 0x2222, 0x3333};
    constexpr uint16_t k_ecl[] = {0x3210, 0x3211, 0x3222, 0x3333};
    constexpr uint16_t k_ecr[] = {0x0000, 0x1110, 0x2210, 0x3210};
    constexpr uint16_t k_rc16[] = {0x1010, 0x3232, 0x1010, 0x3232};
    switch (mode) {
        case Permute::f4e: return k_f4e[control & 3];
        case Permute::b4e: return k_b4e[control & 3];
        case Permute::rc8: return k_rc8[control & 3];
        case Permute::ecl: return k_ecl[control & 3];
        case Permute::ecr: return k_ecr[control & 3];
        case Permute::rc16: return k_rc16[control & 3];
        default: return control;
    }
}

template <Permute Mode>
Flow prmt(Warp& w, const Instr& i, uint32_t mask) {
    const uint32_t* a = source<uint32_t>(w, i.op[1]);
    const uint32_t* b = source<uint32_t>(w, i.op[2]);
    const uint32_t* c = source<uint32_t>(w, i.op[3]);
    return each<uint32_t>(w, i, mask, [&](uint32_t l) -> uint32_t {
        uint64_t bytes = uint64_t{b[l]} << 32 | a[l];
        uint32_t selector = selector_of(Mode, c[l]), out = 0;
        for (uint32_t n = 0; n < 4; ++n) {
            uint32_t choice = selector >> (4 * n) & 0xf;
            auto byte = uint32_t(bytes >> (8 * (choice & 7)) & 0xff);
            if ((choice & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;  // replicates the sign; only in the default mode
            out |= byte << (8 * n);
        }
        return out;
    });
}

// --- 24-bit products, dot products

template <typename T>
int64_t low24(T value) {
    if (std::is_signed_v<T>) return int64_t(int32_t(uint32_t(value) << 8) >> 8);
    return int64_t(uint32_t(value) & 0xffffff);
}
template <typename T, bool High>
uint32_t product24(T a, T b) {
    auto product = uint64_t(low24(a) * low24(b));
    return uint32_t(High ? product >> 16 : product);
}
template <typename T, bool High>
Flow mul24(Warp& w, const Instr& i, uint32_t mask) {
    const T* a = source<T>(w, i.op[1]);
    const T* b = source<T>(w, i.op[2]);
    return each<uint32_t>(w, i, mask, [&](uint32_t l) { return product24<T, High>(a[l], b[l]); });
}
template <typename T, bool High>
Flow mad24(Warp& w, const Instr& i, uint32_t mask) {
    const T* a = source<T>(w, i.op[1]);
    const T* b = source<T>(w, i.op[2]);
    const uint32_t* c = source<uint32_t>(w, i.op[3]);
    return each<uint32_t>(w, i, mask, [&](uint32_t l) { return product24<T, High>(a[l], b[l]) + c[l]; });
}
Flow mad24_hi_sat(Warp& w, const Instr& i, uint32_t mask) {
    const int32_t* a = source<int32_t>(w, i.op[1]);
    const int32_t* b = source<int32_t>(w, i.op[2]);
    const int32_t* c = source<int32_t>(w, i.op[3]);
    return each<int32_t>(w, i, mask, [&](uint32_t l) {
        int64_t sum = int64_t(int32_t(product24<int32_t, true>(a[l], b[l]))) + c[l];
        return int32_t(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX));
    });
}
Flow mad_hi_sat(Warp& w, const Instr& i, uint32_t mask) {
    const int32_t* a = source<int32_t>(w, i.op[1]);
    const int32_t* b = source<int32_t>(w, i.op[2]);
    const int32_t* c = source<int32_t>(w, i.op[3]);
    return each<int32_t>(w, i, mask, [&](uint32_t l) {
        int64_t sum = (int64_t{a[l]} * b[l] >> 32) + c[l];
        return int32_t(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX));
    });
}

template <typename A, typename B>
Flow dp4a(Warp& w, const Instr& i, uint32_t mask) {
    const uint32_t* a = source<uint32_t>(w, i.op[1]);
    const uint32_t* b = source<uint32_t>(w, i.op[2]);
    const uint32_t* c = source<uint32_t>(w, i.op[3]);
    return each<uint32_t>(w, i, mask, [&](uint32_t l) {
        uint32_t sum = c[l];
        for (uint32_t n = 0; n < 32; n += 8) sum += uint32_t(int32_t(A(a[l] >> n)) * int32_t(B(b[l] >> n)));
        return sum;
    });
}
template <typename A, typename B, bool High>
Flow dp2a(Warp& w, const Instr& i, uint32_t mask) {
    using A16 = std::conditional_t<std::is_signed_v<A>, int16_t, uint16_t>;
    const uint32_t* a = source<uint32_t>(w, i.op[1]);
    const uint32_t* b = source<uint32_t>(w, i.op[2]);
    const uint32_t* c = source<uint32_t>(w, i.op[3]);
    return each<uint32_t>(w, i, mask, [&](uint32_t l) {
        uint32_t pair = High ? b[l] >> 16 : b[l], sum = c[l];
        for (uint32_t n = 0; n < 2; ++n) sum += uint32_t(int64_t(A16(a[l] >> (16 * n))) * int64_t(B(pair >> (8 * n))));
        return sum;
    });
}

// --- carries: one bit per lane in the warp

template <typename U, bool Subtract, bool In, bool Out>
Flow add_carry(Warp& w, const Instr& i, uint32_t mask) {
    const U* a = source<U>(w, i.op[1]);
    const U* b = source<U>(w, i.op[2]);
    uint32_t carry = w.carry;
    each<U>(w, i, mask, [&](uint32_t l) {
        U in = In ? U(w.carry >> l & 1) : U(0);
        U first, second;
        bool overflow = Subtract ? __builtin_sub_overflow(a[l], b[l], &first) : __builtin_add_overflow(a[l], b[l], &first);
        overflow |= Subtract ? __builtin_sub_overflow(first, in, &second) : __builtin_add_overflow(first, in, &second);
        if (Out) carry = (carry & ~(1u << l)) | uint32_t{overflow} << l;
        return second;
    });
    if (Out) w.carry = carry;
    return Flow::next;
}

template <typename T, bool High, bool In, bool Out>
Flow mad_carry(Warp& w, const Instr& i, uint32_t mask) {
    using U = std::make_unsigned_t<T>;
    using Wide = std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                                    std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>;
    const T* a = source<T>(w, i.op[1]);
    const T* b = source<T>(w, i.op[2]);
    const U* c = source<U>(w, i.op[3]);
    uint32_t carry = w.carry;
    each<U>(w, i, mask, [&](uint32_t l) {
        Wide product = Wide(a[l]) * Wide(b[l]);
        U part = High ? U(product >> (sizeof(T) * 8)) : U(product);
        U in = In ? U(w.carry >> l & 1) : U(0), first, second;
        bool overflow = __builtin_add_overflow(part, c[l], &first);
        overflow |= __builtin_add_overflow(first, in, &second);
        if (Out) carry = (carry & ~(1u << l)) | uint32_t{overflow} << l;
        return second;
    });
    if (Out) w.carry = carry;
    return Flow::next;
}

/// 16-bit pairs: add, min, max of u16x2 and s16x2.
template <typename T, typename Op>
Flow pairs(Warp& w, const Instr& i, uint32_t mask) {
    const uint32_t* a = source<uint32_t>(w, i.op[1]);
    const uint32_t* b = source<uint32_t>(w, i.op[2]);
    return each<uint32_t>(w, i, mask, [&](uint32_t l) {
        auto low = uint16_t(Op::run(T(a[l]), T(b[l]))), high = uint16_t(Op::run(T(a[l] >> 16), T(b[l] >> 16)));
        return uint32_t{high} << 16 | low;
    });
}
struct PairAdd {
    template <typename T>
    static T run(T a, T b) {
        return T(a + b);
    }
};
struct PairMin {
    template <typename T>
    static T run(T a, T b) {
        return std::min(a, b);
    }
};
struct PairMax {
    template <typename T>
    static T run(T a, T b) {
        return std::max(a, b);
    }
};

#define WL_BFE(type, T) \
    { "bfe." type, &bfe<T>, {out(sizeof(T)), in(sizeof(T)), in(4), in(4)}, 0 }
#define WL_BFIND(type, T)                                                   \
    {"bfind." type, &bfind<T, false>, {out(4), in(sizeof(T))}, 0}, {        \
        "bfind.shiftamt." type, &bfind<T, true>, {out(4), in(sizeof(T))}, 0 \
    }
#define WL_THREE \
    { out(4), in(4), in(4), in(4) }
#define WL_DP(a, b, A, B)                                                                                 \
    {"dp4a." a "." b, &dp4a<A, B>, WL_THREE, 0}, {"dp2a.lo." a "." b, &dp2a<A, B, false>, WL_THREE, 0}, { \
        "dp2a.hi." a "." b, &dp2a<A, B, true>, WL_THREE, 0                                                \
    }
#define WL_CARRY(type, U)                                                                                       \
    {"add.cc." type, &add_carry<U, false, false, true>, {out(sizeof(U)), in(sizeof(U)), in(sizeof(U))}, 0},     \
        {"addc." type, &add_carry<U, false, true, false>, {out(sizeof(U)), in(sizeof(U)), in(sizeof(U))}, 0},   \
        {"addc.cc." type, &add_carry<U, false, true, true>, {out(sizeof(U)), in(sizeof(U)), in(sizeof(U))}, 0}, \
        {"sub.cc." type, &add_carry<U, true, false, true>, {out(sizeof(U)), in(sizeof(U)), in(sizeof(U))}, 0},  \
        {"subc." type, &add_carry<U, true, true, false>, {out(sizeof(U)), in(sizeof(U)), in(sizeof(U))}, 0}, {  \
        "subc.cc." type, &add_carry<U, true, true, true>, {out(sizeof(U)), in(sizeof(U)), in(sizeof(U))}, 0     \
    }
#define WL_MAD_CARRY1(name, T, high, in_, out_) \
    { name, &mad_carry<T, high, in_, out_>, {out(sizeof(T)), in(sizeof(T)), in(sizeof(T)), in(sizeof(T))}, 0 }
#define WL_MAD_CARRY(type, T)                                                                                        \
    WL_MAD_CARRY1("mad.lo.cc." type, T, false, false, true), WL_MAD_CARRY1("mad.hi.cc." type, T, true, false, true), \
        WL_MAD_CARRY1("madc.lo." type, T, false, true, false), WL_MAD_CARRY1("madc.hi." type, T, true, true, false), \
        WL_MAD_CARRY1("madc.lo.cc." type, T, false, true, true), WL_MAD_CARRY1("madc.hi.cc." type, T, true, true, true)

const Row k_rows[] = {
    WL_BFE("u32", uint32_t),
    WL_BFE("s32", int32_t),
    WL_BFE("u64", uint64_t),
    WL_BFE("s64", int64_t),
    {"bfi.b32", &bfi<uint32_t>, {out(4), in(4), in(4), in(4), in(4)}, 0},
    {"bfi.b64", &bfi<uint64_t>, {out(8), in(8), in(8), in(4), in(4)}, 0},
    WL_BFIND("u32", uint32_t),
    WL_BFIND("s32", int32_t),
    WL_BFIND("u64", uint64_t),
    WL_BFIND("s64", int64_t),
    {"fns.b32", &fns, WL_THREE, 0},
    {"bmsk.clamp.b32", &bmsk<false>, {out(4), in(4), in(4)}, 0},
    {"bmsk.wrap.b32", &bmsk<true>, {out(4), in(4), in(4)}, 0},
    {"szext.clamp.u32", &szext<uint32_t, false>, {out(4), in(4), in(4)}, 0},
    {"szext.clamp.s32", &szext<int32_t, false>, {out(4), in(4), in(4)}, 0},
    {"szext.wrap.u32", &szext<uint32_t, true>, {out(4), in(4), in(4)}, 0},
    {"szext.wrap.s32", &szext<int32_t, true>, {out(4), in(4), in(4)}, 0},
    {"prmt.b32", &prmt<Permute::index>, WL_THREE, 0},
    {"prmt.b32.f4e", &prmt<Permute::f4e>, WL_THREE, 0},
    {"prmt.b32.b4e", &prmt<Permute::b4e>, WL_THREE, 0},
    {"prmt.b32.rc8", &prmt<Permute::rc8>, WL_THREE, 0},
    {"prmt.b32.ecl", &prmt<Permute::ecl>, WL_THREE, 0},
    {"prmt.b32.ecr", &prmt<Permute::ecr>, WL_THREE, 0},
    {"prmt.b32.rc16", &prmt<Permute::rc16>, WL_THREE, 0},
    {"mul24.lo.u32", &mul24<uint32_t, false>, {out(4), in(4), in(4)}, 0},
    {"mul24.lo.s32", &mul24<int32_t, false>, {out(4), in(4), in(4)}, 0},
    {"mul24.hi.u32", &mul24<uint32_t, true>, {out(4), in(4), in(4)}, 0},
    {"mul24.hi.s32", &mul24<int32_t, true>, {out(4), in(4), in(4)}, 0},
    {"mad24.lo.u32", &mad24<uint32_t, false>, WL_THREE, 0},
    {"mad24.lo.s32", &mad24<int32_t, false>, WL_THREE, 0},
    {"mad24.hi.u32", &mad24<uint32_t, true>, WL_THREE, 0},
    {"mad24.hi.s32", &mad24<int32_t, true>, WL_THREE, 0},
    {"mad24.hi.sat.s32", &mad24_hi_sat, WL_THREE, 0},
    {"mad.hi.sat.s32", &mad_hi_sat, WL_THREE, 0},
    WL_DP("u32", "u32", uint8_t, uint8_t),
    WL_DP("u32", "s32", uint8_t, int8_t),
    WL_DP("s32", "u32", int8_t, uint8_t),
    WL_DP("s32", "s32", int8_t, int8_t),
    WL_CARRY("u32", uint32_t),
    WL_CARRY("s32", uint32_t),
    WL_CARRY("u64", uint64_t),
    WL_CARRY("s64", uint64_t),
    WL_MAD_CARRY("u32", uint32_t),
    WL_MAD_CARRY("s32", int32_t),
    WL_MAD_CARRY("u64", uint64_t),
    WL_MAD_CARRY("s64", int64_t),
    {"add.u16x2", &pairs<uint16_t, PairAdd>, {out(4), in(4), in(4)}, 0},
    {"add.s16x2", &pairs<uint16_t, PairAdd>, {out(4), in(4), in(4)}, 0},
    {"min.u16x2", &pairs<uint16_t, PairMin>, {out(4), in(4), in(4)}, 0},
    {"min.s16x2", &pairs<int16_t, PairMin>, {out(4), in(4), in(4)}, 0},
    {"max.u16x2", &pairs<uint16_t, PairMax>, {out(4), in(4), in(4)}, 0},
    {"max.s16x2", &pairs<int16_t, PairMax>, {out(4), in(4), in(4)}, 0},
};

}  // namespace

void register_integer(Registry& registry) { registry.add(k_rows); }

}  // namespace warpline::softgpu::isa
