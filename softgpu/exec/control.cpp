// Branches, calls, returns and exits.
#include "softgpu/exec/control.h"

#include <cstring>

#include "softgpu/exec/launch.h"
#include "softgpu/exec/warp.h"

namespace warpline::softgpu::exec::control {

namespace {

template <typename F>
void for_lanes(uint32_t mask, F&& f) {
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) f(uint32_t(__builtin_ctz(rest)));
}

void count_back_edge(Warp& warp, const Instr& instr) {
    if ((instr.flags & instr_back_edge) != 0) warp.budget--;
}

Flow take_branch(Warp& warp, const Instr& instr) {
    count_back_edge(warp, instr);
    if (warp.budget <= 0) return stop_at(warp, instr.target);
    return go_to(warp, instr.target);
}

Flow branch(Warp& warp, const Instr& instr, uint32_t mask, uint32_t taken) {
    if (taken == 0) return warp.fragment_count == 1 ? Flow::next : go_to(warp, &instr + 1);
    if (taken == mask) return take_branch(warp, instr);
    count_back_edge(warp, instr);
    split_fragment(warp, taken, instr.target);
    return stop_at(warp, &instr + 1);
}

/// Copies parameters between frames, for some lanes.
void copy_param(std::byte* to, uint32_t to_bytes, const std::byte* from, uint32_t from_bytes, uint32_t mask) {
    uint32_t bytes = to_bytes < from_bytes ? to_bytes : from_bytes;
    if (mask == k_full_mask && to_bytes == from_bytes) {
        std::memcpy(to, from, size_t{bytes} * k_warp_size);
        return;
    }
    for_lanes(mask, [&](uint32_t lane) { std::memcpy(to + lane * to_bytes, from + lane * from_bytes, bytes); });
}

/// What a call takes of the stack besides the callee's variables: its return address.
constexpr uint32_t k_call_bytes = 16;

/// Moves `mask` lanes of the running fragment into a new frame of `callee`. The fragment must have no other lanes.
Flow enter(Warp& warp, const Instr& instr, uint32_t mask, const Body& callee, const CallInfo& info) {
    Fragment& fragment = warp.fragments[warp.current];
    Frame* caller = fragment.frame;
    uint64_t local_base = uint64_t{caller->alloca_top} + k_call_bytes;
    if (local_base + callee.local_bytes > warp.local_stride || caller->depth >= 0xfffe) {
        return warp.raise(instr, 714, uint32_t(__builtin_ctz(mask)), "stack overflow");
    }
    Frame* frame = take_frame(warp, callee);
    if (frame == nullptr) return warp.raise(instr, 714, uint32_t(__builtin_ctz(mask)), "no memory for the call stack");
    frame->parent = caller;
    frame->return_to = &instr + 1;
    frame->lanes = mask;
    frame->depth = caller->depth + 1;
    frame->local_base = uint32_t(local_base);
    frame->alloca_top = uint32_t(local_base) + callee.local_bytes;
    size_t count = callee.params.size() < info.arg_count ? callee.params.size() : info.arg_count;
    for (size_t i = 0; i < count; ++i) {
        if (callee.params[i].slot < 0) continue;
        copy_param(frame->regs + callee.params[i].slot, callee.params[i].size_bytes, source<std::byte>(warp, info.args[i].slot),
                   info.args[i].size_bytes, mask);
    }
    fragment.frame = frame;
    warp.budget--;
    return stop_at(warp, callee.code.data());
}

/// Leaves only `mask` in the running fragment; the others wait at the next instruction.
void keep_only(Warp& warp, const Instr& instr, uint32_t mask) {
    uint32_t others = warp.fragments[warp.current].mask & ~mask;
    if (others != 0) split_fragment(warp, others, &instr + 1);
}

}  // namespace

Flow guard(Warp& warp, const Instr& instr, uint32_t mask) {
    uint32_t active = mask & predicate(warp, instr.guard);
    return active == 0 ? Flow::next : instr.inner(warp, instr, active);
}

Flow guard_not(Warp& warp, const Instr& instr, uint32_t mask) {
    uint32_t active = mask & ~predicate(warp, instr.guard);
    return active == 0 ? Flow::next : instr.inner(warp, instr, active);
}

Flow fall_through(Warp& warp, const Instr& instr, uint32_t) {
    if (warp.fragment_count == 1) return Flow::next;
    return go_to(warp, instr.target);
}

Flow bra(Warp& warp, const Instr& instr, uint32_t) { return take_branch(warp, instr); }

Flow bra_if(Warp& warp, const Instr& instr, uint32_t mask) {
    return branch(warp, instr, mask, mask & predicate(warp, instr.op[1]));
}

Flow bra_if_not(Warp& warp, const Instr& instr, uint32_t mask) {
    return branch(warp, instr, mask, mask & ~predicate(warp, instr.op[1]));
}

