// Plain copies between the client's memory and a device's.
#include "server/gen/copy_calls.gen.h"
#include "server/hooks/common.h"
#include "server/hooks/host_transfer.h"
#include "server/hooks/reach.h"

namespace warpline::server {

namespace {

/// Of the context that is current: what synchronous copies come behind.
constexpr CUstream k_legacy_stream = nullptr;

CUresult send_linear(ServerCall& call, CUdeviceptr target, CUstream stream, Until until) {
    const auto copy = WL_DRIVER(call, cuMemcpyHtoDAsync_v2);
    return send_to_device(call, stream, until, [&](const void* source, uint64_t offset, uint64_t bytes) {
        return copy_in_reach(call, target, stream, [&](CUstream in) { return copy(target + offset, source, bytes, in); });
    });
}

}  // namespace

CUresult hook_server_cuMemcpyHtoD_v2(ServerCall& call, const CuMemcpyHtoDV2Args& args) {
    if (call.payload_bytes() != args.byteCount) return CUDA_ERROR_INVALID_VALUE;
    if (waits_for_nothing(call, args.dstDevice, args.byteCount)) {
        const auto copy = WL_DRIVER(call, cuMemcpyHtoD_v2);
        const auto payload = call.whole_payload();
        if (!payload.ok()) return result_of(payload.error());
        return copy(args.dstDevice, payload->data(), args.byteCount);
    }
    // The client waits where another thread of the program could be what the device waits for.
    if (call.wants_reply()) call.release_order();
    return send_linear(call, args.dstDevice, k_legacy_stream, Until::arrived);
}

CUresult hook_server_cuMemcpyHtoDAsync_v2(ServerCall& call, const CuMemcpyHtoDAsyncV2Args& args) {
    const auto stream = WL_FIND(call, CUstream, stream, args.hStream);
    if (call.payload_bytes() != args.byteCount) return CUDA_ERROR_INVALID_VALUE;
    return send_linear(call, args.dstDevice, stream, Until::queued);
}

CUresult hook_server_cuMemcpyDtoH_v2(ServerCall& call, const CuMemcpyDtoHV2Args& args) {
    const auto copy = WL_DRIVER(call, cuMemcpyDtoHAsync_v2);
    if (args.byteCount == 0) return CUDA_SUCCESS;
    if (waits_for_nothing(call, args.srcDevice, args.byteCount)) {
        const auto copy_now = WL_DRIVER(call, cuMemcpyDtoH_v2);
        if (!call.reserve_reply_payload(args.byteCount)) return CUDA_ERROR_OUT_OF_MEMORY;
        const CUresult result = copy_now(call.reply_payload().data(), args.srcDevice, args.byteCount);
        if (result != CUDA_SUCCESS) call.drop_reply_payload();
        return result;
    }
    call.release_order();
    return wait_in_reach(call, args.srcDevice, [&] {
        return reply_from_device(call, k_legacy_stream, {args.byteCount}, [&](void* target, const Piece& piece) {
            return copy(target, args.srcDevice + piece.offset, piece.bytes(), k_legacy_stream);
        });
    });
}

CUresult hook_server_cuMemcpyDtoHAsync_v2(ServerCall& call, const CuMemcpyDtoHAsyncV2Args& args) {
    const auto copy = WL_DRIVER(call, cuMemcpyDtoHAsync_v2);
    const auto stream = WL_FIND(call, CUstream, stream, args.hStream);
    return copy_back_in_stream(call, stream, {args.byteCount}, [&](void* target, const Piece& piece) {
        return copy_in_reach(call, args.srcDevice, stream,
                             [&](CUstream in) { return copy(target, args.srcDevice + piece.offset, piece.bytes(), in); });
    });
}

namespace {

/// The two ends of a copy within devices, if they are of different ones that may not access each other's memory.
struct TwoDevices {
    CUcontext source = nullptr;
    CUcontext target = nullptr;
};
bool are_apart(ServerCall& call, uint64_t target, uint64_t source) {
    CUdevice owner = 0;
    return is_out_of_reach(call, target, owner) || is_out_of_reach(call, source, owner);
}
CUresult find_contexts(ServerCall& call, uint64_t target, uint64_t source, TwoDevices& contexts) {
    WL_CUDA(context_for(call, target, contexts.target));
    return context_for(call, source, contexts.source);
}

}  // namespace

CUresult hook_server_cuMemcpyDtoD_v2(ServerCall& call, const CuMemcpyDtoDV2Args& args) {
    if (!are_apart(call, args.dstDevice, args.srcDevice))
        return WL_DRIVER(call, cuMemcpyDtoD_v2)(args.dstDevice, args.srcDevice, args.byteCount);
    const auto copy = WL_DRIVER(call, cuMemcpyPeer);
    TwoDevices contexts;
    WL_CUDA(find_contexts(call, args.dstDevice, args.srcDevice, contexts));
    return copy(args.dstDevice, contexts.target, args.srcDevice, contexts.source, args.byteCount);
}

CUresult hook_server_cuMemcpyDtoDAsync_v2(ServerCall& call, const CuMemcpyDtoDAsyncV2Args& args) {
    const auto stream = WL_FIND(call, CUstream, stream, args.hStream);
    if (!are_apart(call, args.dstDevice, args.srcDevice))
        return WL_DRIVER(call, cuMemcpyDtoDAsync_v2)(args.dstDevice, args.srcDevice, args.byteCount, stream);
    const auto copy = WL_DRIVER(call, cuMemcpyPeerAsync);
    TwoDevices contexts;
    WL_CUDA(find_contexts(call, args.dstDevice, args.srcDevice, contexts));
    return copy(args.dstDevice, contexts.target, args.srcDevice, contexts.source, args.byteCount, stream);
}

}  // namespace warpline::server
