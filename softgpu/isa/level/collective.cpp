// Instructions in which lanes exchange values, and movs that put registers together or take them apart: all lanes at once.
// Decoding is in isa/collective.cpp and isa/packing.cpp.
#include "softgpu/isa/access.h"
#include "softgpu/isa/level/level.h"
#include "softgpu/isa/level/tables.h"

namespace warpline::softgpu::isa::WL_LEVEL {

namespace {

/// For the forms without .sync the members are the lanes at hand.
WL_INLINE bool arrived(Warp& w, const Instr& i, uint32_t mask, const int32_t* members) {
    return members == nullptr || w.converge(i, mask, source<u32>(w, *members));
}

/// d[l] = row[from[l]]; all of from are below 32, d is none of the others.
WL_INLINE void permute(u32* d, const u32* row, const u32* from) {
#if defined(__AVX512F__)
    const __m512i low = _mm512_loadu_si512(row), high = _mm512_loadu_si512(row + 16);
    for (u32 l = 0; l < 32; l += 16)
        _mm512_storeu_si512(d + l, _mm512_permutex2var_epi32(low, _mm512_loadu_si512(from + l), high));
#else
    WL_LANES(l) d[l] = row[from[l]];
#endif
}

// --- shfl: op[0] = d, op[1] = p, op[2] = a, op[3] = b, op[4] = c; extra: slot of the members; imm = has p

enum class Shuffle { up, down, butterfly, index };

/// Which lane a lane reads, and whether that is within its segment. For up, c gives the lowest lane.
template <Shuffle Mode>
WL_INLINE u32 partner(u32 lane, u32 offset, u32 segment) {
    if constexpr (Mode == Shuffle::up) return lane - offset;
    if constexpr (Mode == Shuffle::down) return lane + offset;
    if constexpr (Mode == Shuffle::butterfly) return lane ^ offset;
    return (lane & segment) | (offset & ~segment);
}

template <Shuffle Mode>
Flow shfl(Warp& w, const Instr& i, uint32_t mask) {
    if (!arrived(w, i, mask, static_cast<const int32_t*>(i.extra))) return Flow::switch_;
    const u32* b = source<u32>(w, i.op[3]);
    const u32* c = source<u32>(w, i.op[4]);
    alignas(64) u32 value[32], from[32], within[32], result[32];
    // What a lane that takes no part would give is undefined in PTX. GPUs give 0, and programs that reduce with fewer lanes
    // than they shuffle over rely on it.
    const u32* a = source<u32>(w, i.op[2]);
    WL_LANES(l) value[l] = (mask & k_bits32.bit[l]) != 0 ? a[l] : 0;
    WL_LANES(l) {
        const u32 segment = c[l] >> 8 & 31, bound = (l & segment) | (c[l] & 31 & ~segment);
        const u32 lane = partner<Mode>(l, b[l] & 31, segment);
        within[l] = Mode == Shuffle::up ? int32_t(lane) >= int32_t(bound) : lane <= bound;
        from[l] = within[l] != 0 ? lane : l;
    }
    permute(result, value, from);
    u32* d = dest<u32>(w, i.op[0]);
    Select<4>::run(d, result, d, mask);
    if (i.imm != 0) set_predicate(w, i.op[1], ballot([&](uint32_t l) { return within[l] != 0; }), mask);
    return Flow::next;
}

// --- vote: op[0] = d, op[1] = p, op[2] = members (imm = 1: .sync)

enum class Vote { all, any, uni, ballot };

template <Vote Mode>
Flow vote(Warp& w, const Instr& i, uint32_t mask) {
    const u32* members = source<u32>(w, i.op[2]);
    const bool sync = i.imm != 0;
    if (sync && !w.converge(i, mask, members)) return Flow::switch_;
    const u32 p = predicate(w, i.op[1]), everybody = sync ? 0 : ~0u;
    // Lanes of a member mask that take part are those that stand here.
    auto group = [=](uint32_t l) { return (members[l] | everybody) & mask; };
    if constexpr (Mode == Vote::ballot) {
        return fill(dest<u32>(w, i.op[0]), mask, [=](uint32_t l) { return p & group(l); });
    } else {
        const u32 answer = ballot([=](uint32_t l) {
            const u32 yes = p & group(l);
            const bool all = yes == group(l), any = yes != 0;
            return Mode == Vote::all ? all : Mode == Vote::any ? any : !any || all;
        });
        set_predicate(w, i.op[0], answer, mask);
        return Flow::next;
    }
}

// --- match: op[0] = d, op[1] = p, op[2] = a, op[3] = members; imm = has p

template <typename T, bool All>
Flow match(Warp& w, const Instr& i, uint32_t mask) {
    const u32* members = source<u32>(w, i.op[3]);
    if (!w.converge(i, mask, members)) return Flow::switch_;
    const T* a = source<T>(w, i.op[2]);
    alignas(64) u32 same[32] = {};
    for (u32 rest = mask; rest != 0;) {  // a round for each value that there is
        const T value = a[__builtin_ctz(rest)];
        const u32 equal = ballot([=](uint32_t l) { return a[l] == value; }) & mask;
        WL_LANES(l) same[l] = (equal & k_bits32.bit[l]) != 0 ? equal : same[l];
        rest &= ~equal;
    }
    alignas(64) u32 result[32];
    WL_LANES(l) {
        const u32 group = members[l] & mask, here = same[l] & group;
        same[l] = here == group;
        result[l] = !All ? here : here == group ? group : 0;
    }
    u32* d = dest<u32>(w, i.op[0]);
    Select<4>::run(d, result, d, mask);
    if (i.imm != 0) set_predicate(w, i.op[1], ballot([&](uint32_t l) { return same[l] != 0; }), mask);
    return Flow::next;
}

// --- redux: op[0] = d, op[1] = a, op[2] = members

struct Sum {
    template <typename T>
    WL_INLINE static T run(T a, T b) {
        return T(a + b);
    }
};
struct Smallest {
    template <typename T>
    WL_INLINE static T run(T a, T b) {
        return a < b ? a : b;
    }
};
struct Largest {
    template <typename T>
    WL_INLINE static T run(T a, T b) {
        return a < b ? b : a;
    }
};
struct AllBits {
    template <typename T>
    WL_INLINE static T run(T a, T b) {
        return a & b;
    }
};
struct AnyBits {
    template <typename T>
    WL_INLINE static T run(T a, T b) {
        return a | b;
    }
};
struct OddBits {
    template <typename T>
    WL_INLINE static T run(T a, T b) {
        return a ^ b;
    }
};

template <typename T, typename Op>
WL_INLINE T reduce(const T* a, u32 group) {
    T total = a[__builtin_ctz(group)];
    for (u32 rest = group & (group - 1); rest != 0; rest &= rest - 1) total = Op::run(total, a[__builtin_ctz(rest)]);
    return total;
}

template <typename T, typename Op>
Flow redux(Warp& w, const Instr& i, uint32_t mask) {
    const u32* members = source<u32>(w, i.op[2]);
    if (!w.converge(i, mask, members)) return Flow::switch_;
    const T* a = source<T>(w, i.op[1]);
    const u32 first = members[__builtin_ctz(mask)];
    const u32 alike = ballot([=](uint32_t l) { return members[l] == first; });
    if ((mask & ~(alike & first)) == 0) {  // one group
        const T total = reduce<T, Op>(a, first & mask);
        return fill(dest<T>(w, i.op[0]), mask, [=](uint32_t) { return total; });
    }
    alignas(64) T result[32] = {};
    for (u32 rest = mask; rest != 0; rest &= rest - 1) {
        const auto lane = u32(__builtin_ctz(rest));
        result[lane] = reduce<T, Op>(a, (members[lane] & mask) | 1u << lane);
    }
    T* d = dest<T>(w, i.op[0]);
    Select<sizeof(T)>::run(d, result, d, mask);
    return Flow::next;
}

// --- mov of vectors: op[0] or op[1] = the whole; extra begins with a VectorOperand

template <typename Whole, typename Element>
Flow pack(Warp& w, const Instr& i, uint32_t mask) {
    constexpr u32 k_count = sizeof(Whole) / sizeof(Element), k_shift = 8 * sizeof(Element);
    const auto& vector = *static_cast<const VectorOperand*>(i.extra);
    const Element* from[k_count];
    for (u32 e = 0; e < k_count; ++e) from[e] = source<Element>(w, vector.slots[e]);
    return fill(dest<Whole>(w, i.op[0]), mask, [&](uint32_t l) {
        Whole whole = from[0][l];
        for (u32 e = 1; e < k_count; ++e) whole |= Whole(Whole(from[e][l]) << (k_shift * e));
        return whole;
    });
}

template <typename Whole, typename Element>
Flow unpack(Warp& w, const Instr& i, uint32_t mask) {
    const auto& vector = *static_cast<const VectorOperand*>(i.extra);
    const Whole* from = source<Whole>(w, i.op[1]);
    for (u32 e = 0; e < sizeof(Whole) / sizeof(Element); ++e) {
        const u32 shift = 8 * sizeof(Element) * e;
        fill(dest<Element>(w, vector.slots[e]), mask, [=](uint32_t l) { return Element(from[l] >> shift); });
    }
    return Flow::next;
}

#define WL_REDUX(name, T, Op) \
    { "redux.sync." name, &redux<T, Op>, {out(4), in(4), in(4)}, 0 }

const Row k_rows[] = {
    {"$shfl.up", &shfl<Shuffle::up>, {}, 0},
    {"$shfl.down", &shfl<Shuffle::down>, {}, 0},
    {"$shfl.bfly", &shfl<Shuffle::butterfly>, {}, 0},
    {"$shfl.idx", &shfl<Shuffle::index>, {}, 0},
    {"$vote.all", &vote<Vote::all>, {}, 0},
    {"$vote.any", &vote<Vote::any>, {}, 0},
    {"$vote.uni", &vote<Vote::uni>, {}, 0},
    {"$vote.ballot", &vote<Vote::ballot>, {}, 0},
    {"$match.any.4", &match<u32, false>, {}, 0},
    {"$match.all.4", &match<u32, true>, {}, 0},
    {"$match.any.8", &match<u64, false>, {}, 0},
    {"$match.all.8", &match<u64, true>, {}, 0},
    WL_REDUX("add.s32", u32, Sum),
    WL_REDUX("add.u32", u32, Sum),
    WL_REDUX("min.s32", int32_t, Smallest),
    WL_REDUX("min.u32", u32, Smallest),
    WL_REDUX("max.s32", int32_t, Largest),
    WL_REDUX("max.u32", u32, Largest),
    WL_REDUX("and.b32", u32, AllBits),
    WL_REDUX("or.b32", u32, AnyBits),
    WL_REDUX("xor.b32", u32, OddBits),
    {"$pack.8.4", &pack<u64, u32>, {}, 0},
    {"$pack.4.2", &pack<u32, u16>, {}, 0},
    {"$pack.8.2", &pack<u64, u16>, {}, 0},
    {"$unpack.8.4", &unpack<u64, u32>, {}, 0},
    {"$unpack.4.2", &unpack<u32, u16>, {}, 0},
    {"$unpack.8.2", &unpack<u64, u16>, {}, 0},
};

}  // namespace

Rows collective_rows() { return WL_ROWS(k_rows); }

}  // namespace warpline::softgpu::isa::WL_LEVEL
