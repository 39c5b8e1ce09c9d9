// Which types may stand for which.
#pragma once

#include "softgpu/ptx/ast.h"

namespace warpline::softgpu::passes {

/// True if a register of type `reg` may stand where an instruction works on `wanted`. PTX ISA, "Operand Type Checking": same
/// size and same basic kind, untyped bits on either side; with `may_be_wider` also "Operand Size Exceeding Instruction-Type
/// Size".
bool conforms(ptx::Type reg, ptx::Type wanted, bool may_be_wider);

/// True if a constant may stand where an instruction works on `wanted`.
bool conforms(const ptx::Operand& constant, ptx::Type wanted);

/// True if a special register can be read as `wanted`.
bool special_conforms(ptx::SpecialReg special, ptx::Type wanted);

/// The type of twice the width: u32 of u16. `none` if there is none.
ptx::Type twice(ptx::Type type);

}  // namespace warpline::softgpu::passes
