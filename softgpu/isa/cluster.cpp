// Clusters: mapa, getctarank, barrier.cluster. PTX ISA: mapa, getctarank, barrier.cluster. The CTAs of a cluster are on one
// worker.
#include <vector>

#include "softgpu/exec/warp.h"
#include "softgpu/isa/families.h"

namespace warpline::softgpu::isa {

namespace {

using exec::Cta;
using exec::dest;
using exec::k_warp_size;
using exec::source;

constexpr uint64_t k_window = 1u << 24;  ///< see Warp::resolve_shared

/// CTA and offset of an address in the shared::cluster window.
bool locate(const Warp& w, uint64_t address, bool generic, uint32_t& rank, uint64_t& offset) {
    if (!generic) {
        rank = address >= k_window ? uint32_t(address / k_window - 1) : w.cta->cluster_rank;
        offset = address % k_window;
        return rank < w.cta->cluster_size;
    }
    for (rank = 0; rank < w.cta->cluster_size; ++rank) {
        const Cta& cta = *w.cta->cluster[rank];
        offset = address - reinterpret_cast<uint64_t>(cta.shared);
        if (offset <= cta.shared_bytes) return true;
    }
    return false;
}

/// op[0] = d, op[1] = a, op[2] = rank.
template <typename T, bool Generic>
Flow mapa(Warp& w, const Instr& i, uint32_t mask) {
    const T* a = source<T>(w, i.op[1]);
    const uint32_t* b = source<uint32_t>(w, i.op[2]);
    T* d = dest<T>(w, i.op[0]);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        uint32_t owner = 0, rank = b[lane];
        uint64_t offset = 0;
        if (!locate(w, a[lane], Generic, owner, offset))
            return w.raise(i, 717, lane, "mapa of an address that is not in shared memory", a[lane]);
        if (rank >= w.cta->cluster_size) return w.raise(i, 715, lane, "mapa to a block that the cluster does not have");
        d[lane] =
            Generic ? T(reinterpret_cast<uint64_t>(w.cta->cluster[rank]->shared) + offset) : T((rank + 1) * k_window + offset);
    }
    return Flow::next;
}

template <typename T, bool Generic>
Flow getctarank(Warp& w, const Instr& i, uint32_t mask) {
    const T* a = source<T>(w, i.op[1]);
    uint32_t* d = dest<uint32_t>(w, i.op[0]);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        uint32_t owner = 0;
        uint64_t offset = 0;
        if (!locate(w, a[lane], Generic, owner, offset))
            return w.raise(i, 717, lane, "getctarank of an address that is not in shared memory", a[lane]);
        d[lane] = owner;
    }
    return Flow::next;
}

/// Arrivals at the cluster's barrier, kept with the CTA of rank 0. A thread cannot arrive twice before a phase is complete, so
/// the parity of the phase at which it arrived says whether it may go on.
struct ClusterBarrier {
    struct Lanes {
        uint32_t arrived = 0;  ///< in the current phase
        uint32_t parity = 0;   ///< of the phase in which each lane arrived last
    };
    bool phase = false;
    std::vector<Lanes> warps;
};

ClusterBarrier& barrier_of(Warp& w) {
    Cta& first = *w.cta->cluster[0];
    if (first.isa_state == nullptr) {
        auto* made = new ClusterBarrier;
        made->warps.resize(size_t{w.cta->cluster_size} * w.cta->warp_count);
        first.isa_state = made;
        first.isa_state_free = [](void* state) { delete static_cast<ClusterBarrier*>(state); };
    }
    return *static_cast<ClusterBarrier*>(first.isa_state);
}

/// Completes the phase if all threads that have not exited have arrived.
void settle(Warp& w, ClusterBarrier& barrier) {
    for (uint32_t rank = 0; rank < w.cta->cluster_size; ++rank) {
        const Cta& cta = *w.cta->cluster[rank];
        for (uint32_t warp = 0; warp < cta.warp_count; ++warp) {
            if ((cta.warps[warp].live & ~barrier.warps[rank * cta.warp_count + warp].arrived) != 0) return;
        }
    }
    for (uint32_t rank = 0; rank < w.cta->cluster_size && w.cta->check != nullptr; ++rank) {
        exec::check_cluster_barrier(*w.cta->cluster[rank]);
    }
    for (auto& lanes : barrier.warps) lanes.arrived = 0;
    barrier.phase = !barrier.phase;
}

ClusterBarrier::Lanes& lanes_of(Warp& w, ClusterBarrier& barrier) {
    return barrier.warps[w.cta->cluster_rank * w.cta->warp_count + w.index];
}

Flow arrive(Warp& w, const Instr&, uint32_t mask) {
    ClusterBarrier& barrier = barrier_of(w);
    ClusterBarrier::Lanes& lanes = lanes_of(w, barrier);
    lanes.arrived |= mask;
    lanes.parity = barrier.phase ? lanes.parity | mask : lanes.parity & ~mask;
    settle(w, barrier);
    return Flow::next;
}

Flow wait(Warp& w, const Instr& i, uint32_t mask) {
    ClusterBarrier& barrier = barrier_of(w);
    ClusterBarrier::Lanes& lanes = lanes_of(w, barrier);
    // Threads that were waited for may have left without arriving.
    if ((lanes.arrived & mask) != 0) settle(w, barrier);
    const uint32_t waiting = lanes.arrived & (barrier.phase ? lanes.parity : ~lanes.parity) & mask;
    return waiting != 0 ? w.poll(i, mask) : Flow::next;
}

const Row k_rows[] = {
    {"mapa.u64", &mapa<uint64_t, true>, {out(8), in(8), in(4)}, 0},
    {"mapa.shared::cluster.u32", &mapa<uint32_t, false>, {out(4), in(4), in(4)}, 0},
    {"mapa.shared::cluster.u64", &mapa<uint64_t, false>, {out(8), in(8), in(4)}, 0},
    {"getctarank.u64", &getctarank<uint64_t, true>, {out(4), in(8)}, 0},
    {"getctarank.shared::cluster.u32", &getctarank<uint32_t, false>, {out(4), in(4)}, 0},
    {"getctarank.shared::cluster.u64", &getctarank<uint64_t, false>, {out(4), in(8)}, 0},
    {"barrier.cluster.arrive", &arrive, {}, 0},
    {"barrier.cluster.arrive.aligned", &arrive, {}, 0},
    {"barrier.cluster.arrive.release", &arrive, {}, 0},
    {"barrier.cluster.arrive.release.aligned", &arrive, {}, 0},
    {"barrier.cluster.arrive.relaxed", &arrive, {}, 0},
    {"barrier.cluster.arrive.relaxed.aligned", &arrive, {}, 0},
    {"barrier.cluster.wait", &wait, {}, 0},
    {"barrier.cluster.wait.aligned", &wait, {}, 0},
    {"barrier.cluster.wait.acquire", &wait, {}, 0},
    {"barrier.cluster.wait.acquire.aligned", &wait, {}, 0},
};

}  // namespace

void register_cluster(Registry& registry) { registry.add(k_rows); }

}  // namespace warpline::softgpu::isa
