// Accesses of a few lanes, one lane after another: at the edges of a tile, by the one thread that finishes a sum, or where a
// tree has led each thread somewhere else. The way for whole warps would cost them as much as 32 lanes. For memory.cpp.
#pragma once

#include "softgpu/isa/level/memory_access.h"

namespace warpline::softgpu::isa::WL_LEVEL {

constexpr u32 k_few = 8;

WL_INLINE bool are_few(uint32_t mask) {
#if defined(__POPCNT__)
    return u32(__builtin_popcount(mask)) <= k_few;
#else
    return (mask & (mask - 1)) == 0;
#endif
}

/// Host addresses of the active lanes, in their order.
struct Few {
    u32 count = 0;
    u8 lane[k_few];
    std::byte* at[k_few];
};

/// False: an address is not certainly valid, or the way has no row of addresses. The general case looks again.
[[gnu::noinline]] inline bool find_few(const Warp& w, const Instr& i, uint32_t mask, u32 size, Few& out) {
    Window window;
    u64 pitch = 0;
    bool wide = true;
    switch (Way(i.flags >> k_way_shift & 0xff)) {
        case Way::global:
        case Way::generic: window = Absolute<Where::global>::window(w, i); break;
        case Way::shared4: wide = false; [[fallthrough]];
        case Way::shared8: window = Shared<u64>::window(w, i); break;
        case Way::local4: wide = false; [[fallthrough]];
        case Way::local8:
            window = {0, w.local_stride, reinterpret_cast<u64>(w.local)};
            pitch = w.local_stride;
            break;
        default: return false;
    }
    const auto* row8 = source<u64>(w, i.op[1]);
    const auto* row4 = source<u32>(w, i.op[1]);
    u64 unaligned = 0;
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        const auto l = u32(__builtin_ctz(rest));
        const u64 address = wide ? row8[l] + i.imm : u64(u32(row4[l] + u32(i.imm)));
        if (!window.holds(address, address, size)) return false;
        unaligned |= address;
        out.lane[out.count] = u8(l);
        out.at[out.count++] = reinterpret_cast<std::byte*>(address + window.offset + pitch * l);
    }
    return (unaligned & (size - 1)) == 0;
}

template <typename T>
WL_INLINE T read(const std::byte* at) {
    return *reinterpret_cast<const T*>(at);
}

/// Bytes of one lane's vector, moved at once: 16-byte accesses must not be torn (PTX vectors used as 128-bit atoms by CUB).
template <u32 Bytes>
WL_INLINE void copy_vector(void* to, const void* from) {
#if defined(__SSE2__)
    if constexpr (Bytes % 16 == 0) {
        for (u32 b = 0; b < Bytes; b += 16) {
            auto value = _mm_load_si128(reinterpret_cast<const __m128i*>(static_cast<const char*>(from) + b));
            _mm_store_si128(reinterpret_cast<__m128i*>(static_cast<char*>(to) + b), value);
        }
        return;
    }
#endif
    __builtin_memcpy(to, from, Bytes);
}

// The accesses, as in memory.cpp. False: nothing has been done. Values are collected first: the destination may be the row of
// addresses.

/// False for an access whose addresses are no row.
template <typename Access>
constexpr bool k_has_row = true;
template <>
constexpr bool k_has_row<FixedParam> = false;

template <typename T, typename R>
WL_INLINE bool load_few(Warp& w, const Instr& i, uint32_t mask) {
    Few few;
    if (!find_few(w, i, mask, sizeof(T), few)) return false;
    R values[k_few];
    for (u32 n = 0; n < few.count; ++n) values[n] = R(read<T>(few.at[n]));
    R* d = dest<R>(w, i.op[0]);
    for (u32 n = 0; n < few.count; ++n) d[few.lane[n]] = values[n];
    return true;
}

template <typename T, typename R>
WL_INLINE bool store_few(Warp& w, const Instr& i, uint32_t mask) {
    Few few;
    if (!find_few(w, i, mask, sizeof(T), few)) return false;
    const R* s = source<R>(w, i.op[0]);
    for (u32 n = 0; n < few.count; ++n) *reinterpret_cast<T*>(few.at[n]) = T(s[few.lane[n]]);
    return true;
}

template <typename T, typename R, u32 N>
WL_INLINE bool load_vector_few(Warp& w, const Instr& i, uint32_t mask) {
    Few few;
    if (!find_few(w, i, mask, sizeof(T) * N, few)) return false;
    alignas(64) T gathered[k_few * N];
    for (u32 n = 0; n < few.count; ++n) copy_vector<sizeof(T) * N>(gathered + n * N, few.at[n]);
    const auto& vector = *static_cast<const VectorOperand*>(i.extra);
    for (u32 e = 0; e < N; ++e) {
        R* d = dest<R>(w, vector.slots[e]);
        for (u32 n = 0; n < few.count; ++n) d[few.lane[n]] = R(gathered[n * N + e]);
    }
    return true;
}

template <typename T, typename R, u32 N>
WL_INLINE bool store_vector_few(Warp& w, const Instr& i, uint32_t mask) {
    Few few;
    if (!find_few(w, i, mask, sizeof(T) * N, few)) return false;
    alignas(64) T gathered[k_few * N];
    const auto& vector = *static_cast<const VectorOperand*>(i.extra);
    for (u32 e = 0; e < N; ++e) {
        const R* s = source<R>(w, vector.slots[e]);
        for (u32 n = 0; n < few.count; ++n) gathered[n * N + e] = T(s[few.lane[n]]);
    }
    for (u32 n = 0; n < few.count; ++n) copy_vector<sizeof(T) * N>(few.at[n], gathered + n * N);
    return true;
}

}  // namespace warpline::softgpu::isa::WL_LEVEL
