// Attributes of a memory pool that follow from how it was made.
#pragma once

#include <cstdint>
#include <cstring>

#include "cuda/abi/cuda_types.h"
#include "cuda/abi/newer_values.h"

namespace warpline::cuda::abi {

/// NVIDIA's pools take parts of this size from a device, and as many whole ones as they need for their largest size
/// (docs/driver-behaviour.md, DB-62).
inline constexpr uint64_t k_pool_piece_bytes = uint64_t{32} << 20;

/// How much a pool may have whose largest size is this. 0: as much as there is
constexpr uint64_t largest_pool_bytes(uint64_t max_size) {
    return (max_size + k_pool_piece_bytes - 1) / k_pool_piece_bytes * k_pool_piece_bytes;
}

/// Attributes of pools that can only be read. Older toolkits' cuda.h has no names for them. [CUmemPool_attribute, CUDA 13.5]
enum class PoolFact : int {
    allocation_type = 9,
    export_handle_types = 10,
    location_id = 11,
    location_type = 12,
    max_pool_size = 13,  ///< cuuint64_t; the others are int
    hw_decompress_enabled = 14,
    locality_domain_id = 15,
};

/// @param imported  from another process: it cannot be exported again
/// @param driver    its version: older ones do not know what came later
/// @return          false: it is none of these
inline bool read_pool_fact(const CUmemPoolProps& pool, bool imported, CUmemPool_attribute attribute, int driver, void* value) {
    const bool is_latest = static_cast<PoolFact>(attribute) == PoolFact::locality_domain_id;
    if (driver < (is_latest ? k_all_newer_values_driver : k_newer_values_driver)) return false;
    const auto number = [value](int fact) {
        std::memcpy(value, &fact, sizeof fact);
        return true;
    };
    switch (static_cast<PoolFact>(attribute)) {
        case PoolFact::allocation_type: return number(pool.allocType);
        case PoolFact::export_handle_types: return number(imported ? CU_MEM_HANDLE_TYPE_NONE : pool.handleTypes);
        case PoolFact::location_id: return number(pool.location.id);
        case PoolFact::location_type: return number(pool.location.type);
        case PoolFact::max_pool_size: {
            const uint64_t most = pool.maxSize;
            std::memcpy(value, &most, sizeof most);
            return true;
        }
        case PoolFact::hw_decompress_enabled: return number(0);
        case PoolFact::locality_domain_id: return number(-1);
    }
    return false;
}

}  // namespace warpline::cuda::abi
