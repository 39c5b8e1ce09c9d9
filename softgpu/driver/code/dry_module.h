// Modules without code, for dry mode.
#pragma once

#include <memory>

#include "softgpu/exec/api.h"

namespace warpline::cuda::image {
struct ImageInfo;
}

namespace warpline::softgpu::driver {

/// A module of dry mode that stands for a cubin: its kernels have names, parameters and attributes, and do nothing when
/// launched; its variables have memory, the managed ones that of `managed`. Null if there is no memory.
std::shared_ptr<exec::Module> make_dry_module(exec::Memory& memory, const cuda::image::ImageInfo& info,
                                              std::shared_ptr<exec::ManagedPlaces> managed);

}  // namespace warpline::softgpu::driver
