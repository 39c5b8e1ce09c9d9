// Copies with rows, layers, arrays or two contexts: the internal calls wlCopy….
#include <algorithm>
#include <utility>

#include "cuda/abi/copy_forms.h"
#include "server/gen/internal_calls.gen.h"
#include "server/hooks/common.h"
#include "server/hooks/graph_params.h"
#include "server/hooks/host_transfer.h"
#include "server/hooks/reach.h"
#include "server/session/regions.h"

namespace warpline::server {

namespace {

/// One copy, with everything looked up.
struct Copy3d {
    CUDA_MEMCPY3D_PEER copy{};
    CUstream stream = nullptr;
    bool async = false;
    Extent extent;  ///< rows and layers, without the gaps between them
};

/// Gives numbers that have no meaning, because there is one row or one layer, values that no driver stumbles over. (A graph's
/// node keeps them: the program can ask for them.)
void tidy(const CopySide& side, const CUDA_MEMCPY3D_PEER& copy) {
    if (side.type != CU_MEMORYTYPE_DEVICE || side.z > 0 || copy.Depth > 1) return;
    side.height = side.y + copy.Height;
    if (side.y == 0 && copy.Height == 1) side.pitch = side.x + copy.WidthInBytes;
}

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
    // A copy of one row or one layer says 0 or 1, as the client's own call did; drivers differ in what they make of 0. From
    // here on the numbers are those that were checked.
    if (!settle(out.copy)) return CUDA_ERROR_INVALID_VALUE;
    out.copy.Height = std::max<size_t>(out.copy.Height, 1);
    out.copy.Depth = std::max<size_t>(out.copy.Depth, 1);
    tidy(source_side(out.copy), out.copy);
    tidy(target_side(out.copy), out.copy);
    const Checked bytes = Checked(out.copy.WidthInBytes) * out.copy.Height * out.copy.Depth;
    if (!bytes.at_most(INT64_MAX)) return CUDA_ERROR_INVALID_VALUE;
    out.extent = {out.copy.WidthInBytes, out.copy.Height, out.copy.Depth};
    return CUDA_SUCCESS;
}

bool is_on_device(CUmemorytype type) { return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_ARRAY; }

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

/// A copy within one context is no copy between two: those cannot be captured, and a captured stream is broken by one.
bool is_between_contexts(ServerCall& call, const CUDA_MEMCPY3D_PEER& copy) {
    // Also where what a green context was converted to is current: memory is its primary context's.
    const CUcontext here = Contexts::current_base(call.driver());
    const auto is_other = [here](CUcontext context) { return context != nullptr && context != here; };
    return is_other(copy.srcContext) || is_other(copy.dstContext);
}

CUresult run_copy(ServerCall& call, const Copy3d& what) {
    const CUDA_MEMCPY3D_PEER& copy = what.copy;
    if (is_between_contexts(call, copy)) {
        if (what.async) return WL_DRIVER(call, cuMemcpy3DPeerAsync)(&copy, what.stream);
        return WL_DRIVER(call, cuMemcpy3DPeer)(&copy);
    }
    const CUDA_MEMCPY3D plain = cuda::abi::without_contexts(copy);
    if (what.async) return WL_DRIVER(call, cuMemcpy3DAsync_v2)(&plain, what.stream);
    return WL_DRIVER(call, cuMemcpy3D_v2)(&plain);
}

/// A copy between the worker's memory and a device, which may be another one than the current context's.
CUresult run_host_copy(ServerCall& call, Copy3d what) {
    CUdevice owner = 0;
    const uint64_t address = address_of(what.copy);
    if (!is_out_of_reach(call, address, owner)) return run_copy(call, what);
    what.copy.srcContext = what.copy.dstContext = nullptr;
    return copy_in_reach(call, address, what.stream, [&](CUstream stream) {
        what.stream = stream;
        return run_copy(call, what);
    });
}

/// The part of the copy that has the piece.
Copy3d part_of(Copy3d what, const Piece& piece) {
    CUDA_MEMCPY3D_PEER& copy = what.copy;
    copy.srcXInBytes += piece.x_bytes, copy.srcY += piece.row, copy.srcZ += piece.layer;
    copy.dstXInBytes += piece.x_bytes, copy.dstY += piece.row, copy.dstZ += piece.layer;
    copy.WidthInBytes = piece.extent.row_bytes, copy.Height = piece.extent.rows, copy.Depth = piece.extent.layers;
    return what;
}

CUresult copy_piece_from_host(ServerCall& call, const Copy3d& what, const void* source, const Piece& piece) {
    Copy3d part = part_of(what, piece);
    CUDA_MEMCPY3D_PEER& copy = part.copy;
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = source;
    copy.srcXInBytes = copy.srcY = copy.srcZ = copy.srcLOD = 0;
    copy.srcPitch = copy.WidthInBytes;
    copy.srcHeight = copy.Height;
    return run_host_copy(call, part);
}

CUresult copy_piece_to_host(ServerCall& call, const Copy3d& what, void* target, const Piece& piece) {
    Copy3d part = part_of(what, piece);
    CUDA_MEMCPY3D_PEER& copy = part.copy;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = target;
    copy.dstXInBytes = copy.dstY = copy.dstZ = copy.dstLOD = 0;
    copy.dstPitch = copy.WidthInBytes;
    copy.dstHeight = copy.Height;
    return run_host_copy(call, part);
}

/// A copy from or to staging memory, in a stream that is being captured.
CUresult capture_copy(ServerCall& call, CUDA_MEMCPY3D copy, bool to_device, CUstream stream) {
    const bool linear = copy.Height <= 1 && copy.Depth <= 1 && copy.srcArray == nullptr && copy.dstArray == nullptr;
    if (!linear) return WL_DRIVER(call, cuMemcpy3DAsync_v2)(&copy, stream);
    const auto address_of = [&](const CopySide& side) { return region_of(side, copy.WidthInBytes, 1, 1).address.value(); };
    if (to_device)
        return WL_DRIVER(call, cuMemcpyHtoDAsync_v2)(address_of(target_side(copy)), copy.srcHost, copy.WidthInBytes, stream);
    return WL_DRIVER(call, cuMemcpyDtoHAsync_v2)(copy.dstHost, address_of(source_side(copy)), copy.WidthInBytes, stream);
}

}  // namespace

