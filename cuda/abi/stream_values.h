// Operations of streams on values in memory.
#pragma once

#include <cstdint>

#include "cuda/abi/cuda_types.h"
#include "cuda/abi/newer_values.h"

namespace warpline::cuda::abi {

/// True if the flags of cuStreamWaitValue, cuStreamWriteValue, or of such an item of a batch, are known. Other operations have
/// none that are looked at.
inline bool are_stream_value_flags(CUstreamBatchMemOpType operation, unsigned int flags) {
    switch (operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        case CU_STREAM_MEM_OP_WAIT_VALUE_64: return (flags & ~(CU_STREAM_WAIT_VALUE_NOR | CU_STREAM_WAIT_VALUE_FLUSH)) == 0;
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        case CU_STREAM_MEM_OP_WRITE_VALUE_64: return (flags & ~unsigned{CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER}) == 0;
        default: return true;
    }
}

/// CU_STREAM_MEM_OP_ATOMIC_REDUCTION, of 13.1. The enumeration of an older header does not reach as far.
inline constexpr int k_atomic_reduction = 8;
inline bool is_reduction(const CUstreamBatchMemOpParams& item) {
    return static_cast<int>(item.operation) == k_atomic_reduction;
}

/// CUstreamBatchMemOpParams::atomicReduction
struct AtomicReduction {
    int operation = k_atomic_reduction;
    unsigned flags = 0;
    int reduction = CU_ATOMIC_OPERATION_INTEGER_ADD;  ///< that, CU_ATOMIC_OPERATION_AND or CU_ATOMIC_OPERATION_OR
    unsigned type = 0;
    CUdeviceptr address = 0;
    uint64_t value = 0;
    CUdeviceptr alias = 0;  ///< the driver's

    static constexpr unsigned k_words = CU_ATOMIC_CAPABILITY_UNSIGNED | CU_ATOMIC_CAPABILITY_REDUCTION;
    uint64_t bytes() const { return (type & CU_ATOMIC_CAPABILITY_SCALAR_64) != 0 ? 8 : 4; }
    /// All but the address.
    bool is_known() const {
        const bool known_type =
            type == (k_words | CU_ATOMIC_CAPABILITY_SCALAR_32) || type == (k_words | CU_ATOMIC_CAPABILITY_SCALAR_64);
        const bool known_reduction = reduction == CU_ATOMIC_OPERATION_INTEGER_ADD || reduction == CU_ATOMIC_OPERATION_AND ||
                                     reduction == CU_ATOMIC_OPERATION_OR;
        return known_type && known_reduction && flags == 0;
    }
};
static_assert(sizeof(AtomicReduction) <= sizeof(CUstreamBatchMemOpParams));

/// The member of the union that an older header does not have. Only of a reduction.
inline AtomicReduction reduction_of(const CUstreamBatchMemOpParams& item) {
    AtomicReduction reduction;
    __builtin_memcpy(static_cast<void*>(&reduction), &item, sizeof reduction);
    return reduction;
}
inline void set_reduction(CUstreamBatchMemOpParams& item, const AtomicReduction& reduction) {
    __builtin_memcpy(static_cast<void*>(&item), &reduction, sizeof reduction);
}

}  // namespace warpline::cuda::abi
