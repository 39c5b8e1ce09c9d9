// Blocks and clusters while they run.
#pragma once

#include <memory>
#include <vector>

#include "softgpu/exec/body.h"

namespace warpline::softgpu::exec {

/// Sizes of a group's storage. Groups of equal shape can be reused.
struct GroupShape {
    uint32_t ctas = 1;   ///< blocks of a cluster
    uint32_t warps = 1;  ///< of a block
    uint32_t threads = 1;
    uint32_t frame_bytes = 0;
    uint32_t shared_bytes = 0;
    uint32_t local_stride = 0;
    friend bool operator==(const GroupShape&, const GroupShape&) = default;
    uint64_t bytes() const {
        uint64_t warp = sizeof(Warp) + frame_bytes + uint64_t{local_stride} * k_warp_size;
        return ctas * (warps * warp + shared_bytes);
    }
};

/// The blocks of a cluster (or one block) with all their memory. Run by one thread at a time.
class CtaGroup {
public:
    explicit CtaGroup(const GroupShape& shape);
    ~CtaGroup();

    /// Makes it group number `index` of a launch, with all threads at the kernel's entry.
    void start(LaunchState& launch, uint64_t index);
    const GroupShape& shape() const { return m_shape; }
    std::vector<Cta>& ctas() { return m_ctas; }
    std::vector<Warp>& warps() { return m_warps; }
    uint32_t shape_warps() const { return m_shape.warps; }
    uint64_t index() const { return m_index; }
    /// Whether a barrier has been completed since the start.
    bool has_met() const { return m_met; }
    void note_meeting() { m_met = true; }

    Frame* take_frame(Warp& warp, const Body& body);

private:
    void start_warp(LaunchState& launch, Cta& cta, uint32_t cta_number, uint32_t warp_number);
    void number_threads(const uint32_t (&block)[3]);
    void free_isa_state();

    const GroupShape m_shape;
    uint64_t m_index = 0;
    bool m_met = false;
    std::vector<Cta> m_ctas;
    std::vector<Cta*> m_by_rank;
    std::vector<Warp> m_warps;
    std::vector<std::unique_ptr<CtaCheck>> m_checks;  ///< by rank; empty if nothing is checked
    std::vector<Frame> m_entry_frames;
    std::vector<uint32_t> m_arrived;
    uint32_t m_block[3] = {};            ///< dimensions that m_thread_ids is for
    std::vector<uint32_t> m_thread_ids;  ///< %tid of a block's threads: all x, all y, all z
    AlignedBytes m_registers, m_shared;
    std::byte* m_local = nullptr;  ///< mapped lazily by the system: most of it is never touched
    uint64_t m_local_bytes = 0;
    struct CallFrame {
        Frame frame;
        AlignedBytes bytes;
    };
    std::vector<std::unique_ptr<CallFrame>> m_call_frames;
    uint64_t m_call_bytes = 0;
};

enum class GroupState { finished, suspended, stopped };

/// Runs a group until it has ended, or waits for other groups, or the launch stops.
GroupState run_group(LaunchState& launch, CtaGroup& group, WorkerState& worker);

}  // namespace warpline::softgpu::exec
