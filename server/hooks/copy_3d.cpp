// Copies with rows, layers, arrays or two contexts: the internal calls wlCopy….
#include <algorithm>

#include "server/gen/internal_calls.gen.h"
#include "server/hooks/common.h"
#include "server/hooks/graph_params.h"
#include "server/hooks/host_transfer.h"
#include "server/hooks/reach.h"

namespace warpline::server {

namespace {

/// One copy, with everything looked up.
struct Copy3d {
    CUDA_MEMCPY3D_PEER copy{};
    CUstream stream = nullptr;
    bool async = false;
    uint64_t packed_bytes = 0;  ///< of the region, rows and layers without gaps
};

template <typename Args>
CUresult read_copy(ServerCall& call, const Args& args, Copy3d& out) {
    if (args.copy.size() != sizeof out.copy) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(&out.copy, args.copy.data(), sizeof out.copy);
    out.copy.srcHost = nullptr;
    out.copy.dstHost = nullptr;
    out.copy.srcArray = WL_FIND_OR_NULL(call, CUarray, array, args.srcArray);
    out.copy.dstArray = WL_FIND_OR_NULL(call, CUarray, array, args.dstArray);
    out.copy.srcContext = WL_FIND_OR_NULL(call, CUcontext, context, args.srcContext);
    out.copy.dstContext = WL_FIND_OR_NULL(call, CUcontext, context, args.dstContext);
    out.stream = WL_FIND(call, CUstream, stream, args.hStream);
    out.async = args.async;
    const unsigned __int128 bytes = static_cast<unsigned __int128>(out.copy.WidthInBytes) *
                                    (out.copy.Height | uint64_t{out.copy.Height == 0}) *
                                    (out.copy.Depth | uint64_t{out.copy.Depth == 0});
    if (bytes > UINT64_MAX / 2) return CUDA_ERROR_INVALID_VALUE;
    out.packed_bytes = static_cast<uint64_t>(bytes);
    return CUDA_SUCCESS;
}

bool is_on_device(CUmemorytype type) { return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_ARRAY; }

/// The range of linear memory that one side of a copy touches must be the session's own.
CUresult check_side(ServerCall& call, CUmemorytype type, CUdeviceptr address, uint64_t pitch, uint64_t rows_per_layer,
                    uint64_t x, uint64_t y, uint64_t z, const CUDA_MEMCPY3D_PEER& copy) {
    if (type != CU_MEMORYTYPE_DEVICE || copy.WidthInBytes == 0) return CUDA_SUCCESS;
    const uint64_t height = copy.Height == 0 ? 1 : copy.Height;
    const uint64_t depth = copy.Depth == 0 ? 1 : copy.Depth;
    const uint64_t layer_rows = rows_per_layer == 0 ? height : rows_per_layer;
    const auto row = [&](uint64_t layer_index, uint64_t row_index) {
        return (static_cast<unsigned __int128>(layer_index) * layer_rows + row_index) * pitch;
    };
    const unsigned __int128 begin = address + row(z, y) + x;
    const unsigned __int128 end = address + row(z + depth - 1, y + height - 1) + x + copy.WidthInBytes;
    if (end > UINT64_MAX || end < begin) return CUDA_ERROR_INVALID_VALUE;
    const DeviceMemory& memory = call.session().memory();
    const auto first = static_cast<uint64_t>(begin);
    return memory.contains(first, static_cast<uint64_t>(end - begin)) ? CUDA_SUCCESS : memory.refusal(first);
}

CUresult check_source(ServerCall& call, const CUDA_MEMCPY3D_PEER& c) {
    if (!is_on_device(c.srcMemoryType)) return CUDA_ERROR_INVALID_VALUE;
    return check_side(call, c.srcMemoryType, c.srcDevice, c.srcPitch, c.srcHeight, c.srcXInBytes, c.srcY, c.srcZ, c);
}

CUresult check_target(ServerCall& call, const CUDA_MEMCPY3D_PEER& c) {
    if (!is_on_device(c.dstMemoryType)) return CUDA_ERROR_INVALID_VALUE;
    return check_side(call, c.dstMemoryType, c.dstDevice, c.dstPitch, c.dstHeight, c.dstXInBytes, c.dstY, c.dstZ, c);
}

CUDA_MEMCPY3D without_contexts(const CUDA_MEMCPY3D_PEER& c) {
    CUDA_MEMCPY3D plain{};
    plain.srcXInBytes = c.srcXInBytes, plain.srcY = c.srcY, plain.srcZ = c.srcZ, plain.srcLOD = c.srcLOD;
    plain.srcMemoryType = c.srcMemoryType, plain.srcHost = c.srcHost, plain.srcDevice = c.srcDevice,
    plain.srcArray = c.srcArray;
    plain.srcPitch = c.srcPitch, plain.srcHeight = c.srcHeight;
    plain.dstXInBytes = c.dstXInBytes, plain.dstY = c.dstY, plain.dstZ = c.dstZ, plain.dstLOD = c.dstLOD;
    plain.dstMemoryType = c.dstMemoryType, plain.dstHost = c.dstHost, plain.dstDevice = c.dstDevice,
    plain.dstArray = c.dstArray;
    plain.dstPitch = c.dstPitch, plain.dstHeight = c.dstHeight;
    plain.WidthInBytes = c.WidthInBytes, plain.Height = c.Height, plain.Depth = c.Depth;
    return plain;
}

/// The end of a copy that is linear device memory; 0 if there is none, as an array is reached in its own context.
uint64_t address_of(const CUDA_MEMCPY3D_PEER& copy) {
    if (copy.srcMemoryType == CU_MEMORYTYPE_DEVICE) return copy.srcDevice;
    return copy.dstMemoryType == CU_MEMORYTYPE_DEVICE ? copy.dstDevice : 0;
}

/// Each end in a context that reaches it.
CUresult find_reach(ServerCall& call, CUDA_MEMCPY3D_PEER& copy) {
    CUdevice owner = 0;
    if (copy.srcMemoryType == CU_MEMORYTYPE_DEVICE && is_out_of_reach(call, copy.srcDevice, owner))
        WL_CUDA(context_for(call, copy.srcDevice, copy.srcContext));
    if (copy.dstMemoryType == CU_MEMORYTYPE_DEVICE && is_out_of_reach(call, copy.dstDevice, owner))
        WL_CUDA(context_for(call, copy.dstDevice, copy.dstContext));
    return CUDA_SUCCESS;
}

CUresult run_copy(ServerCall& call, const Copy3d& what) {
    // A copy of one row or one layer says 0 or 1, as the client's own call did; the driver wants at least 1.
    CUDA_MEMCPY3D_PEER copy = what.copy;
    if (copy.Height == 0) copy.Height = 1;
    if (copy.Depth == 0) copy.Depth = 1;
    if (copy.srcContext != nullptr || copy.dstContext != nullptr) {
        if (what.async) return WL_DRIVER(call, cuMemcpy3DPeerAsync)(&copy, what.stream);
        return WL_DRIVER(call, cuMemcpy3DPeer)(&copy);
    }
    const CUDA_MEMCPY3D plain = without_contexts(copy);
    if (what.async) return WL_DRIVER(call, cuMemcpy3DAsync_v2)(&plain, what.stream);
    return WL_DRIVER(call, cuMemcpy3D_v2)(&plain);
}

/// A copy between the worker's memory and a device, which may be another one than the current context's.
CUresult run_host_copy(ServerCall& call, Copy3d what) {
    CUdevice owner = 0;
    const uint64_t address = address_of(what.copy);
    if (!is_out_of_reach(call, address, owner)) return run_copy(call, what);
    what.copy.srcContext = what.copy.dstContext = nullptr;
    if (!what.async) return wait_in_reach(call, address, [&] { return run_copy(call, what); });
    return copy_in_reach(call, address, what.stream, [&](CUstream stream) {
        what.stream = stream;
        return run_copy(call, what);
    });
}

void take_from_host(Copy3d& what, const void* source) {
    CUDA_MEMCPY3D_PEER& copy = what.copy;
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = source;
    copy.srcXInBytes = copy.srcY = copy.srcZ = copy.srcLOD = 0;
    copy.srcPitch = copy.WidthInBytes;
    copy.srcHeight = copy.Height == 0 ? 1 : copy.Height;
}

void give_to_host(Copy3d& what, void* target) {
    CUDA_MEMCPY3D_PEER& copy = what.copy;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = target;
    copy.dstXInBytes = copy.dstY = copy.dstZ = copy.dstLOD = 0;
    copy.dstPitch = copy.WidthInBytes;
    copy.dstHeight = copy.Height == 0 ? 1 : copy.Height;
}

}  // namespace

CUresult hook_server_wlCopyToDevice(ServerCall& call, const WlCopyToDeviceArgs& args) {
    Copy3d what;
    WL_CUDA(read_copy(call, args, what));
    WL_CUDA(check_target(call, what.copy));
    if (call.payload_bytes() != what.packed_bytes) return CUDA_ERROR_INVALID_VALUE;
    if (what.packed_bytes == 0) return CUDA_SUCCESS;
    const auto payload = call.whole_payload();
    if (!payload.ok()) return result_of(payload.error());
    if (!what.async) {
        take_from_host(what, payload->data());
        if (call.wants_reply()) call.release_order();
        return run_host_copy(call, what);
    }
    if (is_capturing(call, what.stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    // The stream reads the source when it gets there.
    AsyncCopies& copies = call.session().copies();
    AsyncCopies::Copy* staging = copies.begin(call.number(), payload->size(), false);
    if (staging == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    std::memcpy(staging->data, payload->data(), payload->size());
    take_from_host(what, staging->data);
    const CUresult result = run_host_copy(call, what);
    if (result != CUDA_SUCCESS) {
        copies.cancel(staging);
        return result;
    }
    return copies.release_in_stream(staging, what.stream);
}

CUresult hook_server_wlCaptureCopy(ServerCall& call, const WlCaptureCopyArgs& args) {
    Copy3d what;
    WL_CUDA(read_copy(call, args, what));
    if (what.copy.srcMemoryType != CU_MEMORYTYPE_HOST) WL_CUDA(check_source(call, what.copy));
    if (what.copy.dstMemoryType != CU_MEMORYTYPE_HOST) WL_CUDA(check_target(call, what.copy));
    CUgraph graph = nullptr;
    if (!is_capturing(call, what.stream)) return CUDA_ERROR_ILLEGAL_STATE;
    WL_CUDA(captured_graph(call, what.stream, graph));
    CUDA_MEMCPY3D copy = without_contexts(what.copy);
    HostCopyPtr host;
    WL_CUDA(place_host_end(call, {args.source, args.clientAddress, args.clientBytes}, graph, copy, host));
    if (host == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const bool linear = copy.Height <= 1 && copy.Depth <= 1 && what.copy.srcArray == nullptr && what.copy.dstArray == nullptr;
    if (linear && host->source != 0)
        return WL_DRIVER(call, cuMemcpyHtoDAsync_v2)(
            copy.dstDevice + (copy.dstZ * copy.dstHeight + copy.dstY) * copy.dstPitch + copy.dstXInBytes, copy.srcHost,
            copy.WidthInBytes, what.stream);
    if (linear)
        return WL_DRIVER(call, cuMemcpyDtoHAsync_v2)(
            copy.dstHost, copy.srcDevice + (copy.srcZ * copy.srcHeight + copy.srcY) * copy.srcPitch + copy.srcXInBytes,
            copy.WidthInBytes, what.stream);
    copy.Height = std::max<size_t>(copy.Height, 1);
    copy.Depth = std::max<size_t>(copy.Depth, 1);
    return WL_DRIVER(call, cuMemcpy3DAsync_v2)(&copy, what.stream);
}

CUresult hook_server_wlCopyOnDevice(ServerCall& call, const WlCopyOnDeviceArgs& args) {
    Copy3d what;
    WL_CUDA(read_copy(call, args, what));
    WL_CUDA(check_source(call, what.copy));
    WL_CUDA(check_target(call, what.copy));
    WL_CUDA(find_reach(call, what.copy));
    return run_copy(call, what);
}

CUresult hook_server_wlCopyFromDevice(ServerCall& call, const WlCopyFromDeviceArgs& args) {
    Copy3d what;
    WL_CUDA(read_copy(call, args, what));
    WL_CUDA(check_source(call, what.copy));
    if (what.packed_bytes == 0) return CUDA_SUCCESS;
    if (!call.reserve_reply_payload(what.packed_bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    give_to_host(what, call.reply_payload().data());
    call.release_order();
    CUresult result = run_host_copy(call, what);
    if (result == CUDA_SUCCESS && what.async) result = WL_DRIVER(call, cuStreamSynchronize)(what.stream);
    if (result != CUDA_SUCCESS) call.drop_reply_payload();
    return result;
}

CUresult hook_server_wlCopyFromDeviceAsync(ServerCall& call, const WlCopyFromDeviceAsyncArgs& args) {
    Copy3d what;
    WL_CUDA(read_copy(call, args, what));
    WL_CUDA(check_source(call, what.copy));
    if (args.bytes != what.packed_bytes) return CUDA_ERROR_INVALID_VALUE;
    what.async = true;
    return copy_back_in_stream(call, what.stream, what.packed_bytes, [&](void* target) {
        give_to_host(what, target);
        return run_host_copy(call, what);
    });
}

}  // namespace warpline::server
