#pragma once

// How devices are called from outside of CUDA, and which of them a program sees: CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/abi/cuda_types.h"

namespace warpline::cuda::abi {

/// "GPU-9f3c…" or, for a part of a GPU that is a device of its own, "MIG-…": as NVIDIA's tools write it.
/// @param model  what cuDeviceGetName says: that of a part contains " MIG ", as in "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
std::string device_name_of(const CUuuid& uuid, std::string_view model);

/// The devices that a value of CUDA_VISIBLE_DEVICES names, as indices into `names`, in its order. An entry is an ordinal or the
/// beginning of a name that fits one device. An entry that names none, -1 for instance, ends the list: what came before it
/// counts. A device that is named twice makes the whole list void. An empty text names no device.
///
/// @param names   of all devices, in the order of their ordinals
/// @source        CUDA C++ Programming Guide 13.0, environment variables; MIG User Guide, device enumeration
std::vector<size_t> visible_devices(std::string_view text, std::span<const std::string> names);

}  // namespace warpline::cuda::abi
