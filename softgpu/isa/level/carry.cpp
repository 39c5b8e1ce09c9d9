// Sums with carries: numbers of many words. The condition code is a bit per lane in the warp. PTX ISA: Extended-Precision
// Integer Arithmetic.
#include "softgpu/isa/level/level.h"
#include "softgpu/isa/level/tables.h"

namespace warpline::softgpu::isa::WL_LEVEL {

namespace {

template <typename U>
WL_INLINE U carry_of(uint32_t carries, uint32_t lane) {
    if constexpr (sizeof(U) == 8) return (carries & k_bits64.bit[lane]) != 0 ? 1 : 0;
    return (carries & k_bits32.bit[lane]) != 0 ? 1 : 0;
}

/// Puts sums and carries of the lanes in `mask` where they belong. They come in rows of their own: a destination may be one of
/// the sources.
template <typename U, bool Out>
WL_INLINE Flow finish_sum(Warp& w, const Instr& i, uint32_t mask, const U* sum, const U* over) {
    U* d = dest<U>(w, i.op[0]);
    if constexpr (Out) w.carry = (w.carry & ~mask) | (ballot([=](uint32_t l) { return over[l] != 0; }) & mask);
    if (mask == k_full_mask) {
        copy_row<32 * sizeof(U)>(d, sum);
    } else {
        Select<sizeof(U)>::run(d, sum, d, mask);
    }
    return Flow::next;
}

template <typename U, bool Subtract, bool In, bool Out>
Flow add_carry(Warp& w, const Instr& i, uint32_t mask) {
    const U* a = source<U>(w, i.op[1]);
    const U* b = source<U>(w, i.op[2]);
    const uint32_t carries = w.carry;
    alignas(64) U sum[32];
    alignas(64) U over[32];
    WL_LANES(l) {
        const U x = a[l], y = b[l], in = In ? carry_of<U>(carries, l) : U(0);
        if constexpr (Subtract) {
            const U first = x - y, second = first - in;
            sum[l] = second;
            over[l] = U(x < y) | U(first < in);
        } else {
            const U first = x + y, second = first + in;
            sum[l] = second;
            over[l] = U(first < x) | U(second < in);
        }
    }
    return finish_sum<U, Out>(w, i, mask, sum, over);
}

template <typename T>
struct Product;
template <>
struct Product<u32> {
    using U = u32;
    using Wide = u64;
};
template <>
struct Product<s32> {
    using U = u32;
    using Wide = s64;
};
template <>
struct Product<u64> {
    using U = u64;
    using Wide = u128;
};
template <>
struct Product<s64> {
    using U = u64;
    using Wide = s128;
};

template <typename T, bool High, bool In, bool Out>
Flow mad_carry(Warp& w, const Instr& i, uint32_t mask) {
    using U = typename Product<T>::U;
    using Wide = typename Product<T>::Wide;
    const T* a = source<T>(w, i.op[1]);
    const T* b = source<T>(w, i.op[2]);
    const U* c = source<U>(w, i.op[3]);
    const uint32_t carries = w.carry;
    alignas(64) U sum[32];
    alignas(64) U over[32];
    WL_LANES(l) {
        const U part = High ? U((Wide(a[l]) * Wide(b[l])) >> (sizeof(T) * 8)) : U(U(a[l]) * U(b[l]));
        const U in = In ? carry_of<U>(carries, l) : U(0), first = part + c[l], second = first + in;
        sum[l] = second;
        over[l] = U(first < part) | U(second < in);
    }
    return finish_sum<U, Out>(w, i, mask, sum, over);
}

#define WL_CARRY1(name, U, subtract, in_, out_) \
    { name, &add_carry<U, subtract, in_, out_>, {out(sizeof(U)), in(sizeof(U)), in(sizeof(U))}, 0 }
#define WL_CARRY(type, U)                                                                                  \
    WL_CARRY1("add.cc." type, U, false, false, true), WL_CARRY1("addc." type, U, false, true, false),      \
        WL_CARRY1("addc.cc." type, U, false, true, true), WL_CARRY1("sub.cc." type, U, true, false, true), \
        WL_CARRY1("subc." type, U, true, true, false), WL_CARRY1("subc.cc." type, U, true, true, true)
#define WL_MAD_CARRY1(name, T, high, in_, out_) \
    { name, &mad_carry<T, high, in_, out_>, {out(sizeof(T)), in(sizeof(T)), in(sizeof(T)), in(sizeof(T))}, 0 }
#define WL_MAD_CARRY(type, T)                                                                                        \
    WL_MAD_CARRY1("mad.lo.cc." type, T, false, false, true), WL_MAD_CARRY1("mad.hi.cc." type, T, true, false, true), \
        WL_MAD_CARRY1("madc.lo." type, T, false, true, false), WL_MAD_CARRY1("madc.hi." type, T, true, true, false), \
        WL_MAD_CARRY1("madc.lo.cc." type, T, false, true, true), WL_MAD_CARRY1("madc.hi.cc." type, T, true, true, true)

const Row k_rows[] = {
    WL_CARRY("u32", u32),     WL_CARRY("s32", u32),     WL_CARRY("u64", u64),     WL_CARRY("s64", u64),
    WL_MAD_CARRY("u32", u32), WL_MAD_CARRY("s32", s32), WL_MAD_CARRY("u64", u64), WL_MAD_CARRY("s64", s64),
};

}  // namespace

Rows carry_rows() { return WL_ROWS(k_rows); }

}  // namespace warpline::softgpu::isa::WL_LEVEL
