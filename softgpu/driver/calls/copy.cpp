// Copies of all shapes: what the call says is made an operation and handed to its stream.
#include "softgpu/driver/operations/copy.h"
#include "cuda/abi/copy_forms.h"
#include "softgpu/driver/context/stream.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/graph/enqueue.h"
#include "softgpu/driver/memory/memory.h"
#include "softgpu/driver/operations/operation.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

constexpr CopyMode k_sync = CopyMode::synchronous;
constexpr CopyMode k_async = CopyMode::asynchronous;

CUresult copy_linear(uint64_t to, Endpoint to_kind, uint64_t from, Endpoint from_kind, uint64_t bytes, CUstream handle,
                     CopyMode mode) {
    StreamPtr stream;
    CU_TRY(find_stream(handle, stream));
    CopyOperation operation;
    CU_TRY(linear_copy(to, to_kind, from, from_kind, bytes, operation));
    if (bytes == 0) return CUDA_SUCCESS;
    return enqueue_copy(*stream, std::move(operation), mode);
}

uint64_t address_of(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

CUresult copy_array(const CUDA_MEMCPY3D& described, CUstream handle, CopyMode mode) {
    StreamPtr stream;
    CU_TRY(find_stream(handle, stream));
    CopyOperation operation;
    CU_TRY(described_copy(described, operation));
    return enqueue_copy(*stream, std::move(operation), mode);
}

CUresult copy_2d(const CUDA_MEMCPY2D* described, CUstream handle, CopyMode mode) {
    if (described == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return copy_array(as_3d(*described), handle, mode);
}

/// The device of a context that a peer copy names for one of its sides; the current one for null.
CUresult device_of(CUcontext handle, const Device*& device) {
    if (handle == nullptr) {
        Context* current = nullptr;
        CU_TRY(current_context(current));
        device = &current->device();
        return CUDA_SUCCESS;
    }
    NamedContext named;
    CU_TRY(find_named_context(handle, named));
    device = &named.context->device();
    return CUDA_SUCCESS;
}

CUresult copy_peer_3d(const CUDA_MEMCPY3D_PEER* described, CUstream handle, CopyMode mode) {
    if (described == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CopyOperation operation;
    CU_TRY(device_of(described->srcContext, operation.from.named));
    CU_TRY(device_of(described->dstContext, operation.to.named));
    StreamPtr stream;
    CU_TRY(find_stream(handle, stream));
    CU_TRY(described_copy(cuda::abi::without_contexts(*described), operation));
    return enqueue_copy(*stream, std::move(operation), mode);
}

CUresult copy_peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                   CUstream handle, CopyMode mode) {
    CopyOperation operation;
    CU_TRY(device_of(to_context, operation.to.named));
    CU_TRY(device_of(from_context, operation.from.named));
    StreamPtr stream;
    CU_TRY(find_stream(handle, stream));
    CU_TRY(linear_copy(to, Endpoint::device, from, Endpoint::device, bytes, operation));
    return bytes != 0 ? enqueue_copy(*stream, std::move(operation), mode) : CUDA_SUCCESS;
}

/// "Each memcpy operation in the batch must have a valid … srcAccessOrder setting, otherwise the API will return
/// CUDA_ERROR_INVALID_VALUE" (CUDA Driver API, cuMemcpyBatchAsync).
CUresult mode_of(CUmemcpySrcAccessOrder order, unsigned int flags, CopyMode& mode) {
    if ((flags & ~static_cast<unsigned int>(CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE)) != 0) return CUDA_ERROR_INVALID_VALUE;
    switch (order) {
        case CU_MEMCPY_SRC_ACCESS_ORDER_STREAM: mode = CopyMode::in_order; return CUDA_SUCCESS;
        case CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL: mode = CopyMode::read_now; return CUDA_SUCCESS;
        case CU_MEMCPY_SRC_ACCESS_ORDER_ANY: mode = k_async; return CUDA_SUCCESS;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

/// The order of a batch cannot be told from that of a default stream, which CUDA therefore does not allow.
bool takes_batches(CUstream handle) { return handle != nullptr && handle != CU_STREAM_LEGACY; }

/// The stream is looked at before what is copied.
CUresult check_batch_stream(CUstream handle, size_t* failed) {
    if (failed != nullptr) *failed = SIZE_MAX;
    StreamPtr stream;
    return find_stream(handle, stream);
}

struct BatchCopy {
    CopyOperation operation;
    CopyMode mode = k_async;
};

CUresult enqueue_batch(std::vector<BatchCopy>& batch, CUstream handle) {
    StreamPtr stream;
    CU_TRY(find_stream(handle, stream));
    for (BatchCopy& one : batch) {
        if (one.operation.width_bytes != 0) CU_TRY(enqueue_copy(*stream, std::move(one.operation), one.mode));
    }
    return CUDA_SUCCESS;
}

CUresult copy_batch(CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count, CUmemcpyAttributes* attributes,
                    size_t* indices, size_t attribute_count, size_t* failed, CUstream handle) {
    if (failed != nullptr) *failed = SIZE_MAX;
    if (to == nullptr || from == nullptr || sizes == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    if (attributes == nullptr || indices == nullptr || attribute_count == 0) return CUDA_ERROR_INVALID_VALUE;
    if (attribute_count > count || indices[0] != 0) return CUDA_ERROR_INVALID_VALUE;
    std::vector<BatchCopy> batch(count);
    for (size_t k = 0; k < attribute_count; ++k) {
        const size_t end = k + 1 < attribute_count ? indices[k + 1] : count;
        if (end <= indices[k] || end > count) return CUDA_ERROR_INVALID_VALUE;
        CopyMode mode{};
        CU_TRY(mode_of(attributes[k].srcAccessOrder, attributes[k].flags, mode));
        for (size_t i = indices[k]; i < end; ++i) batch[i].mode = mode;
    }
    for (size_t i = 0; i < count; ++i) {
        CUresult result = linear_copy(to[i], Endpoint::any, from[i], Endpoint::any, sizes[i], batch[i].operation);
        if (result == CUDA_SUCCESS) continue;
        if (failed != nullptr) *failed = i;
        return result;
    }
    return enqueue_batch(batch, handle);
}

CUresult copy_batch_3d(size_t count, CUDA_MEMCPY3D_BATCH_OP* list, size_t* failed, CUstream handle) {
    if (failed != nullptr) *failed = SIZE_MAX;
    if (list == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    std::vector<BatchCopy> batch;
    for (size_t i = 0; i < count; ++i) {
        batch.emplace_back();  // one by one: what is wrong with a count shows in what is listed
        CUresult result = mode_of(list[i].srcAccessOrder, list[i].flags, batch[i].mode);
        if (result == CUDA_SUCCESS) result = batch_copy(list[i], batch[i].operation);
        const CUextent3D& extent = list[i].extent;
        if (extent.width == 0 || extent.height == 0 || extent.depth == 0) result = CUDA_ERROR_INVALID_VALUE;
        if (result == CUDA_SUCCESS) continue;
        if (failed != nullptr) *failed = i;
        return result;
    }
    return enqueue_batch(batch, handle);
}

}  // namespace

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
    return copy_linear(dst, Endpoint::any, src, Endpoint::any, ByteCount, nullptr, k_sync);
}
CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
    return copy_linear(dst, Endpoint::any, src, Endpoint::any, ByteCount, hStream, k_async);
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount) {
    return copy_linear(dstDevice, Endpoint::device, address_of(srcHost), Endpoint::host, ByteCount, nullptr, k_sync);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount, CUstream hStream) {
    return copy_linear(dstDevice, Endpoint::device, address_of(srcHost), Endpoint::host, ByteCount, hStream, k_async);
}
CUresult cuMemcpyDtoH_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
    return copy_linear(address_of(dstHost), Endpoint::host, srcDevice, Endpoint::device, ByteCount, nullptr, k_sync);
}
CUresult cuMemcpyDtoHAsync_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
    return copy_linear(address_of(dstHost), Endpoint::host, srcDevice, Endpoint::device, ByteCount, hStream, k_async);
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
    return copy_linear(dstDevice, Endpoint::device, srcDevice, Endpoint::device, ByteCount, nullptr, k_sync);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
    return copy_linear(dstDevice, Endpoint::device, srcDevice, Endpoint::device, ByteCount, hStream, k_async);
}
CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
                      size_t ByteCount) {
    return copy_peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, nullptr, k_sync);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
                           size_t ByteCount, CUstream hStream) {
    return copy_peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream, k_async);
}

