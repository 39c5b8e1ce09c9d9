// What NVIDIA's library of the device run time has in machine code only.
#pragma once

#include <memory>
#include <span>

#include "softgpu/ptx/ast.h"

namespace warpline::softgpu::passes {

/// The functions of `libcudadevrt.a` by which a grid waits for itself (`cudaCG…`, cuda_device_runtime_api.h), in PTX: if one of
/// these modules declares some and none defines them. Numba's grid groups are made of them. Null: nobody asks for them.
///
/// @thread any
std::unique_ptr<ptx::Module> device_library_for(std::span<const std::unique_ptr<ptx::Module>> modules);

}  // namespace warpline::softgpu::passes
