// ld and st. op[0]: the register (or VectorOperand in extra), op[1]: row of addresses, imm: displacement.
#include "softgpu/isa/access.h"
#include "softgpu/isa/level/level.h"
#include "softgpu/isa/level/tables.h"

namespace warpline::softgpu::isa::WL_LEVEL {

namespace {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s8 = int8_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;
using u128 = unsigned __int128;

/// How the lanes' addresses lie. Groups of eight lanes are looked at, so that rows of small two-dimensional blocks count as
/// regular too.
enum class Pattern { fault, same, contiguous, uniform, sequence, scattered };
constexpr u32 k_group = 8, k_groups = 32 / k_group;

struct Resolved {
    std::byte* base[k_groups];  ///< same, contiguous: base[0] for all lanes; uniform, sequence: for each group
    alignas(64) std::byte* lane[32];
};

/// Eight lanes in a vector register (two or four where the CPU has smaller ones). Left to itself, gcc shuffles single lanes
/// here.
template <typename T>
struct EightOf {
    typedef T type __attribute__((vector_size(k_group * sizeof(T))));
};
template <typename T>
using Eight = typename EightOf<T>::type;
template <typename T>
WL_INLINE Eight<T> load8(const void* from) {
    Eight<T> out;
    __builtin_memcpy(&out, from, sizeof(out));
    return out;
}
template <typename T>
WL_INLINE void store8(void* to, const Eight<T>& value) {
    __builtin_memcpy(to, &value, sizeof(value));
}
template <typename T>
WL_INLINE bool all_zero(const Eight<T>& value) {
#if defined(__AVX__)
    auto* part = reinterpret_cast<const __m256i*>(&value);
    if constexpr (sizeof(value) == 32) return _mm256_testz_si256(part[0], part[0]) != 0;
    if constexpr (sizeof(value) == 64) {
        const __m256i both = _mm256_or_si256(part[0], part[1]);
        return _mm256_testz_si256(both, both) != 0;
    }
#endif
    T any = 0;
    for (u32 k = 0; k < k_group; ++k) any |= value[k];
    return any == 0;
}

/// True if within each group all addresses are equal (step 0), or follow one another at a distance of `step`.
template <typename A>
WL_INLINE bool regular(const A* a, A step) {
    const Eight<A> expected = Eight<A>{0, 1, 2, 3, 4, 5, 6, 7} * step;
    Eight<A> different = {};
    for (u32 g = 0; g < 32; g += k_group) different |= (load8<A>(a + g) - a[g]) ^ expected;
    return all_zero<A>(different);
}

/// Regular addresses of all 32 lanes, in [begin, begin + bytes); `offset` leads from an address to the host's. Pattern::fault
/// here means: not regular, or not certainly valid.
template <typename A>
WL_INLINE Pattern find_pattern(const A* a, A displacement, u32 size, u64 begin, u64 bytes, u64 offset, Resolved& out) {
    const A step = A(a[1] - a[0]);
    if ((step != 0 && step != size) || !regular<A>(a, step)) return Pattern::fault;
    if (A(a[8] - a[0]) == A(8 * step) && A(a[16] - a[0]) == A(16 * step) && A(a[24] - a[0]) == A(24 * step)) {
        const u64 address = A(a[0] + displacement), whole = step == 0 ? size : 32 * size;
        if ((address & (size - 1)) != 0 || bytes < whole || address - begin > bytes - whole) return Pattern::fault;
        out.base[0] = reinterpret_cast<std::byte*>(address + offset);
        return step == 0 ? Pattern::same : Pattern::contiguous;
    }
    const u64 reach = step == 0 ? size : k_group * size;
    u64 lowest = ~u64{0}, highest = 0, unaligned = 0;
    for (u32 g = 0; g < k_groups; ++g) {
        const u64 address = A(a[g * k_group] + displacement);
        out.base[g] = reinterpret_cast<std::byte*>(address + offset);
        lowest = address < lowest ? address : lowest;
        highest = address > highest ? address : highest;
        unaligned |= address;
    }
    if ((unaligned & (size - 1)) != 0 || bytes < reach || lowest < begin || highest - begin > bytes - reach)
        return Pattern::fault;
    return step == 0 ? Pattern::uniform : Pattern::sequence;
}

/// The general case: host addresses lane by lane. Lanes that are not active get the first active lane's, so that loads may read
/// them.
template <typename A>
[[gnu::noinline]] Pattern scattered(Warp& w, const Instr& i, uint32_t mask, Where where, u32 size, Resolved& out) {
    const A* a = source<A>(w, i.op[1]);
    alignas(64) u64 address[32];
    const auto first = u32(__builtin_ctz(mask));
    WL_LANES(l) address[l] = u64(A(a[l] + A(i.imm)));
    if (mask != k_full_mask) {
        alignas(64) u64 spare[32];
        WL_LANES(l) spare[l] = address[first];
        Select<8>::run(address, address, spare, mask);
    }
    u64 begin, bytes, offset = 0, pitch = 0;
    if (where == Where::shared) {
        begin = 0;
        bytes = w.shared_bytes;
        offset = reinterpret_cast<u64>(w.shared);
    } else if (where == Where::local) {
        begin = 0;
        bytes = w.local_stride;
        offset = reinterpret_cast<u64>(w.local);
        pitch = w.local_stride;
    } else {
        const exec::RangeCache& cache = w.caches[i.cache];
        begin = cache.begin;
        bytes = cache.end - cache.begin;
        if (where == Where::generic) {
            const u64 shared = reinterpret_cast<u64>(w.shared), local = reinterpret_cast<u64>(w.local);
            const u64 local_bytes = u64{w.local_stride} * 32;
            if (address[first] - shared < w.shared_bytes) {
                begin = shared;
                bytes = w.shared_bytes;
            } else if (address[first] - local < local_bytes) {
                begin = local;
                bytes = local_bytes;
            }
        }
    }
    u64 bad = bytes < size, unaligned = 0;
    const u64 span = bytes - size;
    WL_LANES(l) {
        bad |= u64(address[l] - begin > span);
        unaligned |= address[l];
    }
    if (bad == 0 && (unaligned & (size - 1)) == 0) {
        WL_LANES(l) out.lane[l] = reinterpret_cast<std::byte*>(address[l] + offset + pitch * l);
        return Pattern::scattered;
    }
    if (!resolve_lanes(w, i, mask, where, address, size, size, out.lane)) return Pattern::fault;
    for (u32 l = 0; l < 32; ++l) {
        if ((mask >> l & 1) == 0) out.lane[l] = out.lane[first];
    }
    return Pattern::scattered;
}

// Ways to an address. Each checks validity and alignment.

template <Where W>
struct Absolute {
    WL_INLINE static Pattern run(Warp& w, const Instr& i, uint32_t mask, u32 size, Resolved& out) {
        const u64* a = source<u64>(w, i.op[1]);
        if (mask == k_full_mask) {
            const exec::RangeCache& cache = w.caches[i.cache];
            Pattern pattern = find_pattern<u64>(a, i.imm, size, cache.begin, cache.end - cache.begin, 0, out);
            if (pattern != Pattern::fault) return pattern;
        }
        return scattered<u64>(w, i, mask, W, size, out);
    }
};

template <typename A>
struct Shared {
    WL_INLINE static Pattern run(Warp& w, const Instr& i, uint32_t mask, u32 size, Resolved& out) {
        const A* a = source<A>(w, i.op[1]);
        if (mask == k_full_mask) {
            Pattern pattern = find_pattern<A>(a, A(i.imm), size, 0, w.shared_bytes, reinterpret_cast<u64>(w.shared), out);
            if (pattern != Pattern::fault) return pattern;
        }
        return scattered<A>(w, i, mask, Where::shared, size, out);
    }
};

template <typename A>
struct Local {
    WL_INLINE static Pattern run(Warp& w, const Instr& i, uint32_t mask, u32 size, Resolved& out) {
        return scattered<A>(w, i, mask, Where::local, size, out);
    }
};

/// imm is an absolute address.
struct FixedGlobal {
    WL_INLINE static Pattern run(Warp& w, const Instr& i, uint32_t mask, u32 size, Resolved& out) {
        const exec::RangeCache& cache = w.caches[i.cache];
        if (i.imm - cache.begin < cache.end - cache.begin && cache.end - i.imm >= size && (i.imm & (size - 1)) == 0) {
            out.base[0] = reinterpret_cast<std::byte*>(i.imm);
            return Pattern::same;
        }
        u64 address[32];
        for (u64& lane : address) lane = i.imm;
        const auto first = u32(__builtin_ctz(mask));
        if (!resolve_lanes(w, i, 1u << first, Where::generic, address, size, size, out.lane)) return Pattern::fault;
        out.base[0] = out.lane[first];
        return Pattern::same;
    }
};

/// imm is an offset in shared memory.
struct FixedShared {
    WL_INLINE static Pattern run(Warp& w, const Instr& i, uint32_t mask, u32 size, Resolved& out) {
        if (i.imm <= w.shared_bytes && w.shared_bytes - i.imm >= size && (i.imm & (size - 1)) == 0) {
            out.base[0] = w.shared + i.imm;
            return Pattern::same;
        }
        u64 address[32];
        for (u64& lane : address) lane = i.imm;
        const auto first = u32(__builtin_ctz(mask));
        if (!resolve_lanes(w, i, 1u << first, Where::shared, address, size, size, out.lane)) return Pattern::fault;
        out.base[0] = out.lane[first];
        return Pattern::same;
    }
};

/// imm is an offset in the kernel's parameters, checked while decoding.
struct FixedParam {
    WL_INLINE static Pattern run(Warp& w, const Instr& i, uint32_t, u32, Resolved& out) {
        out.base[0] = w.params + i.imm;
        return Pattern::same;
    }
};

/// All ways behind one call, for what is not hot: the decoder has put the way's number into the flags.
[[gnu::noinline]] Pattern resolve_any(Warp& w, const Instr& i, uint32_t mask, u32 size, Resolved& out) {
    switch (Way(i.flags >> k_way_shift & 0xff)) {
        case Way::global: return Absolute<Where::global>::run(w, i, mask, size, out);
        case Way::generic: return Absolute<Where::generic>::run(w, i, mask, size, out);
        case Way::shared4: return Shared<u32>::run(w, i, mask, size, out);
        case Way::shared8: return Shared<u64>::run(w, i, mask, size, out);
        case Way::local4: return Local<u32>::run(w, i, mask, size, out);
        case Way::local8: return Local<u64>::run(w, i, mask, size, out);
        case Way::fixed_global: return FixedGlobal::run(w, i, mask, size, out);
        case Way::fixed_shared: return FixedShared::run(w, i, mask, size, out);
        case Way::fixed_param: return FixedParam::run(w, i, mask, size, out);
    }
    return Pattern::fault;
}
struct Any {
    WL_INLINE static Pattern run(Warp& w, const Instr& i, uint32_t mask, u32 size, Resolved& out) {
        return resolve_any(w, i, mask, size, out);
    }
};

template <typename T>
WL_INLINE T read(const std::byte* at) {
    return *reinterpret_cast<const T*>(at);
}

/// T: as it lies in memory; R: the register.
template <typename T, typename R, typename Access>
Flow load(Warp& w, const Instr& i, uint32_t mask) {
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
                __builtin_memcpy(d, at.base[0], 32 * sizeof(T));
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
                    __builtin_memcpy(d + g * k_group, at.base[g], k_group * sizeof(T));
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
Flow store(Warp& w, const Instr& i, uint32_t mask) {
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
                __builtin_memcpy(at.base[g], s + g * k_group, k_group * sizeof(T));
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

template <typename T, typename R, u32 N>
Flow load_vector(Warp& w, const Instr& i, uint32_t mask) {
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
    for (u32 l = 0; l < 32; ++l) copy_vector<k_bytes>(gathered + l * N, lane_address(at, pattern, l, k_bytes));
    for (u32 e = 0; e < N; ++e) {
        fill(dest<R>(w, vector.slots[e]), mask, [=](uint32_t l) { return R(gathered[l * N + e]); });
    }
    return Flow::next;
}

template <typename T, typename R, u32 N>
Flow store_vector(Warp& w, const Instr& i, uint32_t mask) {
    Resolved at;
    constexpr u32 k_bytes = sizeof(T) * N;
    const auto& vector = *static_cast<const VectorOperand*>(i.extra);
    Pattern pattern = resolve_any(w, i, mask, k_bytes, at);
    if (pattern == Pattern::fault) return Flow::fault;
    alignas(64) T gathered[32 * N];
    for (u32 e = 0; e < N; ++e) {
        const R* s = source<R>(w, vector.slots[e]);
        WL_LANES(l) gathered[l * N + e] = T(s[l]);
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
#define WL_HOT(way, Access)                                                                                           \
    WL_LD(way, Access, "4u.4", u32, u32), WL_LD(way, Access, "8u.8", u64, u64), WL_ST(way, Access, "4u.4", u32, u32), \
        WL_ST(way, Access, "8u.8", u64, u64)

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
