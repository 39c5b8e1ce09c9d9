// ld and st. op[0]: the register (or VectorOperand in extra), op[1]: row of addresses, imm: displacement.
#include "softgpu/isa/level/few_lanes.h"
#include "softgpu/isa/level/tables.h"

namespace warpline::softgpu::isa::WL_LEVEL {

namespace {

/// T: as it lies in memory; R: the register.
template <typename T, typename R, typename Access>
[[gnu::noinline]] Flow load(Warp& w, const Instr& i, uint32_t mask) {
    if (k_has_row<Access> && are_few(mask) && load_few<T, R>(w, i, mask)) return Flow::next;
    Resolved at;
    R* d = dest<R>(w, i.op[0]);
    switch (Access::run(w, i, mask, sizeof(T), at)) {
        case Pattern::same: {
            const R value = R(read<T>(at.base[0]));
            return fill(d, mask, [=](uint32_t) { return value; });
        }
        // The following only with all lanes.
        case Pattern::contiguous:
            if constexpr (sizeof(T) == sizeof(R)) {
                copy_row<32 * sizeof(T)>(d, at.base[0]);
            } else {
                const T* from = reinterpret_cast<const T*>(at.base[0]);
                WL_LANES(l) d[l] = R(from[l]);
            }
            return Flow::next;
        case Pattern::uniform:
            for (u32 g = 0; g < k_groups; ++g) {
                const R value = R(read<T>(at.base[g]));
                if constexpr (sizeof(R) <= 8) {
                    store8<R>(d + g * k_group, Eight<R>{} + value);
                } else {
                    for (u32 k = 0; k < k_group; ++k) d[g * k_group + k] = value;
                }
            }
            return Flow::next;
        case Pattern::sequence:
            for (u32 g = 0; g < k_groups; ++g) {
                if constexpr (sizeof(T) == sizeof(R)) {
                    copy_row<k_group * sizeof(T)>(d + g * k_group, at.base[g]);
                } else {
                    store8<R>(d + g * k_group, __builtin_convertvector(load8<T>(at.base[g]), Eight<R>));
                }
            }
            return Flow::next;
        case Pattern::scattered: return fill(d, mask, [&](uint32_t l) { return R(read<T>(at.lane[l])); });
        case Pattern::fault: break;
    }
    return Flow::fault;
}

/// Host addresses of the groups' first lanes. False if they are not certainly valid.
template <typename T, typename Access, bool Sequence>
WL_INLINE bool find_groups(const Warp& w, const Instr& i, std::byte* (&base)[k_groups]) {
    using A = typename Access::Address;
    const A* a = source<A>(w, i.op[1]);
    const Window window = Access::window(w, i);
    u64 lowest = ~u64{0}, highest = 0, unaligned = 0;
    for (u32 g = 0; g < k_groups; ++g) {
        const u64 address = A(a[g * k_group] + A(i.imm));
        base[g] = reinterpret_cast<std::byte*>(address + window.offset);
        lowest = address < lowest ? address : lowest;
        highest = address > highest ? address : highest;
        unaligned |= address;
    }
    return (unaligned & (sizeof(T) - 1)) == 0 && window.holds(lowest, highest, (Sequence ? k_group : 1) * sizeof(T));
}

template <typename T, typename Access, bool Sequence>
[[gnu::noinline]] Flow load_groups(Warp& w, const Instr& i) {
    std::byte* base[k_groups];
    if (!find_groups<T, Access, Sequence>(w, i, base)) return load<T, T, Access>(w, i, k_full_mask);
    T* d = dest<T>(w, i.op[0]);
    for (u32 g = 0; g < k_groups; ++g) {
        store8<T>(d + g * k_group, Sequence ? load8<T>(base[g]) : Eight<T>{} + read<T>(base[g]));
    }
    return Flow::next;
}

/// load, for the common accesses: regular addresses without the machinery of the others, which would cost each call the saving
/// of registers.
template <typename T, typename Access>
Flow load_hot(Warp& w, const Instr& i, uint32_t mask) {
    using A = typename Access::Address;
    if (mask != k_full_mask) [[unlikely]]
        return load<T, T, Access>(w, i, mask);
    const A* a = source<A>(w, i.op[1]);
    const Shape shape = find_shape<sizeof(T), A>(a);
    if (shape == Shape::uniform) return load_groups<T, Access, false>(w, i);
    if (shape == Shape::sequence) return load_groups<T, Access, true>(w, i);
    const u64 address = A(a[0] + A(i.imm));
    const Window window = Access::window(w, i);
    const u64 bytes = shape == Shape::same ? sizeof(T) : 32 * sizeof(T);
    if (shape == Shape::other || (address & (sizeof(T) - 1)) != 0 || !window.holds(address, address, bytes)) [[unlikely]]
        return load<T, T, Access>(w, i, mask);
    const auto* at = reinterpret_cast<const std::byte*>(address + window.offset);
    T* d = dest<T>(w, i.op[0]);
    if (shape == Shape::same) {
        const T value = read<T>(at);
        WL_LANES(l) d[l] = value;
    } else {
        copy_row<32 * sizeof(T)>(d, at);
    }
    return Flow::next;
}

/// Host address of one lane, however the addresses lie.
WL_INLINE std::byte* lane_address(const Resolved& at, Pattern pattern, u32 lane, u32 size) {
    if (pattern == Pattern::scattered) return at.lane[lane];
    if (pattern == Pattern::same) return at.base[0];
    if (pattern == Pattern::contiguous) return at.base[0] + lane * size;
    std::byte* base = at.base[lane / k_group];
    return pattern == Pattern::uniform ? base : base + lane % k_group * size;
}

/// T: as it lies in memory; R: the register, which may be wider. Where lanes write to one address, the last one wins (PTX
/// leaves it open).
template <typename T, typename R, typename Access>
[[gnu::noinline]] Flow store(Warp& w, const Instr& i, uint32_t mask) {
    if (are_few(mask) && store_few<T, R>(w, i, mask)) return Flow::next;
    Resolved at;
    const R* s = source<R>(w, i.op[0]);
    const Pattern pattern = Access::run(w, i, mask, sizeof(T), at);
    if (pattern == Pattern::fault) return Flow::fault;
    if (pattern == Pattern::contiguous) {
        T* to = reinterpret_cast<T*>(at.base[0]);
        WL_LANES(l) to[l] = T(s[l]);
        return Flow::next;
    }
    if (pattern == Pattern::sequence) {
        for (u32 g = 0; g < k_groups; ++g) {
            if constexpr (sizeof(T) == sizeof(R)) {
                copy_row<k_group * sizeof(T)>(at.base[g], s + g * k_group);
            } else {
                store8<T>(at.base[g], __builtin_convertvector(load8<R>(s + g * k_group), Eight<T>));
            }
        }
        return Flow::next;
    }
    for (u32 rest = mask; rest != 0; rest &= rest - 1) {
        const auto l = u32(__builtin_ctz(rest));
        *reinterpret_cast<T*>(lane_address(at, pattern, l, sizeof(T))) = T(s[l]);
    }
    return Flow::next;
}

template <typename T, typename Access>
[[gnu::noinline]] Flow store_groups(Warp& w, const Instr& i) {
    std::byte* base[k_groups];
    if (!find_groups<T, Access, true>(w, i, base)) return store<T, T, Access>(w, i, k_full_mask);
    const T* s = source<T>(w, i.op[0]);
    for (u32 g = 0; g < k_groups; ++g) copy_row<k_group * sizeof(T)>(base[g], s + g * k_group);
    return Flow::next;
}

/// store, for the common accesses.
template <typename T, typename Access>
Flow store_hot(Warp& w, const Instr& i, uint32_t mask) {
    using A = typename Access::Address;
    if (mask != k_full_mask) [[unlikely]]
        return store<T, T, Access>(w, i, mask);
    const A* a = source<A>(w, i.op[1]);
    const Shape shape = find_shape<sizeof(T), A>(a);
    if (shape == Shape::sequence) return store_groups<T, Access>(w, i);
    const u64 address = A(a[0] + A(i.imm));
    const Window window = Access::window(w, i);
    if (shape != Shape::contiguous || (address & (sizeof(T) - 1)) != 0 || !window.holds(address, address, 32 * sizeof(T)))
        [[unlikely]]
        return store<T, T, Access>(w, i, mask);
    copy_row<32 * sizeof(T)>(reinterpret_cast<std::byte*>(address + window.offset), source<T>(w, i.op[0]));
    return Flow::next;
}

template <typename T, typename R, u32 N>
Flow load_vector(Warp& w, const Instr& i, uint32_t mask) {
    if (are_few(mask) && load_vector_few<T, R, N>(w, i, mask)) return Flow::next;
    Resolved at;
    constexpr u32 k_bytes = sizeof(T) * N;
    const auto& vector = *static_cast<const VectorOperand*>(i.extra);
    Pattern pattern = resolve_any(w, i, mask, k_bytes, at);
    if (pattern == Pattern::fault) return Flow::fault;
    alignas(64) T gathered[32 * N];
    if (pattern == Pattern::same) {
        copy_vector<k_bytes>(gathered, at.base[0]);
        for (u32 e = 0; e < N; ++e) {
            const R value = R(gathered[e]);
            fill(dest<R>(w, vector.slots[e]), mask, [=](uint32_t) { return value; });
        }
        return Flow::next;
    }
    if (pattern == Pattern::uniform) {  // all lanes take part then
        for (u32 g = 0; g < k_groups; ++g) {
            copy_vector<k_bytes>(gathered, at.base[g]);
            for (u32 e = 0; e < N; ++e) {
                store8<R>(dest<R>(w, vector.slots[e]) + g * k_group, Eight<R>{} + R(gathered[e]));
            }
        }
        return Flow::next;
    }
    const T* values = gathered;
    if (pattern == Pattern::contiguous) {
        values = reinterpret_cast<const T*>(at.base[0]);
    } else if (pattern == Pattern::scattered) {
        for (u32 l = 0; l < 32; ++l) copy_vector<k_bytes>(gathered + l * N, at.lane[l]);
    } else {
        for (u32 g = 0; g < k_groups; ++g) copy_row<k_group * k_bytes>(gathered + g * k_group * N, at.base[g]);
    }
    for (u32 e = 0; e < N; ++e) {
        fill(dest<R>(w, vector.slots[e]), mask, [=](uint32_t l) { return R(values[l * N + e]); });
    }
    return Flow::next;
}

template <typename T, typename R, u32 N>
Flow store_vector(Warp& w, const Instr& i, uint32_t mask) {
    if (are_few(mask) && store_vector_few<T, R, N>(w, i, mask)) return Flow::next;
    Resolved at;
    constexpr u32 k_bytes = sizeof(T) * N;
    const auto& vector = *static_cast<const VectorOperand*>(i.extra);
    Pattern pattern = resolve_any(w, i, mask, k_bytes, at);
    if (pattern == Pattern::fault) return Flow::fault;
    alignas(64) T gathered[32 * N];
    const R* rows[N];
    for (u32 e = 0; e < N; ++e) rows[e] = source<R>(w, vector.slots[e]);
    WL_LANES(l) {  // in the order in which they are stored: compilers interleave vectors then
        for (u32 e = 0; e < N; ++e) gathered[l * N + e] = T(rows[e][l]);
    }
    if (pattern == Pattern::contiguous) {
        copy_row<32 * k_bytes>(at.base[0], gathered);
        return Flow::next;
    }
    if (pattern == Pattern::sequence) {
        for (u32 g = 0; g < k_groups; ++g) copy_row<k_group * k_bytes>(at.base[g], gathered + g * k_group * N);
        return Flow::next;
    }
    for (u32 rest = mask; rest != 0; rest &= rest - 1) {
        const auto l = u32(__builtin_ctz(rest));
        std::byte* to = lane_address(at, pattern, l, k_bytes);
        copy_vector<k_bytes>(to, gathered + l * N);
    }
    return Flow::next;
}

// Names: <bytes in memory><u or s>.<bytes of the register>.
#define WL_LD(way, Access, name, T, R) \
    { "$ld." way "." name, &load<T, R, Access>, {}, 0 }
#define WL_ST(way, Access, name, T, R) \
    { "$st." way "." name, &store<T, R, Access>, {}, 0 }
#define WL_LDV(name, T, R, N) \
    { "$ld.any." name ".v" #N, &load_vector<T, R, N>, {}, 0 }
#define WL_STV(name, T, R, N) \
    { "$st.any." name ".v" #N, &store_vector<T, R, N>, {}, 0 }
#define WL_VECTORS(WL_X)                                                                                            \
    WL_X("1u.2", u8, u16, 2), WL_X("1u.2", u8, u16, 4), WL_X("1u.4", u8, u32, 2), WL_X("1u.4", u8, u32, 4),         \
        WL_X("2u.2", u16, u16, 2), WL_X("2u.2", u16, u16, 4), WL_X("2u.2", u16, u16, 8), WL_X("2u.4", u16, u32, 2), \
        WL_X("2u.4", u16, u32, 4), WL_X("4u.4", u32, u32, 2), WL_X("4u.4", u32, u32, 4), WL_X("4u.4", u32, u32, 8), \
        WL_X("8u.8", u64, u64, 2), WL_X("8u.8", u64, u64, 4)
/// The common accesses, with the way to the address built in.
#define WL_HOT(way, Access)                                                                                   \
    {"$ld." way ".4u.4", &load_hot<u32, Access>, {}, 0}, {"$ld." way ".8u.8", &load_hot<u64, Access>, {}, 0}, \
        {"$st." way ".4u.4", &store_hot<u32, Access>, {}, 0}, {                                               \
        "$st." way ".8u.8", &store_hot<u64, Access>, {}, 0                                                    \
    }

const Row k_rows[] = {
    WL_HOT("global", Absolute<Where::global>),
    WL_HOT("generic", Absolute<Where::generic>),
    WL_HOT("shared4", Shared<u32>),
    WL_HOT("shared8", Shared<u64>),
    WL_LD("fixed_param", FixedParam, "4u.4", u32, u32),
    WL_LD("fixed_param", FixedParam, "8u.8", u64, u64),
    WL_LD("any", Any, "1u.2", u8, u16),
    WL_LD("any", Any, "1u.4", u8, u32),
    WL_LD("any", Any, "1u.8", u8, u64),
    WL_LD("any", Any, "1s.2", s8, s16),
    WL_LD("any", Any, "1s.4", s8, s32),
    WL_LD("any", Any, "1s.8", s8, s64),
    WL_LD("any", Any, "2u.2", u16, u16),
    WL_LD("any", Any, "2u.4", u16, u32),
    WL_LD("any", Any, "2u.8", u16, u64),
    WL_LD("any", Any, "2s.4", s16, s32),
    WL_LD("any", Any, "2s.8", s16, s64),
    WL_LD("any", Any, "4u.4", u32, u32),
    WL_LD("any", Any, "4u.8", u32, u64),
    WL_LD("any", Any, "4s.8", s32, s64),
    WL_LD("any", Any, "8u.8", u64, u64),
    WL_LD("any", Any, "16u.16", u128, u128),
    WL_ST("any", Any, "1u.2", u8, u16),
    WL_ST("any", Any, "1u.4", u8, u32),
    WL_ST("any", Any, "1u.8", u8, u64),
    WL_ST("any", Any, "2u.2", u16, u16),
    WL_ST("any", Any, "2u.4", u16, u32),
    WL_ST("any", Any, "2u.8", u16, u64),
    WL_ST("any", Any, "4u.4", u32, u32),
    WL_ST("any", Any, "4u.8", u32, u64),
    WL_ST("any", Any, "8u.8", u64, u64),
    WL_ST("any", Any, "16u.16", u128, u128),
    WL_VECTORS(WL_LDV),
    WL_LDV("1s.2", s8, s16, 2),
    WL_LDV("1s.2", s8, s16, 4),
    WL_LDV("1s.4", s8, s32, 2),
    WL_LDV("1s.4", s8, s32, 4),
    WL_LDV("2s.4", s16, s32, 2),
    WL_LDV("2s.4", s16, s32, 4),
    WL_VECTORS(WL_STV),
};

}  // namespace

Rows memory_rows() { return WL_ROWS(k_rows); }

}  // namespace warpline::softgpu::isa::WL_LEVEL
