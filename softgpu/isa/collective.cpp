// Instructions in which the lanes of a warp exchange values: shfl, vote, match, redux, activemask, elect.
#include <algorithm>
#include <cstring>

#include "softgpu/isa/decode_helpers.h"
#include "softgpu/isa/families.h"

namespace warpline::softgpu::isa {

namespace {

using exec::dest;
using exec::k_warp_size;
using exec::predicate;
using exec::set_predicate;
using exec::source;

template <typename F>
void each_lane(uint32_t mask, F&& f) {
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) f(uint32_t(__builtin_ctz(rest)));
}

/// For the forms without .sync: the members are the lanes at hand.
bool arrived(Warp& w, const Instr& i, uint32_t mask, int32_t members) {
    return members == 0 || w.converge(i, mask, source<uint32_t>(w, members));
}

// --- shfl: op[0] = d, op[1] = p, op[2] = a, op[3] = b, op[4] = c; extra = &members; imm = has p

enum class Shuffle { up, down, butterfly, index };
struct ShuffleExtra {
    int32_t members;
};

template <Shuffle Mode>
Flow shfl(Warp& w, const Instr& i, uint32_t mask) {
    int32_t members = static_cast<const ShuffleExtra*>(i.extra)->members;
    if (!arrived(w, i, mask, members)) return Flow::switch_;
    uint32_t value[k_warp_size];
    std::memcpy(value, source<uint32_t>(w, i.op[2]), sizeof(value));
    const uint32_t* b = source<uint32_t>(w, i.op[3]);
    const uint32_t* c = source<uint32_t>(w, i.op[4]);
    uint32_t result[k_warp_size], valid = 0;
    each_lane(mask, [&](uint32_t lane) {
        uint32_t offset = b[lane] & 31, clamp = c[lane] & 31, segment = c[lane] >> 8 & 31;
        uint32_t highest = (lane & segment) | (clamp & ~segment), lowest = lane & segment;
        uint32_t from = 0;
        bool in_range = false;
        if constexpr (Mode == Shuffle::up) {
            from = lane - offset;
            in_range = int32_t(from) >= int32_t(highest);  // for up, c gives the lowest lane
        } else if constexpr (Mode == Shuffle::down) {
            from = lane + offset;
            in_range = from <= highest;
        } else if constexpr (Mode == Shuffle::butterfly) {
            from = lane ^ offset;
            in_range = from <= highest;
        } else {
            from = lowest | (offset & ~segment);
            in_range = from <= highest;
        }
        if (!in_range) from = lane;
        // What a lane that takes no part would give is undefined in PTX. GPUs give 0, and programs that reduce with fewer
        // lanes than they shuffle over rely on it.
        result[lane] = (mask >> from & 1) != 0 ? value[from] : 0;
        valid |= uint32_t{in_range} << lane;
    });
    uint32_t* d = dest<uint32_t>(w, i.op[0]);
    each_lane(mask, [&](uint32_t lane) { d[lane] = result[lane]; });
    if (i.imm != 0) set_predicate(w, i.op[1], valid, mask);
    return Flow::next;
}

bool decode_shfl(DecodeContext& context) {
    bool sync = context.has("sync");
    if (context.operand_count() != (sync ? 5u : 4u)) return context.invalid("wrong number of operands");
    auto* extra = context.storage<ShuffleExtra>();
    int32_t a = context.in(1, 4, 0), b = context.in(2, 4, 0), c = context.in(3, 4, 0);
    extra->members = sync ? context.in(4, 4, 0) : 0;
    if (sync && extra->members == 0) extra->members = context.in(4, 4, 0);
    bool has_predicate = context.element_count(0) == 2;
    int32_t d = context.out(0, 4, 0), p = has_predicate ? context.out_pred(0, 1) : 0;
    Handler handler = context.has("up")     ? &shfl<Shuffle::up>
                      : context.has("down") ? &shfl<Shuffle::down>
                      : context.has("bfly") ? &shfl<Shuffle::butterfly>
                                            : &shfl<Shuffle::index>;
    Instr& instr = context.emit(handler);
    instr.op[0] = d;
    instr.op[1] = p;
    instr.op[2] = a;
    instr.op[3] = b;
    instr.op[4] = c;
    instr.imm = has_predicate;
    instr.extra = extra;
    return true;
}

// --- vote: op[0] = d, op[1] = p, op[2] = members (imm = 1: .sync)

enum class Vote { all, any, uni, ballot };

/// Lanes of a member mask that take part: those that stand here.
uint32_t voters(uint32_t members, uint32_t mask, bool sync) { return sync ? members & mask : mask; }

template <Vote Mode>
Flow vote(Warp& w, const Instr& i, uint32_t mask) {
    bool sync = i.imm != 0;
    const uint32_t* members = source<uint32_t>(w, i.op[2]);
    if (sync && !w.converge(i, mask, members)) return Flow::switch_;
    uint32_t p = predicate(w, i.op[1]), answer = 0;
    uint32_t* d = dest<uint32_t>(w, i.op[0]);
    uint32_t copy[k_warp_size];
    if (sync) std::memcpy(copy, members, sizeof(copy));
    each_lane(mask, [&](uint32_t lane) {
        uint32_t group = voters(sync ? copy[lane] : 0, mask, sync), yes = p & group;
        if constexpr (Mode == Vote::ballot) {
            d[lane] = yes;
        } else {
            bool holds = Mode == Vote::all ? yes == group : Mode == Vote::any ? yes != 0 : (yes == 0 || yes == group);
            answer |= uint32_t{holds} << lane;
        }
    });
    if (Mode != Vote::ballot) set_predicate(w, i.op[0], answer, mask);
    return Flow::next;
}

bool decode_vote(DecodeContext& context) {
    bool sync = context.has("sync"), ballot = context.has("ballot");
    if (context.operand_count() != (sync ? 3u : 2u)) return context.invalid("wrong number of operands");
    int32_t p = context.in_pred(1, 0);
    int32_t members = sync ? context.in(2, 4, 0) : context.constant_row(0, 4);
    int32_t d = ballot ? context.out(0, 4, 0) : context.out_pred(0, 0);
    Handler handler = ballot               ? &vote<Vote::ballot>
                      : context.has("all") ? &vote<Vote::all>
                      : context.has("any") ? &vote<Vote::any>
                                           : &vote<Vote::uni>;
    Instr& instr = context.emit(handler);
    instr.op[0] = d;
    instr.op[1] = p;
    instr.op[2] = members;
    instr.imm = sync;
    return true;
}

// --- match: op[0] = d, op[1] = p, op[2] = a, op[3] = members; imm = has p

template <typename T, bool All>
Flow match(Warp& w, const Instr& i, uint32_t mask) {
    const uint32_t* member_row = source<uint32_t>(w, i.op[3]);
    if (!w.converge(i, mask, member_row)) return Flow::switch_;
    const T* a = source<T>(w, i.op[2]);
    uint32_t result[k_warp_size], same_all = 0;
    each_lane(mask, [&](uint32_t lane) {
        uint32_t group = member_row[lane] & mask, same = 0;
        each_lane(group, [&](uint32_t other) { same |= uint32_t{a[other] == a[lane]} << other; });
        bool all = same == group;
        result[lane] = !All ? same : all ? group : 0;
        same_all |= uint32_t{all} << lane;
    });
    uint32_t* d = dest<uint32_t>(w, i.op[0]);
    each_lane(mask, [&](uint32_t lane) { d[lane] = result[lane]; });
    if (i.imm != 0) set_predicate(w, i.op[1], same_all, mask);
    return Flow::next;
}

bool decode_match(DecodeContext& context) {
    TypeInfo type = last_type(context);
    if (context.operand_count() != 3 || (type.bytes != 4 && type.bytes != 8)) return context.unsupported();
    bool all = context.has("all"), has_predicate = context.element_count(0) == 2;
    int32_t a = context.in(1, type.bytes, 0), members = context.in(2, 4, 0);
    int32_t d = context.out(0, 4, 0), p = has_predicate ? context.out_pred(0, 1) : 0;
    Handler handler = type.bytes == 4 ? (all ? &match<uint32_t, true> : &match<uint32_t, false>)
                                      : (all ? &match<uint64_t, true> : &match<uint64_t, false>);
    Instr& instr = context.emit(handler);
    instr.op[0] = d;
    instr.op[1] = p;
    instr.op[2] = a;
    instr.op[3] = members;
    instr.imm = has_predicate;
    return true;
}

// --- redux: op[0] = d, op[1] = a, op[2] = members

struct Sum {
    template <typename T>
    static T run(T a, T b) {
        return T(a + b);
    }
};
struct Smallest {
    template <typename T>
    static T run(T a, T b) {
        return std::min(a, b);
    }
};
struct Largest {
    template <typename T>
    static T run(T a, T b) {
        return std::max(a, b);
    }
};
struct AllBits {
    template <typename T>
    static T run(T a, T b) {
        return a & b;
    }
};
struct AnyBits {
    template <typename T>
    static T run(T a, T b) {
        return a | b;
    }
};
struct OddBits {
    template <typename T>
    static T run(T a, T b) {
        return a ^ b;
    }
};

template <typename T, typename Op>
Flow redux(Warp& w, const Instr& i, uint32_t mask) {
    const uint32_t* member_row = source<uint32_t>(w, i.op[2]);
    if (!w.converge(i, mask, member_row)) return Flow::switch_;
    const T* a = source<T>(w, i.op[1]);
    T result[k_warp_size];
    each_lane(mask, [&](uint32_t lane) {
        uint32_t group = (member_row[lane] & mask) | 1u << lane;
        auto first = uint32_t(__builtin_ctz(group));
        T total = a[first];
        each_lane(group & (group - 1), [&](uint32_t other) { total = Op::run(total, a[other]); });
        result[lane] = total;
    });
    T* d = dest<T>(w, i.op[0]);
    each_lane(mask, [&](uint32_t lane) { d[lane] = result[lane]; });
    return Flow::next;
}

const Row k_redux[] = {
    {"redux.sync.add.s32", &redux<uint32_t, Sum>, {out(4), in(4), in(4)}, 0},
    {"redux.sync.add.u32", &redux<uint32_t, Sum>, {out(4), in(4), in(4)}, 0},
    {"redux.sync.min.s32", &redux<int32_t, Smallest>, {out(4), in(4), in(4)}, 0},
    {"redux.sync.min.u32", &redux<uint32_t, Smallest>, {out(4), in(4), in(4)}, 0},
    {"redux.sync.max.s32", &redux<int32_t, Largest>, {out(4), in(4), in(4)}, 0},
    {"redux.sync.max.u32", &redux<uint32_t, Largest>, {out(4), in(4), in(4)}, 0},
    {"redux.sync.and.b32", &redux<uint32_t, AllBits>, {out(4), in(4), in(4)}, 0},
    {"redux.sync.or.b32", &redux<uint32_t, AnyBits>, {out(4), in(4), in(4)}, 0},
    {"redux.sync.xor.b32", &redux<uint32_t, OddBits>, {out(4), in(4), in(4)}, 0},
};

// --- activemask, elect

Flow activemask(Warp& w, const Instr& i, uint32_t mask) {
    uint32_t* d = dest<uint32_t>(w, i.op[0]);
    each_lane(mask, [&](uint32_t lane) { d[lane] = mask; });
    return Flow::next;
}

/// op[0] = d, op[1] = p, op[2] = members: the first lane of them is chosen.
Flow elect(Warp& w, const Instr& i, uint32_t mask) {
    const uint32_t* members = source<uint32_t>(w, i.op[2]);
    if (!w.converge(i, mask, members)) return Flow::switch_;
    uint32_t* d = dest<uint32_t>(w, i.op[0]);
    uint32_t chosen = 0;
    each_lane(mask, [&](uint32_t lane) {
        auto leader = uint32_t(__builtin_ctz((members[lane] & mask) | 1u << lane));
        d[lane] = leader;
        chosen |= uint32_t{leader == lane} << lane;
    });
    set_predicate(w, i.op[1], chosen, mask);
    return Flow::next;
}

bool decode_elect(DecodeContext& context) {
    if (context.operand_count() != 2 || context.element_count(0) != 2) return context.unsupported();
    int32_t members = context.in(1, 4, 0), d = context.out(0, 4, 0), p = context.out_pred(0, 1);
    Instr& instr = context.emit(&elect);
    instr.op[0] = d;
    instr.op[1] = p;
    instr.op[2] = members;
    return true;
}

const Row k_rows[] = {{"activemask.b32", &activemask, {out(4)}, 0}};

}  // namespace

void register_collective(Registry& registry) {
    registry.add(k_redux);
    registry.add(k_rows);
    registry.add_decoder("shfl", &decode_shfl);
    registry.add_decoder("vote", &decode_vote);
    registry.add_decoder("match", &decode_match);
    registry.add_decoder("elect", &decode_elect);
}

}  // namespace warpline::softgpu::isa
