// Where a copy node finds the client's end of the copy.
#include "server/hooks/graph_params.h"

#include <algorithm>

#include "server/session/regions.h"

namespace warpline::server {

CUresult place_host_end(ServerCall& call, const GraphCopies::ClientSide& client, CUDA_MEMCPY3D& copy, HostCopyPtr& host) {
    const auto on_device = [](CUmemorytype type) { return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_ARRAY; };
    const bool from_host = copy.srcMemoryType == CU_MEMORYTYPE_HOST;
    const bool to_host = copy.dstMemoryType == CU_MEMORYTYPE_HOST;
    if (!from_host && !on_device(copy.srcMemoryType)) return CUDA_ERROR_INVALID_VALUE;
    if (!to_host && !on_device(copy.dstMemoryType)) return CUDA_ERROR_INVALID_VALUE;
    if ((from_host && to_host) || from_host != (client.source != 0)) return CUDA_ERROR_INVALID_VALUE;
    if (!settle(copy)) return CUDA_ERROR_INVALID_VALUE;
    copy.srcHost = nullptr;
    copy.dstHost = nullptr;
    copy.reserved0 = nullptr;
    copy.reserved1 = nullptr;
    if (!from_host && !to_host) return CUDA_SUCCESS;
    const Checked bytes = Checked(copy.WidthInBytes) * std::max<uint64_t>(copy.Height, 1) * std::max<uint64_t>(copy.Depth, 1);
    if (bytes.is_zero() || !bytes.at_most(call.session().options().max_whole_payload_bytes)) return CUDA_ERROR_INVALID_VALUE;
    GraphCopies::ClientSide settled = client;
    settled.rows = region_of(from_host ? source_side(copy) : target_side(copy), copy.WidthInBytes,
                             std::max<uint64_t>(copy.Height, 1), std::max<uint64_t>(copy.Depth, 1));
    settled.rows.address = client.address;
    host = call.session().graph_copies().make(call.number(), settled, bytes.value());
    if (host == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    if (from_host) {
        copy.srcHost = host->staging->data;
        copy.srcXInBytes = copy.srcY = copy.srcZ = copy.srcLOD = 0;
        copy.srcPitch = copy.WidthInBytes;
        copy.srcHeight = std::max<uint64_t>(copy.Height, 1);
    } else {
        copy.dstHost = host->staging->data;
        copy.dstXInBytes = copy.dstY = copy.dstZ = copy.dstLOD = 0;
        copy.dstPitch = copy.WidthInBytes;
        copy.dstHeight = std::max<uint64_t>(copy.Height, 1);
    }
    host->node = copy;
    return CUDA_SUCCESS;
}

CUgraph graph_of_node(ServerCall& call, uint64_t node) {
    const auto entry = call.session().handles().find(HandleKind::graph_node, node);
    CUgraph graph = nullptr;
    return entry && call.find(HandleKind::graph, entry->owner, graph) ? graph : nullptr;
}

}  // namespace warpline::server
