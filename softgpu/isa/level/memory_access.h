// From rows of addresses to host addresses: how they lie, and whether they are valid. For memory.cpp.
#pragma once

#include "softgpu/isa/access.h"
#include "softgpu/isa/level/level.h"

namespace warpline::softgpu::isa::WL_LEVEL {

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

/// The same for one step that is known while compiling.
template <typename A, A Step>
WL_INLINE bool regular_by(const A* a) {
    constexpr Eight<A> expected = {0, Step, 2 * Step, 3 * Step, 4 * Step, 5 * Step, 6 * Step, 7 * Step};
    Eight<A> different = {};
    for (u32 g = 0; g < 32; g += k_group) different |= (load8<A>(a + g) - a[g]) ^ expected;
    return all_zero<A>(different);
}

/// Where addresses are valid, and what leads from one to the host's.
struct Window {
    u64 begin, bytes, offset;
    bool holds(u64 first, u64 last, u64 size) const { return bytes >= size && first >= begin && last - begin <= bytes - size; }
};

/// How regular all 32 addresses are, by two compares and no more work than that: what the common accesses begin with. The first
/// two lanes say which distance it can be; processors predict that.
enum class Shape { other, same, contiguous, uniform, sequence };
template <u32 Size, typename A>
WL_INLINE Shape find_shape(const A* a) {
    const A step = A(a[1] - a[0]);
    if (step == 0) {
        if (!regular_by<A, 0>(a)) return Shape::other;
        return (A(a[8] - a[0]) | A(a[16] - a[0]) | A(a[24] - a[0])) == 0 ? Shape::same : Shape::uniform;
    }
    if (step != Size || !regular_by<A, Size>(a)) return Shape::other;
    bool whole = A(a[8] - a[0]) == 8 * Size && A(a[16] - a[0]) == 16 * Size && A(a[24] - a[0]) == 24 * Size;
    return whole ? Shape::contiguous : Shape::sequence;
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
    using Address = u64;
    WL_INLINE static Window window(const Warp& w, const Instr& i) {
        const exec::RangeCache& cache = w.caches[i.cache];
        return {cache.begin, cache.end - cache.begin, 0};
    }
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
    using Address = A;
    WL_INLINE static Window window(const Warp& w, const Instr&) { return {0, w.shared_bytes, reinterpret_cast<u64>(w.shared)}; }
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
[[gnu::noinline]] inline Pattern resolve_any(Warp& w, const Instr& i, uint32_t mask, u32 size, Resolved& out) {
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

}  // namespace warpline::softgpu::isa::WL_LEVEL
