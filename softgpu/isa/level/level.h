// What all files that are compiled once per CPU level begin with.
#pragma once

#include "softgpu/isa/row.h"

/// For files that are compiled once per CPU level: lane loops that compilers vectorise. Everything is in the level's namespace.
/// Such files include no C++ library headers: an inline function of theirs, compiled for AVX-512, could be the copy that the
/// linker keeps.
#if defined(__clang__)
#define WL_VECTORISE _Pragma("clang loop vectorize(assume_safety)")
#else
#define WL_VECTORISE _Pragma("GCC ivdep")
#endif
/// A loop over all lanes. Destination and sources are the same row or do not overlap at all.
#define WL_LANES(l) WL_VECTORISE for (uint32_t l = 0; l < 32; ++l)

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace warpline::softgpu::isa::WL_LEVEL {

// The types of PTX by their names there.
using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using u128 = unsigned __int128;
using s8 = int8_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;
using s128 = __int128;
using f32 = float;
using f64 = double;

using exec::dest;
using exec::predicate;
using exec::set_predicate;
using exec::source;

struct alignas(64) LaneBits32 {
    uint32_t bit[32];
};
struct alignas(64) LaneBits64 {
    uint64_t bit[32];
};
struct alignas(64) LaneBits16 {
    uint16_t low[32], high[32];
};
constexpr LaneBits32 make_bits32() {
    LaneBits32 out{};
    for (uint32_t l = 0; l < 32; ++l) out.bit[l] = 1u << l;
    return out;
}
constexpr LaneBits64 make_bits64() {
    LaneBits64 out{};
    for (uint32_t l = 0; l < 32; ++l) out.bit[l] = uint64_t{1} << l;
    return out;
}
constexpr LaneBits16 make_bits16() {
    LaneBits16 out{};
    for (uint32_t l = 0; l < 32; ++l) (l < 16 ? out.low[l] : out.high[l]) = uint16_t(1u << (l % 16));
    return out;
}
// Internal linkage: each level has its own copy.
static constexpr LaneBits32 k_bits32 = make_bits32();
static constexpr LaneBits64 k_bits64 = make_bits64();
static constexpr LaneBits16 k_bits16 = make_bits16();

template <unsigned Count>
struct BytesOf {
    typedef char Type __attribute__((vector_size(Count)));
};
/// Copies memory of a size that is known while compiling, to another place or the same. A call of memcpy would cost more than
/// the copy.
template <unsigned Bytes>
WL_INLINE void copy_row(void* to, const void* from) {
    constexpr unsigned k_part = Bytes % 64 == 0 ? 64 : Bytes % 32 == 0 ? 32 : Bytes % 16 == 0 ? 16 : 8;
    static_assert(Bytes % k_part == 0);
    for (unsigned b = 0; b < Bytes; b += k_part) {
        typename BytesOf<k_part>::Type part;
        __builtin_memcpy(&part, static_cast<const char*>(from) + b, k_part);
        __builtin_memcpy(static_cast<char*>(to) + b, &part, k_part);
    }
}

/// d[l] = bit l of mask ? a[l] : b[l], for rows of 2, 4, 8 or 16 bytes per lane. Rows may be the same.
template <unsigned Bytes>
struct Select;
template <>
struct Select<2> {
    WL_INLINE static void run(void* dv, const void* av, const void* bv, uint32_t mask) {
#if defined(__AVX512F__)
        for (unsigned l = 0; l < 32; l += 32) {
            char* d = static_cast<char*>(dv) + l * 2;
            const __m512i a = _mm512_loadu_si512(static_cast<const char*>(av) + l * 2);
            const __m512i b = _mm512_loadu_si512(static_cast<const char*>(bv) + l * 2);
            _mm512_storeu_si512(d, _mm512_mask_blend_epi16(__mmask32(mask >> l), b, a));
        }
#else
        auto* d = static_cast<uint16_t*>(dv);
        auto* a = static_cast<const uint16_t*>(av);
        auto* b = static_cast<const uint16_t*>(bv);
        auto low = uint16_t(mask), high = uint16_t(mask >> 16);
        WL_LANES(l) d[l] = ((low & k_bits16.low[l]) | (high & k_bits16.high[l])) != 0 ? a[l] : b[l];
#endif
    }
};
template <>
struct Select<4> {
    WL_INLINE static void run(void* dv, const void* av, const void* bv, uint32_t mask) {
#if defined(__AVX512F__)
        for (unsigned l = 0; l < 32; l += 16) {
            char* d = static_cast<char*>(dv) + l * 4;
            const __m512i a = _mm512_loadu_si512(static_cast<const char*>(av) + l * 4);
            const __m512i b = _mm512_loadu_si512(static_cast<const char*>(bv) + l * 4);
            _mm512_storeu_si512(d, _mm512_mask_blend_epi32(__mmask16(mask >> l), b, a));
        }
#else
        auto* d = static_cast<uint32_t*>(dv);
        auto* a = static_cast<const uint32_t*>(av);
        auto* b = static_cast<const uint32_t*>(bv);
        WL_LANES(l) d[l] = (mask & k_bits32.bit[l]) != 0 ? a[l] : b[l];
#endif
    }
};
template <>
struct Select<8> {
    WL_INLINE static void run(void* dv, const void* av, const void* bv, uint32_t mask) {
#if defined(__AVX512F__)
        for (unsigned l = 0; l < 32; l += 8) {
            char* d = static_cast<char*>(dv) + l * 8;
            const __m512i a = _mm512_loadu_si512(static_cast<const char*>(av) + l * 8);
            const __m512i b = _mm512_loadu_si512(static_cast<const char*>(bv) + l * 8);
            _mm512_storeu_si512(d, _mm512_mask_blend_epi64(__mmask8(mask >> l), b, a));
        }
#else
        auto* d = static_cast<uint64_t*>(dv);
        auto* a = static_cast<const uint64_t*>(av);
        auto* b = static_cast<const uint64_t*>(bv);
        WL_LANES(l) d[l] = (mask & k_bits64.bit[l]) != 0 ? a[l] : b[l];
#endif
    }
};
template <>
struct Select<16> {
    WL_INLINE static void run(void* dv, const void* av, const void* bv, uint32_t mask) {
        auto* d = static_cast<uint64_t*>(dv);
        auto* a = static_cast<const uint64_t*>(av);
        auto* b = static_cast<const uint64_t*>(bv);
        for (uint32_t l = 0; l < 64; ++l) d[l] = (mask >> (l / 2) & 1) != 0 ? a[l] : b[l];
    }
};

/// Fills a row: d[l] = f(l) for the lanes in mask. f must be harmless for all lanes: it is computed for every one.
template <typename D, typename F>
WL_INLINE Flow fill(D* d, uint32_t mask, F f) {
    alignas(64) D computed[32];
    D* out = mask == k_full_mask ? d : computed;
    WL_LANES(l) out[l] = f(l);
    if (out != d) [[unlikely]]
        Select<sizeof(D)>::run(d, computed, d, mask);
    return Flow::next;
}

/// Bits of a comparison, one per lane.
template <typename F>
WL_INLINE uint32_t ballot(F f) {
    alignas(64) uint8_t flags[32];
    WL_LANES(l) flags[l] = f(l) ? 0xff : 0;
#if defined(__AVX2__)
    return uint32_t(_mm256_movemask_epi8(*reinterpret_cast<const __m256i*>(flags)));
#elif defined(__SSE2__)
    return uint32_t(_mm_movemask_epi8(*reinterpret_cast<const __m128i*>(flags))) |
           uint32_t(_mm_movemask_epi8(*reinterpret_cast<const __m128i*>(flags + 16))) << 16;
#else
    uint32_t bits = 0;
    for (uint32_t l = 0; l < 32; ++l) bits |= uint32_t(flags[l] & 1) << l;
    return bits;
#endif
}

// Handlers of one, two and three sources; Op::run(a, b, c) is the lane's operation.
template <typename Op, typename D, typename A>
Flow unary(Warp& w, const Instr& i, uint32_t mask) {
    const A* a = source<A>(w, i.op[1]);
    return fill(dest<D>(w, i.op[0]), mask, [=](uint32_t l) { return D(Op::run(a[l])); });
}
template <typename Op, typename D, typename A, typename B>
Flow binary(Warp& w, const Instr& i, uint32_t mask) {
    const A* a = source<A>(w, i.op[1]);
    const B* b = source<B>(w, i.op[2]);
    return fill(dest<D>(w, i.op[0]), mask, [=](uint32_t l) { return D(Op::run(a[l], b[l])); });
}
template <typename Op, typename D, typename A, typename B, typename C>
Flow ternary(Warp& w, const Instr& i, uint32_t mask) {
    const A* a = source<A>(w, i.op[1]);
    const B* b = source<B>(w, i.op[2]);
    const C* c = source<C>(w, i.op[3]);
    return fill(dest<D>(w, i.op[0]), mask, [=](uint32_t l) { return D(Op::run(a[l], b[l], c[l])); });
}
/// The same with Instr::imm.
template <typename Op, typename D, typename A, typename B, typename C>
Flow ternary_imm(Warp& w, const Instr& i, uint32_t mask) {
    const A* a = source<A>(w, i.op[1]);
    const B* b = source<B>(w, i.op[2]);
    const C* c = source<C>(w, i.op[3]);
    const auto imm = uint32_t(i.imm);
    return fill(dest<D>(w, i.op[0]), mask, [=](uint32_t l) { return D(Op::run(a[l], b[l], c[l], imm)); });
}

// Shapes that go with them.
#define WL_UNARY(name, op, D, A) \
    { name, &unary<op, D, A>, {out(sizeof(D)), in(sizeof(A))}, 0 }
#define WL_BINARY(name, op, D, A, B) \
    { name, &binary<op, D, A, B>, {out(sizeof(D)), in(sizeof(A)), in(sizeof(B))}, 0 }
#define WL_TERNARY(name, op, D, A, B, C) \
    { name, &ternary<op, D, A, B, C>, {out(sizeof(D)), in(sizeof(A)), in(sizeof(B)), in(sizeof(C))}, 0 }
#define WL_ROWS(table) \
    Rows { table, sizeof(table) / sizeof(table[0]) }

}  // namespace warpline::softgpu::isa::WL_LEVEL
