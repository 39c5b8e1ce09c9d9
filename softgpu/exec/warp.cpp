// Splits, joins and chooses the fragments of a warp.
#include "softgpu/exec/warp.h"

#include <algorithm>

namespace warpline::softgpu::exec {

namespace {

void remove_fragment(Warp& warp, uint32_t index) {
    --warp.fragment_count;
    if (index == warp.fragment_count) return;
    warp.fragments[index] = warp.fragments[warp.fragment_count];
    if (warp.current == warp.fragment_count) warp.current = index;
}

bool before(const Fragment& a, const Fragment& b) { return a.key != b.key ? a.key < b.key : a.pc < b.pc; }

/// Takes in every other runnable fragment that stands at the same place.
void merge_into(Warp& warp, uint32_t& chosen) {
    for (uint32_t i = 0; i < warp.fragment_count;) {
        Fragment& other = warp.fragments[i];
        Fragment& fragment = warp.fragments[chosen];
        if (i == chosen || other.wait != Wait::runnable || other.released != fragment.released || other.pc != fragment.pc ||
            other.frame != fragment.frame || fragment.released) {
            ++i;
            continue;
        }
        fragment.mask |= other.mask;
        fragment.turn = std::min(fragment.turn, other.turn);
        bool last_is_chosen = chosen == warp.fragment_count - 1;
        remove_fragment(warp, i);
        if (last_is_chosen) chosen = i;
    }
}

/// Makes a fragment's state the warp's.
void make_current(Warp& warp, uint32_t chosen) {
    warp.current = chosen;
    Fragment& fragment = warp.fragments[chosen];
    warp.frame = fragment.frame;
    warp.regs = fragment.frame->regs;
    warp.consts = fragment.frame->consts;
    warp.mask = fragment.mask;
}

/// Picks the fragment to run and makes its state the warp's. False if none can run.
bool schedule(Warp& warp) {
    uint32_t chosen = k_warp_size;
    for (uint32_t i = 0; i < warp.fragment_count; ++i) {
        if (warp.fragments[i].wait != Wait::runnable) continue;
        if (chosen == k_warp_size || before(warp.fragments[i], warp.fragments[chosen])) chosen = i;
    }
    if (chosen == k_warp_size) return false;
    if (warp.fragment_count > 1) merge_into(warp, chosen);
    warp.next_key = ~0ull;
    for (uint32_t i = 0; i < warp.fragment_count; ++i) {
        if (i == chosen || warp.fragments[i].wait != Wait::runnable) continue;
        warp.next_key = std::min(warp.next_key, warp.fragments[i].key);
    }
    make_current(warp, chosen);
    return true;
}

bool schedule_random(Warp& warp, Random& random) {
    uint32_t runnable[k_warp_size], count = 0;
    for (uint32_t i = 0; i < warp.fragment_count; ++i) {
        if (warp.fragments[i].wait == Wait::runnable) runnable[count++] = i;
    }
    if (count == 0) return false;
    uint32_t chosen = runnable[random.below(count)];
    merge_into(warp, chosen);
    warp.next_key = 0;  // every branch of a divided warp comes back here
    make_current(warp, chosen);
    return true;
}

/// The running fragment has used up its turn: all others go before it until they have used up theirs.
void rotate(Warp& warp) {
    warp.budget = k_turn_back_edges;
    if (warp.fragment_count < 2 || warp.current >= warp.fragment_count) return;
    Fragment& fragment = warp.fragments[warp.current];
    fragment.turn++;
    fragment.key = fragment_key(fragment);
}

}  // namespace

WarpState run_warp(Warp& warp) {
    if (warp.budget <= 0) rotate(warp);
    while (schedule(warp)) {
        const Instr* pc = warp.fragments[warp.current].pc;
        const uint32_t mask = warp.mask;
        warp.ran = true;
        Flow flow;
        for (;;) {
            flow = pc->fn(warp, *pc, mask);
            if (flow == Flow::next) {
                ++pc;
            } else if (flow == Flow::jump) {
                pc = warp.jump_to;
            } else {
                break;
            }
        }
        if (flow == Flow::fault) return WarpState::fault;
        if (warp.fragment_count == 0) return WarpState::exited;
        if (warp.budget == k_turn_ends_at_barrier) {
            warp.budget = k_turn_back_edges;
            return WarpState::released;
        }
        if (warp.budget <= 0) return WarpState::turn_over;
    }
    return WarpState::blocked;
}

WarpState run_warp_shuffled(Warp& warp, Random& random) {
    constexpr uint32_t k_longest_slice = 48;
    warp.budget = k_turn_back_edges;
    for (uint32_t slice = 1 + random.below(k_longest_slice); schedule_random(warp, random);) {
        const Instr* pc = warp.fragments[warp.current].pc;
        const uint32_t mask = warp.mask;
        warp.ran = true;
        Flow flow = Flow::next;
        for (; slice != 0 && (flow == Flow::next || flow == Flow::jump); --slice) {
            flow = pc->fn(warp, *pc, mask);
            if (flow == Flow::next) ++pc;
            if (flow == Flow::jump) pc = warp.jump_to;
        }
        if (flow == Flow::fault) return WarpState::fault;
        if (warp.fragment_count == 0) return WarpState::exited;
        if (flow != Flow::switch_) stop_at(warp, pc);
        if (slice == 0 || warp.budget <= 0) return WarpState::turn_over;
    }
    return WarpState::blocked;
}

Fragment& split_fragment(Warp& warp, uint32_t lanes, const Instr* pc) {
    Fragment& current = warp.fragments[warp.current];
    Fragment& fragment = warp.fragments[warp.fragment_count++];
    fragment = Fragment{};
    fragment.frame = current.frame;
    fragment.turn = current.turn;
    fragment.mask = lanes;
    fragment.pc = pc;
    fragment.key = fragment_key(fragment);
    current.mask &= ~lanes;
    return fragment;
}

void exit_lanes(Warp& warp, uint32_t lanes) {
    Fragment& current = warp.fragments[warp.current];
    for (Frame* frame = current.frame; frame != nullptr;) {
        Frame* parent = frame->parent;
        frame->lanes &= ~lanes;
        if (frame->lanes == 0 && parent != nullptr) return_frame(warp, frame);
        frame = parent;
    }
    warp.live &= ~lanes;
    current.mask &= ~lanes;
    if (current.mask == 0) remove_fragment(warp, warp.current);
    // Fewer lanes to wait for: whoever waits looks again.
    for (uint32_t i = 0; i < warp.fragment_count; ++i) {
        Fragment& fragment = warp.fragments[i];
        if (fragment.wait == Wait::sync) fragment.wait = Wait::runnable;
    }
    if (warp.live == 0) warp.cta->live_warps--;
    recheck_barriers(*warp.cta);
}

namespace {

uint32_t ready_lanes(uint32_t mask, const uint32_t* members, uint32_t live) {
    uint32_t ready = 0;
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        if ((members[lane] & live & ~mask) == 0) ready |= 1u << lane;
    }
    return ready;
}

/// bar.warp.sync: lanes may stand at different instructions.
bool meet_anywhere(Warp& warp, uint32_t mask, uint32_t members) {
    uint32_t arrived = mask;
    for (uint32_t i = 0; i < warp.fragment_count; ++i) {
        const Fragment& other = warp.fragments[i];
        bool waits = i != warp.current && other.wait == Wait::sync && (other.pc->flags & instr_warp_barrier) != 0;
        if (waits) arrived |= other.mask;
    }
    if ((members & warp.live & ~arrived) != 0) return false;
    for (uint32_t i = 0; i < warp.fragment_count; ++i) {
        Fragment& other = warp.fragments[i];
        bool waits = i != warp.current && other.wait == Wait::sync && (other.pc->flags & instr_warp_barrier) != 0;
        if (!waits || (other.mask & members) == 0) continue;
        other.wait = Wait::runnable;
        other.released = true;
    }
    return true;
}

/// Lanes that are parked at the same instruction of the same call become part of the running fragment.
void absorb_parked(Warp& warp, const Instr& instr) {
    for (uint32_t i = 0; i < warp.fragment_count;) {
        Fragment& other = warp.fragments[i];
        Fragment& current = warp.fragments[warp.current];
        if (i == warp.current || other.wait != Wait::sync || other.pc != &instr || other.frame != current.frame) {
            ++i;
            continue;
        }
        current.mask |= other.mask;
        remove_fragment(warp, i);
    }
}

}  // namespace

