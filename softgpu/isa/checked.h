// ld and st as they are decoded where something is checked (SOFTGPU_CHECK).
#pragma once

#include "softgpu/isa/access.h"
#include "softgpu/isa/registry.h"

namespace warpline::softgpu::isa {

/// What the handler that looks at each access needs. Takes the place of Instr::extra: the vector comes first, for the handler
/// behind.
struct CheckedAccess {
    VectorOperand vector;
    Handler behind = nullptr;  ///< does the access
    Way way = Way::global;
    uint8_t element_bytes = 0, register_bytes = 0;
    bool is_load = false, strong = false;
};

/// Puts the checks in front of a load or store that has just been emitted.
void check_access(DecodeContext& context, Instr& instr, const CheckedAccess& access);

}  // namespace warpline::softgpu::isa
