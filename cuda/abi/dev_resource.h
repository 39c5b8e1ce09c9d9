// Resources of devices (CUdevResource) beyond multiprocessors, as CUDA 13.1 and later have them: cuda.h of older toolkits knows
// neither their types nor their fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cuda/abi/cuda_types.h"

namespace warpline::cuda::abi {

/// CUdevResourceType, as a number: the enumeration of an older header does not reach as far.
inline constexpr unsigned k_resource_sm = CU_DEV_RESOURCE_TYPE_SM, k_resource_workqueue_config = 1000,
                          k_resource_workqueue = 10000;
/// The first driver that knows of work queues.
inline constexpr int k_workqueue_driver = 13010;

inline unsigned type_of(const CUdevResource& resource) {
    unsigned type = 0;
    std::memcpy(&type, &resource.type, sizeof type);
    return type;
}
inline void set_type(CUdevResource& resource, unsigned type) { std::memcpy(&resource.type, &type, sizeof type); }

/// CUdevWorkqueueConfigResource, which programs may fill in.
struct WorkqueueConfig {
    int32_t device = 0;
    uint32_t concurrency_limit = 0;
    uint32_t sharing_scope = 0;
};
inline constexpr uint32_t k_workqueue_scope_device = 0, k_workqueue_scope_balanced = 1;

inline WorkqueueConfig workqueue_config_of(const CUdevResource& resource) {
    WorkqueueConfig config;
    std::memcpy(static_cast<void*>(&config), &resource.sm, sizeof config);
    return config;
}
inline void set_workqueue_config(CUdevResource& resource, const WorkqueueConfig& config) {
    std::memcpy(static_cast<void*>(&resource.sm), &config, sizeof config);
}

/// The green context of a stream has been destroyed: CUDA_ERROR_STREAM_DETACHED, which drivers have since CUDA 13.5.
constexpr CUresult detached_stream(int driver_version) {
    constexpr int k_detaching_driver = 13050;
    return driver_version >= k_detaching_driver ? static_cast<CUresult>(917) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/// The last word of a resource is the address of another one, which is the program's.
inline constexpr size_t k_next_resource_offset = sizeof(CUdevResource) - sizeof(uint64_t);
inline bool has_next(const CUdevResource& resource) {
    uint64_t next = 0;
    std::memcpy(&next, reinterpret_cast<const std::byte*>(&resource) + k_next_resource_offset, sizeof next);
    return next != 0;
}

/// Flags of CU_DEV_SM_RESOURCE_GROUP_PARAMS, and the most multiprocessors that a group has run together.
inline constexpr unsigned k_group_backfill = 1, k_group_locality_domain = 2, k_group_supplemental = 4;

}  // namespace warpline::cuda::abi