CUresult cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount) {
    return copy_array(to_array(dstArray, dstOffset, CU_MEMORYTYPE_DEVICE, srcDevice, ByteCount), nullptr, k_sync);
}
CUresult cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
    return copy_array(from_array(srcArray, srcOffset, CU_MEMORYTYPE_DEVICE, dstDevice, ByteCount), nullptr, k_sync);
}
CUresult cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void* srcHost, size_t ByteCount) {
    return copy_array(to_array(dstArray, dstOffset, CU_MEMORYTYPE_HOST, address_of(srcHost), ByteCount), nullptr, k_sync);
}
CUresult cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void* srcHost, size_t ByteCount, CUstream hStream) {
    return copy_array(to_array(dstArray, dstOffset, CU_MEMORYTYPE_HOST, address_of(srcHost), ByteCount), hStream, k_async);
}
CUresult cuMemcpyAtoH_v2(void* dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
    return copy_array(from_array(srcArray, srcOffset, CU_MEMORYTYPE_HOST, address_of(dstHost), ByteCount), nullptr, k_sync);
}
CUresult cuMemcpyAtoHAsync_v2(void* dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount, CUstream hStream) {
    return copy_array(from_array(srcArray, srcOffset, CU_MEMORYTYPE_HOST, address_of(dstHost), ByteCount), hStream, k_async);
}
CUresult cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
    return copy_array(array_to_array(dstArray, dstOffset, srcArray, srcOffset, ByteCount), nullptr, k_sync);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* pCopy) { return copy_2d(pCopy, nullptr, k_sync); }
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* pCopy, CUstream hStream) { return copy_2d(pCopy, hStream, k_async); }

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* pCopy) {
    return pCopy != nullptr ? copy_array(*pCopy, nullptr, k_sync) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* pCopy, CUstream hStream) {
    return pCopy != nullptr ? copy_array(*pCopy, hStream, k_async) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* pCopy) { return copy_peer_3d(pCopy, nullptr, k_sync); }
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* pCopy, CUstream hStream) {
    return copy_peer_3d(pCopy, hStream, k_async);
}