Flow brx(Warp& warp, const Instr& instr, uint32_t mask) {
    const auto& table = *static_cast<const BranchTable*>(instr.extra);
    const uint32_t* index = source<uint32_t>(warp, instr.op[1]);
    count_back_edge(warp, instr);
    keep_only(warp, instr, mask);
    for (uint32_t rest = mask; rest != 0;) {
        auto lane = uint32_t(__builtin_ctz(rest));
        uint32_t value = index[lane], same = 0;
        if (value >= table.count) return warp.raise(instr, 718, lane, "brx index beyond the table", value);
        for_lanes(rest, [&](uint32_t other) { same |= uint32_t{index[other] == value} << other; });
        rest &= ~same;
        if (rest == 0) return stop_at(warp, table.targets[value]);
        split_fragment(warp, same, table.targets[value]);
    }
    return Flow::switch_;
}

Flow call(Warp& warp, const Instr& instr, uint32_t mask) {
    const auto& info = *static_cast<const CallInfo*>(instr.extra);
    keep_only(warp, instr, mask);
    return enter(warp, instr, mask, *info.callee, info);
}

Flow call_indirect(Warp& warp, const Instr& instr, uint32_t mask) {
    const auto& info = *static_cast<const CallInfo*>(instr.extra);
    const uint64_t* target = source<uint64_t>(warp, instr.op[1]);
    keep_only(warp, instr, mask);
    auto lane = uint32_t(__builtin_ctz(mask));
    uint64_t address = target[lane];
    uint32_t same = 0;
    for_lanes(mask, [&](uint32_t other) { same |= uint32_t{target[other] == address} << other; });
    const Body* callee = body_at(*warp.launch, address);
    if (callee == nullptr) return warp.raise(instr, 718, lane, "call of an address that is no function", address);
    // The lanes with other targets come back to this instruction, each group with its own call.
    if (same != mask) split_fragment(warp, mask & ~same, &instr);
    return enter(warp, instr, same, *callee, info);
}

Flow ret(Warp& warp, const Instr& instr, uint32_t mask) {
    Fragment& fragment = warp.fragments[warp.current];
    Frame* frame = fragment.frame;
    if (frame->parent == nullptr) return exit(warp, instr, mask);
    keep_only(warp, instr, mask);
    const auto& info = *static_cast<const CallInfo*>(frame->return_to[-1].extra);
    const Body& body = *frame->body;
    Frame* caller = frame->parent;
    size_t count = body.returns.size() < info.ret_count ? body.returns.size() : info.ret_count;
    for (size_t i = 0; i < count; ++i) {
        if (body.returns[i].slot < 0 || info.rets[i].slot < 0) continue;
        copy_param(caller->regs + info.rets[i].slot, info.rets[i].size_bytes, frame->regs + body.returns[i].slot,
                   body.returns[i].size_bytes, mask);
    }
    const Instr* back = frame->return_to;
    frame->lanes &= ~mask;
    if (frame->lanes == 0) return_frame(warp, frame);
    fragment.frame = caller;
    return stop_at(warp, back);
}

Flow exit(Warp& warp, const Instr& instr, uint32_t mask) {
    Fragment& fragment = warp.fragments[warp.current];
    fragment.pc = &instr + 1;
    fragment.key = fragment_key(fragment);
    exit_lanes(warp, mask);
    return Flow::switch_;
}

Flow refused(Warp& warp, const Instr& instr, uint32_t mask) {
    return warp.raise(instr, 801, uint32_t(__builtin_ctz(mask)), "instruction not supported");
}

// Rows for operands that are no registers. They write only the lanes at hand: another fragment may have computed its own lanes
// of the same row and wait at the instruction that reads it.

Flow not_predicate(Warp& warp, const Instr& instr, uint32_t mask) {
    set_predicate(warp, instr.op[0], ~predicate(warp, instr.op[1]), mask);
    return Flow::next;
}

Flow local_address(Warp& warp, const Instr& instr, uint32_t mask) {
    uint64_t* row = dest<uint64_t>(warp, instr.op[0]);
    for_lanes(mask, [&](uint32_t lane) { row[lane] = warp.frame->local_base + instr.imm; });
    return Flow::next;
}

Flow local_generic_address(Warp& warp, const Instr& instr, uint32_t mask) {
    uint64_t* row = dest<uint64_t>(warp, instr.op[0]);
    auto base = reinterpret_cast<uint64_t>(warp.local) + warp.frame->local_base + instr.imm;
    for_lanes(mask, [&](uint32_t lane) { row[lane] = base + uint64_t{lane} * warp.local_stride; });
    return Flow::next;
}

Flow param_address(Warp& warp, const Instr& instr, uint32_t mask) {
    uint64_t* row = dest<uint64_t>(warp, instr.op[0]);
    auto address = reinterpret_cast<uint64_t>(warp.params) + instr.imm;
    for_lanes(mask, [&](uint32_t lane) { row[lane] = address; });
    return Flow::next;
}

Flow narrow_address(Warp& warp, const Instr& instr, uint32_t mask) {
    uint32_t* row = dest<uint32_t>(warp, instr.op[0]);
    const uint64_t* from = source<uint64_t>(warp, instr.op[1]);
    for_lanes(mask, [&](uint32_t lane) { row[lane] = uint32_t(from[lane]); });
    return Flow::next;
}

}  // namespace warpline::softgpu::exec::control