bool Warp::converge_some(const Instr& instr, uint32_t mask_here, const uint32_t* members) {
    Fragment* fragment = &fragments[current];
    if (fragment->released) {
        fragment->released = false;
        return true;
    }
    if (ready_lanes(mask_here, members, live) == mask_here) return true;
    bool anywhere = (instr.flags & instr_warp_barrier) != 0;
    if (anywhere && meet_anywhere(*this, mask_here, members[__builtin_ctz(mask_here)])) return true;
    if (mask_here != fragment->mask) split_fragment(*this, fragment->mask & ~mask_here, &instr + 1);
    fragment->pc = &instr;
    fragment->key = fragment_key(*fragment);
    fragment->wait = Wait::sync;
    if (anywhere) return false;
    absorb_parked(*this, instr);
    fragment = &fragments[current];
    uint32_t ready = ready_lanes(fragment->mask, members, live);
    if (ready == 0) return false;
    if (ready != fragment->mask) {
        Fragment& rest = split_fragment(*this, fragment->mask & ~ready, &instr);
        rest.wait = Wait::sync;
    }
    fragment->wait = Wait::runnable;
    fragment->released = true;
    return false;
}

Flow Warp::poll(const Instr& instr, uint32_t mask_here) {
    Fragment& fragment = fragments[current];
    if (mask_here != fragment.mask) split_fragment(*this, fragment.mask & ~mask_here, &instr + 1);
    fragment.wait = Wait::poll;
    spins++;
    return stop_at(*this, &instr);
}

}  // namespace warpline::softgpu::exec
