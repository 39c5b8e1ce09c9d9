// Memory access of instructions: from rows of addresses to host addresses that are known to be valid. Level-safe.
#pragma once

#include "softgpu/isa/row.h"

namespace warpline::softgpu::isa {

/// Where an instruction's address operand points.
enum class Where : uint8_t {
    global,   ///< absolute addresses; also constants
    generic,  ///< absolute addresses of any memory: global, shared, local
    shared,   ///< offsets in shared memory; from 16 MiB on, of another CTA of the cluster
    local,    ///< offsets in the lane's local memory
};

/// How a load or store comes to its addresses; in Instr::flags from bit k_way_shift on.
enum class Way : uint8_t { global, generic, shared4, shared8, local4, local8, fixed_global, fixed_shared, fixed_param };
constexpr uint32_t k_way_shift = 16;

/// Checks the addresses of the lanes in `mask`, one by one, and stores host addresses. Slow and complete: finds ranges,
/// understands all windows of generic addresses. False: a fault has been raised (700 or 716).
bool resolve_lanes(Warp& warp, const Instr& instr, uint32_t mask, Where where, const uint64_t* addresses, uint32_t size_bytes,
                   uint32_t alignment, std::byte** lanes);

/// Instr::extra of loads and stores of vectors: slots of the elements.
struct VectorOperand {
    uint32_t count = 0;
    int32_t slots[8] = {};
};

/// For instructions where speed matters less (atomics, textures, matrix loads): host addresses of all active lanes. `slot` is a
/// row of addresses of `width` bytes (4 or 8), to which `displacement` is added.
bool resolve_row(Warp& warp, const Instr& instr, uint32_t mask, Where where, int32_t slot, uint32_t width, int64_t displacement,
                 uint32_t size_bytes, uint32_t alignment, std::byte** lanes);

/// Tells the checkers, if there are any, about accesses to such addresses.
inline void note_access(Warp& warp, const Instr& instr, uint32_t mask, std::byte* const* lanes, uint32_t bytes,
                        exec::AccessKind kind) {
    if (warp.cta->check != nullptr) exec::check_lanes(warp, instr, mask, lanes, bytes, kind);
}

}  // namespace warpline::softgpu::isa
