// Which register lives in which row of a frame.
#pragma once

#include <cstdint>
#include <vector>

#include "softgpu/exec/flow_graph.h"

namespace warpline::softgpu::exec {

/// How the instructions of a body use its registers, recorded while decoding the first time.
struct RegisterUse {
    ptx::RegId reg = 0;
    uint32_t instruction = 0;
    bool is_def = false;
    bool partial = false;  ///< a definition under a guard: the old value can survive
};

struct SlotAssignment {
    std::vector<int32_t> slot_of;  ///< by RegId: byte offset in the frame; -1 for registers that are not used
    uint32_t frame_bytes = 0;
    uint32_t peak_registers = 0;  ///< most 32-bit registers alive at once
};

/// Bytes of a predicate row: one bit per lane.
constexpr uint32_t k_predicate_row_bytes = 4;

/// Gives every register a row of the frame: linear scan over live ranges; registers that are never alive at the same time
/// share. `row_bytes` by RegId: k_predicate_row_bytes, or a multiple of 64. `uses` in the order of the text, reads before
/// definitions.
SlotAssignment assign_slots(const FlowGraph& graph, const std::vector<RegisterUse>& uses,
                            const std::vector<uint32_t>& row_bytes);

}  // namespace warpline::softgpu::exec
