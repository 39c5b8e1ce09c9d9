#include "server/gen/copy_calls.gen.h"
#include "server/hooks/common.h"
#include "server/hooks/host_transfer.h"

namespace warpline::server {

CUresult hook_server_cuMemcpyHtoD_v2(ServerCall& call, const CuMemcpyHtoDV2Args& args) {
    const auto copy = WL_DRIVER(call, cuMemcpyHtoD_v2);
    if (call.payload_bytes() != args.byteCount) return CUDA_ERROR_INVALID_VALUE;
    for (uint64_t offset = 0;;) {
        const auto part = call.next_part();
        if (!part.ok()) return result_of(part.error());
        if (part->empty()) return CUDA_SUCCESS;
        WL_CUDA(copy(args.dstDevice + offset, part->data(), part->size()));
        offset += part->size();
    }
}

CUresult hook_server_cuMemcpyHtoDAsync_v2(ServerCall& call, const CuMemcpyHtoDAsyncV2Args& args) {
    const auto copy = WL_DRIVER(call, cuMemcpyHtoDAsync_v2);
    const auto stream = WL_FIND(call, CUstream, stream, args.hStream);
    if (call.payload_bytes() != args.byteCount) return CUDA_ERROR_INVALID_VALUE;
    return send_to_device(call, stream, [&](const void* source, uint64_t offset, uint64_t bytes) {
        return copy(args.dstDevice + offset, source, bytes, stream);
    });
}

CUresult hook_server_cuMemcpyDtoH_v2(ServerCall& call, const CuMemcpyDtoHV2Args& args) {
    const auto copy = WL_DRIVER(call, cuMemcpyDtoH_v2);
    if (args.byteCount == 0) return CUDA_SUCCESS;
    call.release_order();
    return reply_from_device(call, args.byteCount, [&](void* target, uint64_t offset, uint64_t bytes) {
        return copy(target, args.srcDevice + offset, bytes);
    });
}

CUresult hook_server_cuMemcpyDtoHAsync_v2(ServerCall& call, const CuMemcpyDtoHAsyncV2Args& args) {
    const auto copy = WL_DRIVER(call, cuMemcpyDtoHAsync_v2);
    const auto stream = WL_FIND(call, CUstream, stream, args.hStream);
    return copy_back_in_stream(call, stream, args.byteCount,
                               [&](void* target) { return copy(target, args.srcDevice, args.byteCount, stream); });
}

}  // namespace warpline::server
