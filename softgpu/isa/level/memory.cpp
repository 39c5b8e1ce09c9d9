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

/// How the lanes' addresses lie.
enum class Pattern { fault, uniform, contiguous, scattered };

struct Resolved {
    std::byte* base;  ///< of lane 0, if uniform or contiguous
    alignas(64) std::byte* lane[32];
};

template <typename A>
WL_INLINE bool all_equal(const A* a) {
    if (a[31] != a[0] || a[1] != a[0]) return false;
    A different = 0;
    WL_LANES(l) different |= a[l] ^ a[0];
    return different == 0;
}
template <typename A>
WL_INLINE bool in_sequence(const A* a, A size) {
    if (A(a[1] - a[0]) != size || A(a[31] - a[0]) != A(size * 31)) return false;
    A different = 0;
    WL_LANES(l) different |= A(a[l] - a[0]) ^ A(size * l);
    return different == 0;
}

/// The general case: host addresses lane by lane. Lanes that are not active get the first active lane's, so that loads may read them.
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
            const u64 first = a[0] + i.imm;
            const u64 offset = first - cache.begin, bytes = cache.end - cache.begin;
            out.base = reinterpret_cast<std::byte*>(first);
            if ((first & (size - 1)) == 0 && bytes >= 32 * size && offset <= bytes - 32 * size && in_sequence<u64>(a, size)) {
                return Pattern::contiguous;
            }
            if ((first & (size - 1)) == 0 && bytes >= size && offset <= bytes - size && all_equal<u64>(a)) return Pattern::uniform;
        }
        return scattered<u64>(w, i, mask, W, size, out);
    }
};

template <typename A>
struct Shared {
    WL_INLINE static Pattern run(Warp& w, const Instr& i, uint32_t mask, u32 size, Resolved& out) {
        const A* a = source<A>(w, i.op[1]);
        if (mask == k_full_mask) {
            const u64 first = A(a[0] + A(i.imm)), bytes = w.shared_bytes;
            out.base = w.shared + first;
            if ((first & (size - 1)) == 0 && bytes >= 32 * size && first <= bytes - 32 * size && in_sequence<A>(a, A(size))) {
                return Pattern::contiguous;
            }
            if ((first & (size - 1)) == 0 && bytes >= size && first <= bytes - size && all_equal<A>(a)) return Pattern::uniform;
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
            out.base = reinterpret_cast<std::byte*>(i.imm);
            return Pattern::uniform;
        }
        u64 address[32];
        for (u64& lane : address) lane = i.imm;
        const auto first = u32(__builtin_ctz(mask));
        if (!resolve_lanes(w, i, 1u << first, Where::generic, address, size, size, out.lane)) return Pattern::fault;
        out.base = out.lane[first];
        return Pattern::uniform;
    }
};

/// imm is an offset in shared memory.
struct FixedShared {
    WL_INLINE static Pattern run(Warp& w, const Instr& i, uint32_t mask, u32 size, Resolved& out) {
        if (i.imm <= w.shared_bytes && w.shared_bytes - i.imm >= size && (i.imm & (size - 1)) == 0) {
            out.base = w.shared + i.imm;
            return Pattern::uniform;
        }
        u64 address[32];
        for (u64& lane : address) lane = i.imm;
        const auto first = u32(__builtin_ctz(mask));
        if (!resolve_lanes(w, i, 1u << first, Where::shared, address, size, size, out.lane)) return Pattern::fault;
        out.base = out.lane[first];
        return Pattern::uniform;
    }
};

/// imm is an offset in the kernel's parameters, checked while decoding.
struct FixedParam {
    WL_INLINE static Pattern run(Warp& w, const Instr& i, uint32_t, u32, Resolved& out) {
        out.base = w.params + i.imm;
        return Pattern::uniform;
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
        case Pattern::uniform: {
            const R value = R(read<T>(at.base));
            return fill(d, mask, [=](uint32_t) { return value; });
        }
        case Pattern::contiguous: {  // only with all lanes
            const T* from = reinterpret_cast<const T*>(at.base);
            WL_LANES(l) d[l] = R(from[l]);
            return Flow::next;
        }
        case Pattern::scattered: return fill(d, mask, [&](uint32_t l) { return R(read<T>(at.lane[l])); });
        case Pattern::fault: break;
    }
    return Flow::fault;
}

/// T: as it lies in memory; R: the register, which may be wider.
template <typename T, typename R, typename Access>
Flow store(Warp& w, const Instr& i, uint32_t mask) {
    Resolved at;
    const R* s = source<R>(w, i.op[0]);
    switch (Access::run(w, i, mask, sizeof(T), at)) {
        case Pattern::uniform: {
            // Which lane wins is not defined; the last one does.
            const auto last = 31u - u32(__builtin_clz(mask));
            *reinterpret_cast<T*>(at.base) = T(s[last]);
            return Flow::next;
        }
        case Pattern::contiguous: {
            T* to = reinterpret_cast<T*>(at.base);
            WL_LANES(l) to[l] = T(s[l]);
            return Flow::next;
        }
        case Pattern::scattered:
            if (mask == k_full_mask) {
                for (u32 l = 0; l < 32; ++l) *reinterpret_cast<T*>(at.lane[l]) = T(s[l]);
                return Flow::next;
            }
            for (u32 rest = mask; rest != 0; rest &= rest - 1) {
                const auto l = u32(__builtin_ctz(rest));
                *reinterpret_cast<T*>(at.lane[l]) = T(s[l]);
            }
            return Flow::next;
        case Pattern::fault: break;
    }
    return Flow::fault;
}

