// Instructions in which the lanes of a warp exchange values: shfl, vote, match (their handlers, and redux, are in
// level/collective.cpp), activemask, elect.
#include <string>

#include "softgpu/isa/decode_helpers.h"
#include "softgpu/isa/families.h"

namespace warpline::softgpu::isa {

namespace {

using exec::dest;
using exec::set_predicate;
using exec::source;

template <typename F>
void each_lane(uint32_t mask, F&& f) {
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) f(uint32_t(__builtin_ctz(rest)));
}

// --- shfl: op[0] = d, op[1] = p, op[2] = a, op[3] = b, op[4] = c; extra = slot of the members, null without; imm = has p

bool decode_shfl(DecodeContext& context) {
    bool sync = context.has("sync");
    if (context.operand_count() != (sync ? 5u : 4u)) return context.invalid("wrong number of operands");
    int32_t a = context.in(1, 4, 0), b = context.in(2, 4, 0), c = context.in(3, 4, 0);
    int32_t* members = sync ? context.storage<int32_t>() : nullptr;
    if (sync) *members = context.in(4, 4, 0);
    bool has_predicate = context.element_count(0) == 2;
    int32_t d = context.out(0, 4, 0), p = has_predicate ? context.out_pred(0, 1) : 0;
    Handler handler = context.handler(context.has("up")     ? "$shfl.up"
                                      : context.has("down") ? "$shfl.down"
                                      : context.has("bfly") ? "$shfl.bfly"
                                                            : "$shfl.idx");
    if (handler == nullptr) return false;
    Instr& instr = context.emit(handler);
    instr.op[0] = d;
    instr.op[1] = p;
    instr.op[2] = a;
    instr.op[3] = b;
    instr.op[4] = c;
    instr.imm = has_predicate;
    instr.extra = members;
    return true;
}

// --- vote: op[0] = d, op[1] = p, op[2] = members (imm = 1: .sync)

bool decode_vote(DecodeContext& context) {
    bool sync = context.has("sync"), ballot = context.has("ballot");
    if (context.operand_count() != (sync ? 3u : 2u)) return context.invalid("wrong number of operands");
    int32_t p = context.in_pred(1, 0);
    int32_t members = sync ? context.in(2, 4, 0) : context.constant_row(0, 4);
    int32_t d = ballot ? context.out(0, 4, 0) : context.out_pred(0, 0);
    Handler handler = context.handler(ballot               ? "$vote.ballot"
                                      : context.has("all") ? "$vote.all"
                                      : context.has("any") ? "$vote.any"
                                                           : "$vote.uni");
    if (handler == nullptr) return false;
    Instr& instr = context.emit(handler);
    instr.op[0] = d;
    instr.op[1] = p;
    instr.op[2] = members;
    instr.imm = sync;
    return true;
}

// --- match: op[0] = d, op[1] = p, op[2] = a, op[3] = members; imm = has p

bool decode_match(DecodeContext& context) {
    TypeInfo type = last_type(context);
    if (context.operand_count() != 3 || (type.bytes != 4 && type.bytes != 8)) return context.unsupported();
    bool all = context.has("all"), has_predicate = context.element_count(0) == 2;
    int32_t a = context.in(1, type.bytes, 0), members = context.in(2, 4, 0);
    int32_t d = context.out(0, 4, 0), p = has_predicate ? context.out_pred(0, 1) : 0;
    Handler handler = context.handler(std::string(all ? "$match.all." : "$match.any.") + (type.bytes == 4 ? "4" : "8"));
    if (handler == nullptr) return false;
    Instr& instr = context.emit(handler);
    instr.op[0] = d;
    instr.op[1] = p;
    instr.op[2] = a;
    instr.op[3] = members;
    instr.imm = has_predicate;
    return true;
}

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
    registry.add(k_rows);
    registry.add_decoder("shfl", &decode_shfl);
    registry.add_decoder("vote", &decode_vote);
    registry.add_decoder("match", &decode_match);
    registry.add_decoder("elect", &decode_elect);
}

}  // namespace warpline::softgpu::isa
