// Copies. Bytes to the device travel with the call; bytes from it come with the reply, or later for asynchronous copies.
#include <span>

#include "client/copy/array_part.h"
#include "client/copy/copy_plan.h"
#include "client/gen/copy_calls.gen.h"
#include "cuda/abi/copy_forms.h"

namespace warpline::client {

namespace {

template <typename Copy>
CUresult copy_shaped(Call& call, const Copy& from, uint64_t stream, Timing timing) {
    CopyPlan plan;
    if (CUresult result = plan_copy(call, from, plan); result != CUDA_SUCCESS) return result;
    return run_copy(call, plan, stream, timing);
}

template <typename Copy>
CUresult copy_shaped_async(Call& call, const Copy& from, CUstream stream) {
    uint64_t token = 0;
    if (CUresult refused = enter_stream(call, stream, token); refused != CUDA_SUCCESS) return refused;
    return copy_shaped(call, from, token, Timing::asynchronous);
}

/// One end of a linear copy that has an array at the other, or both.
struct LinearEnd {
    CUmemorytype type;
    const void* host = nullptr;
    CUdeviceptr device = 0;
    CUarray array = nullptr;
    size_t offset = 0;
};
LinearEnd on_host(const void* host) { return {CU_MEMORYTYPE_HOST, host}; }
LinearEnd on_device(CUdeviceptr device) { return {CU_MEMORYTYPE_DEVICE, nullptr, device}; }
LinearEnd in_array(CUarray array, size_t offset) { return {CU_MEMORYTYPE_ARRAY, nullptr, 0, array, offset}; }

/// @param stream  token
CUresult copy_linear(Call& call, const LinearEnd& source, const LinearEnd& target, size_t size_bytes, uint64_t stream,
                     Timing timing) {
    for (const LinearEnd* end : {&source, &target}) {  // also where nothing is copied
        if (end->type == CU_MEMORYTYPE_ARRAY && !call.state.arrays.find(to_token(end->array))) return CUDA_ERROR_INVALID_VALUE;
    }
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = source.type, copy.srcHost = source.host, copy.srcDevice = source.device, copy.srcArray = source.array;
    copy.srcXInBytes = source.offset;
    copy.dstMemoryType = target.type, copy.dstHost = const_cast<void*>(target.host), copy.dstDevice = target.device;
    copy.dstArray = target.array, copy.dstXInBytes = target.offset;
    copy.WidthInBytes = size_bytes;
    copy.Height = copy.Depth = 1;
    return copy_shaped(call, copy, stream, timing);
}

/// "Each memcpy operation in the batch must have a valid … srcAccessOrder setting, otherwise the API will return
/// CUDA_ERROR_INVALID_VALUE" (CUDA Driver API, cuMemcpyBatchAsync).
CUresult read_access(CUmemcpySrcAccessOrder order, unsigned flags, SourceAccess& access) {
    if ((flags & ~static_cast<unsigned>(CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE)) != 0) return CUDA_ERROR_INVALID_VALUE;
    switch (order) {
        case CU_MEMCPY_SRC_ACCESS_ORDER_STREAM: access = SourceAccess::in_order; return CUDA_SUCCESS;
        case CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL: access = SourceAccess::during_call; return CUDA_SUCCESS;
        case CU_MEMCPY_SRC_ACCESS_ORDER_ANY: access = SourceAccess::as_usual; return CUDA_SUCCESS;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

/// One after the other, as single copies. CUDA leaves the order within a batch open.
template <typename Copy>
CUresult copy_all(Call& call, std::span<const SourceAccess> access, uint64_t stream, Copy&& copy) {
    bool reads_device = false;
    for (size_t i = 0; i < access.size(); ++i) {
        Call own = call;
        own.source = access[i];
        bool from_device = false;
        const CUresult result = copy(own, i, from_device);
        call.number = own.number;
        if (result != CUDA_SUCCESS) return result;
        reads_device = reads_device || (from_device && access[i] == SourceAccess::during_call);
    }
    // What is copied on the device has been read when it is over.
    return reads_device && !is_capturing(call, stream) ? synchronize_stream(call, stream) : CUDA_SUCCESS;
}

CUresult copy_batch(Call& call, CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, std::span<const SourceAccess> access,
                    CUstream stream) {
    if (access.empty() || !dsts || !srcs || !sizes) return CUDA_ERROR_INVALID_VALUE;
    uint64_t token = 0;
    if (CUresult refused = enter_stream(call, stream, token); refused != CUDA_SUCCESS) return refused;
    return copy_all(call, access, token, [&](Call& own, size_t i, bool& from_device) {
        from_device = side_of(own.state, srcs[i]) == Side::device;
        return copy_any(own, dsts[i], srcs[i], sizes[i], token, Timing::asynchronous);
    });
}

CUresult plan_batch_copy(Call& call, const CUDA_MEMCPY3D_BATCH_OP& described, CopyPlan& plan) {
    const auto element_of = [&call](CUarray array, uint64_t& bytes) { return find_element_bytes(call, array, bytes); };
    CUDA_MEMCPY3D copy;
    const CUresult result = cuda::abi::read_batch_copy(described, element_of, copy);
    return result == CUDA_SUCCESS ? plan_copy(call, copy, plan) : result;
}

/// A batch of shaped copies, which travel as those. @param failed  is told which of them was refused; may be null
CUresult copy_batch_3d(Call& call, std::span<const CUDA_MEMCPY3D_BATCH_OP> list, size_t* failed, unsigned long long flags,
                       CUstream stream) {
    if (failed) *failed = SIZE_MAX;
    if (list.empty() || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    uint64_t token = 0;
    if (CUresult refused = enter_stream(call, stream, token); refused != CUDA_SUCCESS) return refused;
    std::vector<CopyPlan> plans(list.size());
    std::vector<SourceAccess> access(list.size());
    for (size_t i = 0; i < list.size(); ++i) {
        CUresult result = read_access(list[i].srcAccessOrder, list[i].flags, access[i]);
        if (result == CUDA_SUCCESS) result = plan_batch_copy(call, list[i], plans[i]);
        // "The width, height and depth … must not be zero" (CUDA Driver API, cuMemcpy3DBatchAsync).
        if (result == CUDA_SUCCESS && plans[i].empty()) result = CUDA_ERROR_INVALID_VALUE;
        if (result == CUDA_SUCCESS) continue;
        if (failed) *failed = i;
        return result;
    }
    return copy_all(call, access, token, [&](Call& own, size_t i, bool& from_device) {
        from_device = !plans[i].source.is_host;
        return run_copy(own, plans[i], token, Timing::asynchronous);
    });
}

/// Null means the current context.
CUresult find_peers(const Call& call, CUcontext& destination, CUcontext& source) {
    for (CUcontext* side : {&destination, &source}) {
        if (!*side) *side = to_handle<CUcontext>(call.scope());
        if (!call.state.contexts.find(to_token(*side))) return CUDA_ERROR_INVALID_CONTEXT;
    }
    return CUDA_SUCCESS;
}

/// A linear copy whose ends are named as the device's, in the order of a stream: `issue` sends it, unless an end is memory that
/// the program has registered, by the program's own address.
template <typename Issue>
CUresult copy_named(Call& call, CUdeviceptr destination, CUdeviceptr source, size_t size_bytes, uint64_t stream, Timing timing,
                    Issue&& issue) {
    if (size_bytes == 0) return CUDA_SUCCESS;
    if (is_registered_memory(call.state, destination) || is_registered_memory(call.state, source))
        return copy_any(call, destination, source, size_bytes, stream, timing);
    call.stream = stream;
    if (CUresult refused = check_device_range(call, destination, size_bytes); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = check_device_range(call, source, size_bytes); refused != CUDA_SUCCESS) return refused;
    return issue();
}

CUresult copy_to_host(Call& call, void* to, CUdeviceptr from, size_t size_bytes, uint64_t stream, Timing timing) {
    if (is_registered_memory(call.state, from))
        return copy_any(call, reinterpret_cast<CUdeviceptr>(to), from, size_bytes, stream, timing);
    return copy_from_device(call, CopyTarget::linear(to, size_bytes), from, size_bytes, stream, timing);
}

}  // namespace

CUresult hook_client_cuMemcpy(Call& call, CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
    return copy_any(call, dst, src, ByteCount, call.default_stream(), Timing::synchronous);
}

CUresult hook_client_cuMemcpyAsync(Call& call, CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
    uint64_t stream = 0;
    if (CUresult refused = enter_stream(call, hStream, stream); refused != CUDA_SUCCESS) return refused;
    return copy_any(call, dst, src, ByteCount, stream, Timing::asynchronous);
}

CUresult hook_client_cuMemcpyHtoD_v2(Call& call, CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount) {
    const uint64_t stream = call.default_stream();
    if (is_registered_memory(call.state, dstDevice))
        return copy_any(call, dstDevice, reinterpret_cast<CUdeviceptr>(srcHost), ByteCount, stream, Timing::synchronous);
    if (call.per_thread) return copy_to_device_async(call, dstDevice, srcHost, ByteCount, stream, Timing::synchronous);
    return copy_to_device(call, dstDevice, srcHost, ByteCount);
}

CUresult hook_client_cuMemcpyHtoDAsync_v2(Call& call, CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount,
                                          CUstream hStream) {
    uint64_t stream = 0;
    if (CUresult refused = enter_stream(call, hStream, stream); refused != CUDA_SUCCESS) return refused;
    if (is_registered_memory(call.state, dstDevice))
        return copy_any(call, dstDevice, reinterpret_cast<CUdeviceptr>(srcHost), ByteCount, stream, Timing::asynchronous);
    return copy_to_device_async(call, dstDevice, srcHost, ByteCount, stream, Timing::asynchronous);
}

CUresult hook_client_cuMemcpyDtoH_v2(Call& call, void* dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
    return copy_to_host(call, dstHost, srcDevice, ByteCount, call.default_stream(), Timing::synchronous);
}

CUresult hook_client_cuMemcpyDtoHAsync_v2(Call& call, void* dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                                          CUstream hStream) {
    if (!dstHost) return CUDA_ERROR_INVALID_VALUE;
    uint64_t stream = 0;
    if (CUresult refused = enter_stream(call, hStream, stream); refused != CUDA_SUCCESS) return refused;
    return copy_to_host(call, dstHost, srcDevice, ByteCount, stream, Timing::asynchronous);
}

CUresult hook_client_cuMemcpyDtoD_v2(Call& call, CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
    const uint64_t stream = call.default_stream();
    return copy_named(call, dstDevice, srcDevice, ByteCount, stream, Timing::synchronous, [&] {
        const bool waits = is_synchronous(call, dstDevice) || is_synchronous(call, srcDevice);
        if (waits || is_used_here(call.state, dstDevice) || is_used_here(call.state, srcDevice))
            return copy_any(call, dstDevice, srcDevice, ByteCount, stream, Timing::synchronous);
        if (call.per_thread) return gen::issue_cuMemcpyDtoDAsync_v2(call, dstDevice, srcDevice, ByteCount, stream);
        return gen::issue_cuMemcpyDtoD_v2(call, dstDevice, srcDevice, ByteCount);
    });
}

CUresult hook_client_cuMemcpyDtoDAsync_v2(Call& call, CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                                          CUstream hStream) {
    uint64_t stream = 0;
    if (CUresult refused = enter_stream(call, hStream, stream); refused != CUDA_SUCCESS) return refused;
    return copy_named(call, dstDevice, srcDevice, ByteCount, stream, Timing::asynchronous,
                      [&] { return gen::issue_cuMemcpyDtoDAsync_v2(call, dstDevice, srcDevice, ByteCount, stream); });
}

CUresult hook_client_cuMemcpyPeer(Call& call, CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                                  CUcontext srcContext, size_t ByteCount) {
    if (CUresult refused = find_peers(call, dstContext, srcContext); refused != CUDA_SUCCESS) return refused;
    return copy_named(call, dstDevice, srcDevice, ByteCount, call.default_stream(), Timing::synchronous, [&] {
        return gen::issue_cuMemcpyPeer(call, dstDevice, to_token(dstContext), srcDevice, to_token(srcContext), ByteCount);
    });
}

CUresult hook_client_cuMemcpyPeerAsync(Call& call, CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                                       CUcontext srcContext, size_t ByteCount, CUstream hStream) {
    if (CUresult refused = find_peers(call, dstContext, srcContext); refused != CUDA_SUCCESS) return refused;
    uint64_t stream = 0;
    if (CUresult refused = enter_stream(call, hStream, stream); refused != CUDA_SUCCESS) return refused;
    return copy_named(call, dstDevice, srcDevice, ByteCount, stream, Timing::asynchronous, [&] {
        return gen::issue_cuMemcpyPeerAsync(call, dstDevice, to_token(dstContext), srcDevice, to_token(srcContext), ByteCount,
                                            stream);
    });
}

CUresult hook_client_cuMemcpy2D_v2(Call& call, const CUDA_MEMCPY2D* pCopy) {
    return copy_shaped(call, *pCopy, call.default_stream(), Timing::synchronous);
}

CUresult hook_client_cuMemcpy3D_v2(Call& call, const CUDA_MEMCPY3D* pCopy) {
    return copy_shaped(call, *pCopy, call.default_stream(), Timing::synchronous);
}

CUresult hook_client_cuMemcpy3DPeer(Call& call, const CUDA_MEMCPY3D_PEER* pCopy) {
    return copy_shaped(call, *pCopy, call.default_stream(), Timing::synchronous);
}

CUresult hook_client_cuMemcpy2DAsync_v2(Call& call, const CUDA_MEMCPY2D* pCopy, CUstream hStream) {
    return copy_shaped_async(call, *pCopy, hStream);
}

CUresult hook_client_cuMemcpy3DAsync_v2(Call& call, const CUDA_MEMCPY3D* pCopy, CUstream hStream) {
    return copy_shaped_async(call, *pCopy, hStream);
}

CUresult hook_client_cuMemcpy3DPeerAsync(Call& call, const CUDA_MEMCPY3D_PEER* pCopy, CUstream hStream) {
    return copy_shaped_async(call, *pCopy, hStream);
}

CUresult hook_client_cuMemcpyAtoD_v2(Call& call, CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
    return copy_linear(call, in_array(srcArray, srcOffset), on_device(dstDevice), ByteCount, call.default_stream(),
                       Timing::synchronous);
}

CUresult hook_client_cuMemcpyDtoA_v2(Call& call, CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount) {
    return copy_linear(call, on_device(srcDevice), in_array(dstArray, dstOffset), ByteCount, call.default_stream(),
                       Timing::synchronous);
}

CUresult hook_client_cuMemcpyAtoA_v2(Call& call, CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset,
                                     size_t ByteCount) {
    return copy_linear(call, in_array(srcArray, srcOffset), in_array(dstArray, dstOffset), ByteCount, call.default_stream(),
                       Timing::synchronous);
}

CUresult hook_client_cuMemcpyHtoA_v2(Call& call, CUarray dstArray, size_t dstOffset, const void* srcHost, size_t ByteCount) {
    return copy_linear(call, on_host(srcHost), in_array(dstArray, dstOffset), ByteCount, call.default_stream(),
                       Timing::synchronous);
}

CUresult hook_client_cuMemcpyAtoH_v2(Call& call, void* dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
    return copy_linear(call, in_array(srcArray, srcOffset), on_host(dstHost), ByteCount, call.default_stream(),
                       Timing::synchronous);
}

CUresult hook_client_cuMemcpyHtoAAsync_v2(Call& call, CUarray dstArray, size_t dstOffset, const void* srcHost, size_t ByteCount,
                                          CUstream hStream) {
    uint64_t stream = 0;
    if (CUresult refused = enter_stream(call, hStream, stream); refused != CUDA_SUCCESS) return refused;
    return copy_linear(call, on_host(srcHost), in_array(dstArray, dstOffset), ByteCount, stream, Timing::asynchronous);
}

CUresult hook_client_cuMemcpyAtoHAsync_v2(Call& call, void* dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount,
                                          CUstream hStream) {
    uint64_t stream = 0;
    if (CUresult refused = enter_stream(call, hStream, stream); refused != CUDA_SUCCESS) return refused;
    return copy_linear(call, in_array(srcArray, srcOffset), on_host(dstHost), ByteCount, stream, Timing::asynchronous);
}

CUresult hook_client_cuMemcpyBatchAsync(Call& call, CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                                        CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs, size_t* failIdx,
                                        CUstream hStream) {
    if (!takes_batches(hStream)) return CUDA_ERROR_INVALID_VALUE;
    if (failIdx) *failIdx = SIZE_MAX;
    return hook_client_cuMemcpyBatchAsync_v2(call, dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream);
}

CUresult hook_client_cuMemcpyBatchAsync_v2(Call& call, CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                                           CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs, CUstream hStream) {
    if (!takes_batches(hStream)) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult refused = check_stream(call, hStream); refused != CUDA_SUCCESS) return refused;
    if (numAttrs == 0 || numAttrs > count || !attrs || !attrsIdxs || attrsIdxs[0] != 0) return CUDA_ERROR_INVALID_VALUE;
    std::vector<SourceAccess> access(count);
    for (size_t k = 0; k < numAttrs; ++k) {
        // "Each entry must be greater than the previous entry and the last entry should be less than count".
        const size_t end = k + 1 < numAttrs ? attrsIdxs[k + 1] : count;
        if (end <= attrsIdxs[k] || end > count) return CUDA_ERROR_INVALID_VALUE;
        SourceAccess order{};
        if (CUresult refused = read_access(attrs[k].srcAccessOrder, attrs[k].flags, order); refused != CUDA_SUCCESS)
            return refused;
        std::fill(access.begin() + static_cast<ptrdiff_t>(attrsIdxs[k]), access.begin() + static_cast<ptrdiff_t>(end), order);
    }
    return copy_batch(call, dsts, srcs, sizes, access, hStream);
}

CUresult hook_client_cuMemcpy3DBatchAsync(Call& call, size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, size_t* failIdx,
                                          unsigned long long flags, CUstream hStream) {
    if (!takes_batches(hStream)) return CUDA_ERROR_INVALID_VALUE;
    return copy_batch_3d(call, {opList, numOps}, failIdx, flags, hStream);
}

CUresult hook_client_cuMemcpy3DBatchAsync_v2(Call& call, size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList,
                                             unsigned long long flags, CUstream hStream) {
    return hook_client_cuMemcpy3DBatchAsync(call, numOps, opList, nullptr, flags, hStream);
}

CUresult hook_client_cuMemcpyWithAttributesAsync(Call& call, CUdeviceptr dst, CUdeviceptr src, size_t size,
                                                 CUmemcpyAttributes* attr, CUstream hStream) {
    SourceAccess access{};
    if (CUresult refused = read_access(attr->srcAccessOrder, attr->flags, access); refused != CUDA_SUCCESS) return refused;
    return copy_batch(call, &dst, &src, &size, {&access, 1}, hStream);
}

CUresult hook_client_cuMemcpy3DWithAttributesAsync(Call& call, CUDA_MEMCPY3D_BATCH_OP* op, unsigned long long flags,
                                                   CUstream hStream) {
    return copy_batch_3d(call, {op, 1}, nullptr, flags, hStream);
}

}  // namespace warpline::client
