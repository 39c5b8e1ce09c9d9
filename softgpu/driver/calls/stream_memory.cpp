// Streams that wait for values in memory, or write them.
#include <span>

#include "cuda/abi/stream_values.h"
#include "softgpu/driver/config/version.h"
#include "softgpu/driver/context/stream.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/graph/enqueue.h"
#include "softgpu/driver/memory/memory.h"
#include "softgpu/driver/operations/operation.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

CUresult check_item(const CUstreamBatchMemOpParams& item) {
    if (cuda::abi::is_reduction(item)) {
        const cuda::abi::AtomicReduction reduction = cuda::abi::reduction_of(item);
        const bool known = driver_version() >= cuda::abi::k_newer_values_driver && reduction.is_known();
        return known && reduction.address % reduction.bytes() == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    if (!cuda::abi::are_stream_value_flags(item.operation, item.waitValue.flags)) return CUDA_ERROR_INVALID_VALUE;
    switch (item.operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        case CU_STREAM_MEM_OP_WRITE_VALUE_32: return item.waitValue.address % 4 == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        case CU_STREAM_MEM_OP_WRITE_VALUE_64: return item.waitValue.address % 8 == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES: return CUDA_ERROR_NOT_SUPPORTED;
        case CU_STREAM_MEM_OP_BARRIER: return CUDA_SUCCESS;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult check_memory(const CUstreamBatchMemOpParams& item) {
    if (cuda::abi::is_reduction(item)) {
        const cuda::abi::AtomicReduction reduction = cuda::abi::reduction_of(item);
        return check_device_range(reduction.address, reduction.bytes(), Access::write);
    }
    switch (item.operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        case CU_STREAM_MEM_OP_WRITE_VALUE_32: return check_device_range(item.waitValue.address, 4, Access::write);
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        case CU_STREAM_MEM_OP_WRITE_VALUE_64: return check_device_range(item.waitValue.address, 8, Access::write);
        default: return CUDA_SUCCESS;
    }
}

CUresult batch(CUstream handle, std::vector<CUstreamBatchMemOpParams> items, unsigned int flags) {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    StreamPtr stream;
    CU_TRY(find_stream(handle, stream));
    CU_TRY(check_memory_operations(items));
    CU_TRY(check_operated_memory(items));
    return enqueue(*stream, BatchMemoryOperation{std::move(items), flags});
}

CUresult value_operation(CUstream stream, CUstreamBatchMemOpType type, CUdeviceptr address, uint64_t value,
                         unsigned int flags) {
    CUstreamBatchMemOpParams item{};
    item.waitValue.operation = type;
    item.waitValue.address = address;
    item.waitValue.value64 = value;
    item.waitValue.flags = flags;
    return batch(stream, {item}, 0);
}

}  // namespace

CUresult check_memory_operations(std::span<const CUstreamBatchMemOpParams> items) {
    if (items.size() > 256) return CUDA_ERROR_INVALID_VALUE;
    if (!process().config().profile.stream_values) return CUDA_ERROR_NOT_SUPPORTED;
    for (const auto& item : items) CU_TRY(check_item(item));
    return CUDA_SUCCESS;
}

CUresult check_operated_memory(std::span<const CUstreamBatchMemOpParams> items) {
    for (const auto& item : items) CU_TRY(check_memory(item));
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
    return value_operation(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, addr, value, flags);
}
CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
    return value_operation(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, addr, value, flags);
}
CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
    return value_operation(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, addr, value, flags);
}
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
    return value_operation(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, addr, value, flags);
}
CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* paramArray, unsigned int flags) {
    if (paramArray == nullptr || count > 256) return CUDA_ERROR_INVALID_VALUE;
    return batch(stream, {paramArray, paramArray + count}, flags);
}

}  // namespace warpline::softgpu::driver