CUresult hook_server_wlCopyToDevice(ServerCall& call, const WlCopyToDeviceArgs& args) {
    Copy3d what;
    WL_CUDA(read_copy(call, args, what));
    if (!is_on_device(what.copy.dstMemoryType)) return CUDA_ERROR_INVALID_VALUE;
    if (call.payload_bytes() != what.extent.total_bytes()) return CUDA_ERROR_INVALID_VALUE;
    const bool waits = !std::exchange(what.async, true);
    if (waits && call.wants_reply()) call.release_order();
    return send_pieces(call, what.stream, waits ? Until::arrived : Until::queued, what.extent,
                       [&](const void* source, const Piece& piece) { return copy_piece_from_host(call, what, source, piece); });
}

CUresult hook_server_wlCopyToDeviceLate(ServerCall& call, const WlCopyToDeviceLateArgs& args) {
    Copy3d what;
    WL_CUDA(read_copy(call, args, what));
    what.async = true;
    const uint64_t bytes = what.extent.total_bytes();
    if (!is_on_device(what.copy.dstMemoryType) || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    Session& session = call.session();
    if (bytes > session.options().max_staging_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    if (is_capturing(call, what.stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return session.late_reads().run(call.number(), args.source, bytes, what.stream, [&](const void* source) {
        return copy_piece_from_host(call, what, source, {.extent = what.extent});
    });
}

CUresult hook_server_wlCaptureCopy(ServerCall& call, const WlCaptureCopyArgs& args) {
    Copy3d what;
    WL_CUDA(read_copy(call, args, what));
    CUgraph graph = nullptr;
    if (!is_capturing(call, what.stream)) return CUDA_ERROR_ILLEGAL_STATE;
    WL_CUDA(captured_graph(call, what.stream, graph));
    CUDA_MEMCPY3D copy = cuda::abi::without_contexts(what.copy);
    HostCopyPtr host;
    WL_CUDA(place_host_end(call, {args.source, args.clientAddress, args.clientBytes, {}}, copy, host));
    if (host == nullptr) return CUDA_ERROR_INVALID_VALUE;
    WL_CUDA(capture_copy(call, copy, host->source != 0, what.stream));
    call.session().graph_copies().keep(graph, nullptr, std::move(host));
    return CUDA_SUCCESS;
}

CUresult hook_server_wlCopyOnDevice(ServerCall& call, const WlCopyOnDeviceArgs& args) {
    Copy3d what;
    WL_CUDA(read_copy(call, args, what));
    if (!is_on_device(what.copy.srcMemoryType) || !is_on_device(what.copy.dstMemoryType)) return CUDA_ERROR_INVALID_VALUE;
    WL_CUDA(find_reach(call, what.copy));
    return run_copy(call, what);
}

CUresult hook_server_wlCopyFromDevice(ServerCall& call, const WlCopyFromDeviceArgs& args) {
    Copy3d what;
    WL_CUDA(read_copy(call, args, what));
    if (!is_on_device(what.copy.srcMemoryType)) return CUDA_ERROR_INVALID_VALUE;
    if (what.extent.total_bytes() == 0) return CUDA_SUCCESS;
    what.async = true;
    call.release_order();
    return reply_from_device(call, what.stream, what.extent,
                             [&](void* target, const Piece& piece) { return copy_piece_to_host(call, what, target, piece); });
}

CUresult hook_server_wlCopyFromDeviceAsync(ServerCall& call, const WlCopyFromDeviceAsyncArgs& args) {
    Copy3d what;
    WL_CUDA(read_copy(call, args, what));
    if (!is_on_device(what.copy.srcMemoryType)) return CUDA_ERROR_INVALID_VALUE;
    if (args.bytes != what.extent.total_bytes()) return CUDA_ERROR_INVALID_VALUE;
    what.async = true;
    return copy_back_in_stream(call, what.stream, what.extent,
                               [&](void* target, const Piece& piece) { return copy_piece_to_host(call, what, target, piece); });
}

}  // namespace warpline::server