/// Bytes of one lane's vector, moved at once: 16-byte accesses must not be torn (PTX vectors used as 128-bit atoms by CUB).
template <u32 Bytes>
struct Chunk {
    alignas(Bytes > 64 ? 64 : Bytes) unsigned char bytes[Bytes];
};
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
    const T* from = gathered;
    if (pattern == Pattern::uniform) {
        copy_vector<k_bytes>(gathered, at.base);
        for (u32 e = 0; e < N; ++e) {
            const R value = R(gathered[e]);
            fill(dest<R>(w, vector.slots[e]), mask, [=](uint32_t) { return value; });
        }
        return Flow::next;
    }
    if (pattern == Pattern::contiguous) {
        from = reinterpret_cast<const T*>(at.base);
    } else {
        for (u32 l = 0; l < 32; ++l) copy_vector<k_bytes>(gathered + l * N, at.lane[l]);
    }
    for (u32 e = 0; e < N; ++e) {
        fill(dest<R>(w, vector.slots[e]), mask, [=](uint32_t l) { return R(from[l * N + e]); });
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
        std::byte* to = pattern == Pattern::scattered ? at.lane[l] : pattern == Pattern::uniform ? at.base : at.base + l * k_bytes;
        copy_vector<k_bytes>(to, gathered + l * N);
    }
    return Flow::next;
}

// Names: <bytes in memory><u or s>.<bytes of the register>.
#define WL_LD(way, Access, name, T, R) {"$ld." way "." name, &load<T, R, Access>, {}, 0}
#define WL_ST(way, Access, name, T, R) {"$st." way "." name, &store<T, R, Access>, {}, 0}
#define WL_LDV(name, T, R, N) {"$ld.any." name ".v" #N, &load_vector<T, R, N>, {}, 0}
#define WL_STV(name, T, R, N) {"$st.any." name ".v" #N, &store_vector<T, R, N>, {}, 0}
#define WL_VECTORS(WL_X)                                                                                                      \
    WL_X("1u.2", u8, u16, 2), WL_X("1u.2", u8, u16, 4), WL_X("1u.4", u8, u32, 2), WL_X("1u.4", u8, u32, 4),                   \
        WL_X("2u.2", u16, u16, 2), WL_X("2u.2", u16, u16, 4), WL_X("2u.2", u16, u16, 8), WL_X("2u.4", u16, u32, 2),           \
        WL_X("2u.4", u16, u32, 4), WL_X("4u.4", u32, u32, 2), WL_X("4u.4", u32, u32, 4), WL_X("4u.4", u32, u32, 8),           \
        WL_X("8u.8", u64, u64, 2), WL_X("8u.8", u64, u64, 4)
/// The common accesses, with the way to the address built in.
#define WL_HOT(way, Access)                                                                                                   \
    WL_LD(way, Access, "4u.4", u32, u32), WL_LD(way, Access, "8u.8", u64, u64), WL_ST(way, Access, "4u.4", u32, u32),         \
        WL_ST(way, Access, "8u.8", u64, u64)

const Row k_rows[] = {
    WL_HOT("global", Absolute<Where::global>), WL_HOT("generic", Absolute<Where::generic>), WL_HOT("shared4", Shared<u32>),
    WL_HOT("shared8", Shared<u64>), WL_LD("fixed_param", FixedParam, "4u.4", u32, u32),
    WL_LD("fixed_param", FixedParam, "8u.8", u64, u64),
    WL_LD("any", Any, "1u.2", u8, u16), WL_LD("any", Any, "1u.4", u8, u32), WL_LD("any", Any, "1u.8", u8, u64),
    WL_LD("any", Any, "1s.2", s8, s16), WL_LD("any", Any, "1s.4", s8, s32), WL_LD("any", Any, "1s.8", s8, s64),
    WL_LD("any", Any, "2u.2", u16, u16), WL_LD("any", Any, "2u.4", u16, u32), WL_LD("any", Any, "2u.8", u16, u64),
    WL_LD("any", Any, "2s.4", s16, s32), WL_LD("any", Any, "2s.8", s16, s64), WL_LD("any", Any, "4u.4", u32, u32),
    WL_LD("any", Any, "4u.8", u32, u64), WL_LD("any", Any, "4s.8", s32, s64), WL_LD("any", Any, "8u.8", u64, u64),
    WL_LD("any", Any, "16u.16", u128, u128),
    WL_ST("any", Any, "1u.2", u8, u16), WL_ST("any", Any, "1u.4", u8, u32), WL_ST("any", Any, "1u.8", u8, u64),
    WL_ST("any", Any, "2u.2", u16, u16), WL_ST("any", Any, "2u.4", u16, u32), WL_ST("any", Any, "2u.8", u16, u64),
    WL_ST("any", Any, "4u.4", u32, u32), WL_ST("any", Any, "4u.8", u32, u64), WL_ST("any", Any, "8u.8", u64, u64),
    WL_ST("any", Any, "16u.16", u128, u128),
    WL_VECTORS(WL_LDV), WL_LDV("1s.2", s8, s16, 2), WL_LDV("1s.2", s8, s16, 4), WL_LDV("1s.4", s8, s32, 2),
    WL_LDV("1s.4", s8, s32, 4), WL_LDV("2s.4", s16, s32, 2), WL_LDV("2s.4", s16, s32, 4),
    WL_VECTORS(WL_STV),
};

}  // namespace

Rows memory_rows() { return WL_ROWS(k_rows); }

}  // namespace warpline::softgpu::isa::WL_LEVEL
