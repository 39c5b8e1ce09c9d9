// Special registers. PTX ISA: Special Registers.
#include <chrono>

#include "softgpu/exec/control.h"
#include "softgpu/exec/kernel.h"
#include "softgpu/exec/launch.h"

namespace warpline::softgpu::exec::control {

namespace {

using ptx::SpecialReg;

SpecialReg which(const Instr& instr) { return SpecialReg(instr.imm & 0xff); }
uint32_t component(const Instr& instr) { return uint32_t(instr.imm >> 8 & 3); }

uint64_t nanoseconds() {
    auto now = std::chrono::system_clock::now().time_since_epoch();
    return uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

uint64_t cycles() {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return uint64_t(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

template <typename T, typename F>
Flow each(Warp& w, const Instr& i, uint32_t mask, F&& value) {
    T* row = dest<T>(w, i.op[0]);
    if (mask == k_full_mask) {
        for (uint32_t lane = 0; lane < k_warp_size; ++lane) row[lane] = T(value(lane));
        return Flow::next;
    }
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        row[lane] = T(value(lane));
    }
    return Flow::next;
}

/// Coordinates of the warp's threads in the block.
template <typename T>
Flow thread_id(Warp& w, const Instr& i, uint32_t mask) {
    const uint32_t c = component(i);
    if (c >= 3) return each<T>(w, i, mask, [](uint32_t) { return 0; });
    const uint32_t* id = w.thread_ids[c];
    return each<T>(w, i, mask, [=](uint32_t lane) { return id[lane]; });
}

uint64_t cluster_value(const Warp& w, SpecialReg reg, uint32_t c) {
    const Cta& cta = *w.cta;
    const Grid& grid = *cta.grid;
    switch (reg) {
        case SpecialReg::is_explicit_cluster: return cta.cluster_size > 1;
        case SpecialReg::clusterid: return c < 3 ? cta.id[c] / grid.cluster[c] : 0;
        case SpecialReg::nclusterid: return c < 3 ? grid.grid[c] / grid.cluster[c] : 1;
        case SpecialReg::cluster_ctaid: return c < 3 ? cta.id[c] % grid.cluster[c] : 0;
        case SpecialReg::cluster_nctaid: return c < 3 ? grid.cluster[c] : 1;
        case SpecialReg::cluster_ctarank: return cta.cluster_rank;
        default: return cta.cluster_size;
    }
}

/// Values that all lanes share.
uint64_t uniform_value(const Warp& w, SpecialReg reg, uint32_t c, uint32_t number) {
    const Cta& cta = *w.cta;
    const Grid& grid = *cta.grid;
    switch (reg) {
        case SpecialReg::ntid: return c < 3 ? grid.block[c] : 0;
        case SpecialReg::ctaid: return c < 3 ? cta.id[c] : 0;
        case SpecialReg::nctaid: return c < 3 ? grid.grid[c] : 0;
        case SpecialReg::warpid: return w.index;
        case SpecialReg::nwarpid: return 32;
        case SpecialReg::smid:
            if (!grid.allowed.empty()) return grid.allowed[cta.linear % grid.allowed.size()];
            return cta.linear % grid.multiprocessors;
        case SpecialReg::nsmid: return grid.multiprocessors;
        case SpecialReg::gridid: return grid.grid_id;
        case SpecialReg::clock:
        case SpecialReg::clock64: return cycles();
        case SpecialReg::clock_hi: return cycles() >> 32;
        case SpecialReg::globaltimer:
        case SpecialReg::globaltimer_lo: return nanoseconds();
        case SpecialReg::globaltimer_hi: return nanoseconds() >> 32;
        case SpecialReg::envreg: return number < 32 ? grid.env[number] : 0;
        case SpecialReg::dynamic_smem_size: return grid.dynamic_shared_bytes;
        case SpecialReg::total_smem_size: return w.shared_bytes - SharedLayout::k_reserved_bytes;
        case SpecialReg::aggr_smem_size: return w.shared_bytes;
        case SpecialReg::reserved_smem_offset_begin: return 0;
        case SpecialReg::reserved_smem_offset_end:
        case SpecialReg::reserved_smem_offset_cap: return SharedLayout::k_reserved_bytes;
        case SpecialReg::reserved_smem_offset: return number == 1 ? 64 : 0;
        default: return 0;  // performance monitors, current_graph_exec
    }
}

template <typename T>
Flow uniform(Warp& w, const Instr& i, uint32_t mask) {
    uint64_t value = uniform_value(w, which(i), component(i), uint32_t(i.imm >> 16 & 0xff));
    return each<T>(w, i, mask, [&](uint32_t) { return value; });
}

template <typename T>
Flow cluster(Warp& w, const Instr& i, uint32_t mask) {
    uint64_t value = cluster_value(w, which(i), component(i));
    return each<T>(w, i, mask, [&](uint32_t) { return value; });
}

Flow explicit_cluster(Warp& w, const Instr& i, uint32_t mask) {
    set_predicate(w, i.op[0], w.cta->cluster_size > 1 ? k_full_mask : 0, mask);
    return Flow::next;
}

template <typename T>
Flow lane_value(Warp& w, const Instr& i, uint32_t mask) {
    switch (which(i)) {
        case SpecialReg::laneid: return each<T>(w, i, mask, [](uint32_t lane) { return lane; });
        case SpecialReg::lanemask_eq: return each<T>(w, i, mask, [](uint32_t lane) { return 1u << lane; });
        case SpecialReg::lanemask_lt: return each<T>(w, i, mask, [](uint32_t lane) { return (1u << lane) - 1; });
        case SpecialReg::lanemask_le: return each<T>(w, i, mask, [](uint32_t lane) { return (2ull << lane) - 1; });
        case SpecialReg::lanemask_gt: return each<T>(w, i, mask, [](uint32_t lane) { return ~uint32_t((2ull << lane) - 1); });
        default: return each<T>(w, i, mask, [](uint32_t lane) { return ~((1u << lane) - 1); });
    }
}

template <typename T>
Handler pick(SpecialReg reg) {
    switch (reg) {
        case SpecialReg::tid: return &thread_id<T>;
        case SpecialReg::laneid:
        case SpecialReg::lanemask_eq:
        case SpecialReg::lanemask_lt:
        case SpecialReg::lanemask_le:
        case SpecialReg::lanemask_gt:
        case SpecialReg::lanemask_ge: return &lane_value<T>;
        case SpecialReg::clusterid:
        case SpecialReg::nclusterid:
        case SpecialReg::cluster_ctaid:
        case SpecialReg::cluster_nctaid:
        case SpecialReg::cluster_ctarank:
        case SpecialReg::cluster_nctarank: return &cluster<T>;
        default: return &uniform<T>;
    }
}

}  // namespace

Handler read_special(SpecialReg reg, uint8_t width) {
    if (reg == SpecialReg::is_explicit_cluster) return &explicit_cluster;
    switch (width) {
        case 2: return pick<uint16_t>(reg);
        case 4: return pick<uint32_t>(reg);
        case 8: return pick<uint64_t>(reg);
        default: return nullptr;
    }
}

}  // namespace warpline::softgpu::exec::control
