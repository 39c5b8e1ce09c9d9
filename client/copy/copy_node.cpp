// How a copy node's parameters travel.
#include "client/copy/copy_node.h"

#include "client/copy/program_memory.h"

namespace warpline::client {

CUresult CopyNode::settle(Call& call, CopyEnd::Which which, uint64_t graph, uint64_t& token) {
    CopyEnd end = end_of(copy, which);
    if (end.type == CU_MEMORYTYPE_UNIFIED) {
        end.type = side_of(call.state, end.device) == Side::device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        if (end.type == CU_MEMORYTYPE_HOST) end.host = reinterpret_cast<const void*>(end.device);
    }
    const Use use = which == CopyEnd::Which::source ? Use::read : Use::write;
    if (end.type == CU_MEMORYTYPE_HOST) share_with_body(call, graph, end.host, 1);
    use_on_device(call.state, end, use, copy.WidthInBytes, copy.Height, copy.Depth);
    put_end(copy, which, end);
    if (end.type != CU_MEMORYTYPE_ARRAY)
        return end.type == CU_MEMORYTYPE_DEVICE || end.type == CU_MEMORYTYPE_HOST ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    token = to_token(end.array);
    return check_handle<HandleKind::array>(call, token, false);
}

CUresult CopyNode::read(Call& call, const CUDA_MEMCPY3D& from, uint64_t graph) {
    copy = from;
    CUresult refused = settle(call, CopyEnd::Which::source, graph, source_array);
    if (refused == CUDA_SUCCESS) refused = settle(call, CopyEnd::Which::destination, graph, destination_array);
    if (refused != CUDA_SUCCESS) return refused;
    if (copy.srcMemoryType == CU_MEMORYTYPE_HOST || copy.dstMemoryType == CU_MEMORYTYPE_HOST) {
        CopyPlan plan;
        if (refused = plan_copy(call, copy, plan); refused != CUDA_SUCCESS) return refused;
        if (plan.empty()) return CUDA_ERROR_INVALID_VALUE;
        if (plan.source.is_host && plan.destination.is_host) {
            on_host = std::move(plan);
            return CUDA_SUCCESS;
        }
        const auto which = plan.source.is_host ? CopyEnd::Which::source : CopyEnd::Which::destination;
        host = HostEndOfCopy(end_of(copy, which), plan);
    }
    // Only the server's own handles and addresses travel.
    for (auto which : {CopyEnd::Which::source, CopyEnd::Which::destination}) {
        CopyEnd end = end_of(copy, which);
        end.host = nullptr;
        end.array = nullptr;
        put_end(copy, which, end);
    }
    host.tell_rows(copy);
    return CUDA_SUCCESS;
}

}  // namespace warpline::client
