// How a copy node's parameters travel.
#include "client/copy/copy_node.h"

#include "client/copy/program_memory.h"

namespace warpline::client {

CUresult CopyNode::read(Call& call, const CUDA_MEMCPY3D& from) {
    copy = from;
    auto settle = [&](CUmemorytype& type, CUdeviceptr address, CUarray& array, uint64_t& token, const void*& host) -> CUresult {
        if (type == CU_MEMORYTYPE_UNIFIED) {
            type = side_of(call.state, address) == Side::device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
            if (type == CU_MEMORYTYPE_HOST) host = reinterpret_cast<const void*>(address);
        }
        if (type != CU_MEMORYTYPE_ARRAY)
            return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_HOST ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        token = to_token(array);
        return check_handle<HandleKind::array>(call, token, false);
    };
    const void* target = copy.dstHost;
    CUresult refused = settle(copy.srcMemoryType, copy.srcDevice, copy.srcArray, source_array, copy.srcHost);
    if (refused == CUDA_SUCCESS) refused = settle(copy.dstMemoryType, copy.dstDevice, copy.dstArray, destination_array, target);
    if (refused != CUDA_SUCCESS) return refused;
    copy.dstHost = const_cast<void*>(target);
    if (copy.srcMemoryType == CU_MEMORYTYPE_HOST || copy.dstMemoryType == CU_MEMORYTYPE_HOST) {
        CopyPlan plan;
        if (refused = plan_copy(call, copy, plan); refused != CUDA_SUCCESS) return refused;
        if (plan.empty()) return CUDA_ERROR_INVALID_VALUE;
        if (plan.from_host && plan.to_host)
            return WL_REFUSE_CALL("cuGraphAddMemcpyNode", "a copy within host memory in a graph");
        host = HostEndOfCopy(call, copy, plan);
    }
    copy.srcHost = nullptr;
    copy.dstHost = nullptr;
    copy.srcArray = nullptr;
    copy.dstArray = nullptr;
    return CUDA_SUCCESS;
}

}  // namespace warpline::client
