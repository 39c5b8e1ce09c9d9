// The check of parsed bodies.
#pragma once

#include "softgpu/ptx/ast.h"

namespace warpline::softgpu::passes {

/// Checks a parsed body: modifiers, types, number, kinds and sizes of operands of every instruction, state spaces of named
/// addresses, arguments of direct calls. What it refuses, ptxas refuses too; it is not as strict as ptxas about rare forms.
/// Every message is a reason for CUDA_ERROR_INVALID_PTX (218).
///
/// @return true if nothing was wrong
/// @thread any
bool check(const ptx::Module& module, const ptx::Function& function, ptx::Diagnostics& diagnostics);

/// All parsed bodies of a module.
bool check(const ptx::Module& module, ptx::Diagnostics& diagnostics);

}  // namespace warpline::softgpu::passes
