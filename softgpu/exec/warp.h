// How a warp's fragments are run: choosing the next one, splitting and meeting again.
#pragma once

#include "softgpu/exec/body.h"
#include "softgpu/exec/random.h"

namespace warpline::softgpu::exec {

enum class WarpState {
    turn_over,  ///< used up its turn, wants to go on
    blocked,    ///< every fragment waits
    released,   ///< arrived last at a barrier of its block: the others may go on, too
    exited,     ///< no lane is left
    fault,
};

/// Back-edges that a fragment may take before the others have their turn. Lanes that spin on a lock which other lanes of the
/// warp hold make progress possible by using this up; loops without such waiting rarely notice.
constexpr int32_t k_turn_back_edges = 4096;
/// What a volatile, acquire or atomic access costs of it: in a loop, somebody probably waits.
constexpr int32_t k_spin_cost = 64;

/// A warp's budget after it has completed a barrier of its block: it goes on when its turn among the warps comes again.
constexpr int32_t k_turn_ends_at_barrier = INT32_MIN;

/// Runs the warp until it blocks, exits or its turn is over.
WarpState run_warp(Warp& warp);

/// The same in an order that chance decides: a random fragment runs for a random number of instructions.
WarpState run_warp_shuffled(Warp& warp, Random& random);

/// Order in which fragments run: least turns used, then deepest call, then lowest block.
inline uint64_t fragment_key(const Fragment& fragment) {
    uint64_t depth = 0xffff - (fragment.frame->depth & 0xffffu);
    return uint64_t(fragment.turn & 0xffffffu) << 40 | depth << 24 | (fragment.pc->block & 0xffffffu);
}

/// Moves `lanes` out of the running fragment into one of their own at `pc`, runnable. Some lanes must remain.
Fragment& split_fragment(Warp& warp, uint32_t lanes, const Instr* pc);

/// The running fragment goes on at `target`, unless another one has to run first or waits just there.
inline Flow go_to(Warp& warp, const Instr* target) {
    warp.jump_to = target;
    if (warp.fragment_count == 1) return Flow::jump;
    Fragment& fragment = warp.fragments[warp.current];
    fragment.pc = target;
    fragment.key = fragment_key(fragment);
    return fragment.key < warp.next_key ? Flow::jump : Flow::switch_;
}

/// Stops the running fragment at `pc`; the scheduler goes on.
inline Flow stop_at(Warp& warp, const Instr* pc) {
    Fragment& fragment = warp.fragments[warp.current];
    fragment.pc = pc;
    fragment.key = fragment_key(fragment);
    return Flow::switch_;
}

/// A frame for a call. Null if there is no memory.
Frame* take_frame(Warp& warp, const Body& body);
void return_frame(Warp& warp, Frame* frame);

/// Lanes leave the kernel: out of all frames, out of the barriers' counts.
void exit_lanes(Warp& warp, uint32_t lanes);

/// After lanes of a warp have left: barriers that only they kept from completing complete.
void recheck_barriers(Cta& cta);

}  // namespace warpline::softgpu::exec