CUresult cuMemcpyBatchAsync(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count, CUmemcpyAttributes* attrs,
                            size_t* attrsIdxs, size_t numAttrs, size_t* failIdx, CUstream hStream) {
    if (!takes_batches(hStream)) return CUDA_ERROR_INVALID_VALUE;
    CU_TRY(check_batch_stream(hStream, failIdx));
    return copy_batch(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, failIdx, hStream);
}
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count, CUmemcpyAttributes* attrs,
                               size_t* attrsIdxs, size_t numAttrs, CUstream hStream) {
    return driver::cuMemcpyBatchAsync(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, nullptr, hStream);
}
CUresult cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, size_t* failIdx, unsigned long long flags,
                              CUstream hStream) {
    if (!takes_batches(hStream)) return CUDA_ERROR_INVALID_VALUE;
    CU_TRY(check_batch_stream(hStream, failIdx));
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    return copy_batch_3d(numOps, opList, failIdx, hStream);
}
CUresult cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, unsigned long long flags, CUstream hStream) {
    return driver::cuMemcpy3DBatchAsync(numOps, opList, nullptr, flags, hStream);
}
CUresult cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t size, CUmemcpyAttributes* attr,
                                     CUstream hStream) {
    size_t first = 0;
    return copy_batch(&dst, &src, &size, 1, attr, &first, 1, nullptr, hStream);
}
CUresult cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP* op, unsigned long long flags, CUstream hStream) {
    return flags == 0 ? copy_batch_3d(1, op, nullptr, hStream) : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace warpline::softgpu::driver
