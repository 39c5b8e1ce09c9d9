// Counts who has arrived at a barrier, and lets go.
#include "softgpu/exec/barrier.h"

#include "softgpu/exec/warp.h"

namespace warpline::softgpu::exec {

namespace {

uint32_t& arrived(Cta& cta, uint32_t barrier, uint32_t warp) { return cta.arrived[barrier * cta.warp_count + warp]; }

/// Without a count, every thread that has not exited must arrive. With one, the threads are counted, by whole warps: PTX
/// demands multiples of the warp size, and lanes that do not exist or have exited count with the others of their warp.
bool is_complete(Cta& cta, uint32_t number) {
    const Barrier& barrier = cta.barriers[number];
    if (barrier.expected == 0 && cta.missing < cta.warp_count) {
        // Whom an earlier look missed is usually still missing: blocks of many warps would look at each other all the time.
        if ((cta.warps[cta.missing].live & ~arrived(cta, number, cta.missing)) != 0) return false;
    }
    uint32_t threads = 0;
    for (uint32_t w = 0; w < cta.warp_count; ++w) {
        uint32_t here = arrived(cta, number, w), live = cta.warps[w].live;
        if (barrier.expected == 0 && (live & ~here) != 0) {
            cta.missing = w;
            return false;
        }
        if (here != 0) threads += (live & ~here) == 0 ? k_warp_size : uint32_t(__builtin_popcount(here));
    }
    return barrier.expected == 0 || threads >= barrier.expected;
}

void complete(Cta& cta, uint32_t number) {
    if (cta.check != nullptr) check_barrier(cta, number);
    Barrier& barrier = cta.barriers[number];
    uint32_t result = barrier.kind == BarrierKind::popc  ? barrier.population
                      : barrier.kind == BarrierKind::all ? uint32_t(barrier.all)
                                                         : uint32_t(barrier.any);
    for (uint32_t w = 0; w < cta.warp_count; ++w) {
        arrived(cta, number, w) = 0;
        Warp& warp = cta.warps[w];
        for (uint32_t i = 0; i < warp.fragment_count; ++i) {
            Fragment& fragment = warp.fragments[i];
            if (fragment.wait != Wait::barrier || fragment.barrier != number) continue;
            fragment.wait = Wait::runnable;
            fragment.released = true;
            fragment.result = result;
        }
    }
    barrier = Barrier{};
    cta.barriers_in_use &= ~(1u << number);
}

void note_arrival(Cta& cta, uint32_t number, uint32_t count, BarrierKind kind, uint32_t mask, uint32_t predicate) {
    Barrier& barrier = cta.barriers[number];
    cta.barriers_in_use |= 1u << number;
    barrier.expected = count;
    if (kind == BarrierKind::plain) return;
    barrier.kind = kind;
    barrier.population += uint32_t(__builtin_popcount(mask & predicate));
    barrier.all = barrier.all && (mask & ~predicate) == 0;
    barrier.any = barrier.any || (mask & predicate) != 0;
}

}  // namespace

BarrierResult barrier_sync(Warp& warp, const Instr& instr, uint32_t mask, uint32_t number, uint32_t count, BarrierKind kind,
                           uint32_t predicate) {
    Fragment& fragment = warp.fragments[warp.current];
    if (fragment.released) {
        fragment.released = false;
        return {true, fragment.result};
    }
    Cta& cta = *warp.cta;
    note_arrival(cta, number, count, kind, mask, predicate);
    arrived(cta, number, warp.index) |= mask;
    if (mask != fragment.mask) split_fragment(warp, fragment.mask & ~mask, &instr + 1);
    bool split = mask != warp.mask;
    fragment.wait = Wait::barrier;
    fragment.barrier = uint16_t(number);
    fragment.pc = &instr;
    fragment.key = fragment_key(fragment);
    if (!is_complete(cta, number)) return {false, 0};
    complete(cta, number);
    if (cta.warp_count > 1) warp.budget = k_turn_ends_at_barrier;
    if (split || warp.fragment_count > 1 || cta.warp_count > 1) return {false, 0};  // the scheduler takes it from here
    fragment.released = false;
    return {true, fragment.result};
}

void barrier_arrive(Warp& warp, uint32_t mask, uint32_t number, uint32_t count) {
    Cta& cta = *warp.cta;
    note_arrival(cta, number, count, BarrierKind::plain, mask, 0);
    arrived(cta, number, warp.index) |= mask;
    if (is_complete(cta, number)) complete(cta, number);
}

void recheck_barriers(Cta& cta) {
    for (uint32_t rest = cta.barriers_in_use; rest != 0; rest &= rest - 1) {
        auto number = uint32_t(__builtin_ctz(rest));
        if (is_complete(cta, number)) complete(cta, number);
    }
}

}  // namespace warpline::softgpu::exec
