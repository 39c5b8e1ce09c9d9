#include "client/hooks/graph_params.h"

namespace warpline::client {

CUresult KernelNode::read(Call& call, const CUDA_KERNEL_NODE_PARAMS& from) {
    shape = {from.gridDimX, from.gridDimY, from.gridDimZ, from.blockDimX, from.blockDimY, from.blockDimZ, from.sharedMemBytes};
    uint64_t token = from.func ? to_token(from.func) : to_token(from.kern);
    return read(call, token, from.kernelParams, from.extra);
}

CUresult KernelNode::read(Call& call, const CUDA_KERNEL_NODE_PARAMS_v1& from) {
    shape = {from.gridDimX, from.gridDimY, from.gridDimZ, from.blockDimX, from.blockDimY, from.blockDimZ, from.sharedMemBytes};
    return read(call, to_token(from.func), from.kernelParams, from.extra);
}

CUresult KernelNode::read(Call& call, uint64_t token, void** kernel_params, void** extra) {
    Function* found = call.state.functions.find(token);
    if (!found) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult refused = check_shape(*find_device(call.device()), *found, shape); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = params.read(*found, kernel_params, extra); refused != CUDA_SUCCESS) return refused;
    function = token;
    return ensure_announced(call, token, *found);
}

CUresult CopyNode::read(Call& call, const CUDA_MEMCPY3D& from) {
    copy = from;
    auto settle = [&](CUmemorytype& type, CUdeviceptr address, CUarray& array, uint64_t& token) -> CUresult {
        if (type == CU_MEMORYTYPE_UNIFIED)
            type = side_of(call.state, address) == Side::device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        if (type == CU_MEMORYTYPE_HOST)
            return WL_REFUSE_CALL("cuGraphAddMemcpyNode", "copies from and to host memory in graphs");
        if (type != CU_MEMORYTYPE_ARRAY) return type == CU_MEMORYTYPE_DEVICE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        token = to_token(array);
        array = nullptr;
        return check_handle<HandleKind::array>(call, token, false);
    };
    if (CUresult refused = settle(copy.srcMemoryType, copy.srcDevice, copy.srcArray, source_array); refused != CUDA_SUCCESS)
        return refused;
    if (CUresult refused = settle(copy.dstMemoryType, copy.dstDevice, copy.dstArray, destination_array);
        refused != CUDA_SUCCESS) {
        return refused;
    }
    copy.srcHost = nullptr;
    copy.dstHost = nullptr;
    return CUDA_SUCCESS;
}

uint64_t register_host_node(Call& call, CUhostFn function, void* user_data) {
    return call.session.host_calls().add([function, user_data](CUresult) { function(user_data); }, HostCalls::Life::persistent);
}

}  // namespace warpline::client
