// Enumerators of CUDA 13.1 to 13.5, which cuda.h of older toolkits does not have.
#pragma once

#include "cuda/abi/cuda_types.h"

namespace warpline::cuda::abi {

/// The first driver that may know any of what follows.
inline constexpr int k_newer_values_driver = 13010;
/// The first one that knows all of it.
inline constexpr int k_all_newer_values_driver = 13050;
/// The first driver that loads modules whatever is being captured (docs/driver-behaviour.md, DB-45).
inline constexpr int k_loads_in_captures_driver = 12030;

/// CU_LAUNCH_ATTRIBUTE_PORTABLE_CLUSTER_SIZE_MODE and CU_LAUNCH_ATTRIBUTE_SHARED_MEMORY_MODE: numbers.
inline constexpr auto k_portable_cluster_size_mode = static_cast<CUlaunchAttributeID>(17);
inline constexpr auto k_launch_shared_memory_mode = static_cast<CUlaunchAttributeID>(18);
/// CUlaunchAttributePortableClusterMode
inline constexpr unsigned k_cluster_mode_default = 0, k_cluster_mode_portable = 1, k_cluster_mode_non_portable = 2;
/// The last of CUsharedMemoryMode.
inline constexpr unsigned k_last_shared_memory_mode = 4;

/// CU_FUNC_ATTRIBUTE_DEVICE_NODE_UPDATE_SUPPORTED and CU_FUNC_ATTRIBUTE_SHARED_MEMORY_MODE, of which the second can be set.
inline constexpr auto k_function_node_update_supported = static_cast<CUfunction_attribute>(16);
inline constexpr auto k_function_shared_memory_mode = static_cast<CUfunction_attribute>(17);

/// CU_JIT_BINARY_LOADER_THREAD_COUNT, and what CU_JIT_NUM_OPTIONS is with it.
inline constexpr auto k_jit_loader_thread_count = static_cast<CUjit_option>(35);
inline constexpr int k_jit_options = 36;

/// CU_DEVICE_ATTRIBUTE_ATOMIC_REDUCTION_SUPPORTED
inline constexpr auto k_atomic_reduction_supported = static_cast<CUdevice_attribute>(148);

/// The value of an attribute that is a number: the union of an older header has no member for it.
inline unsigned number_of(const CUlaunchAttributeValue& value) {
    unsigned number = 0;
    __builtin_memcpy(&number, &value, sizeof number);
    return number;
}

}  // namespace warpline::cuda::abi
