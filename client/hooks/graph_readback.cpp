// What nodes of graphs were made of: the server's driver knows, also of nodes that capture has made, and this side translates
// back what is the program's.
#include <cstring>

#include "client/gen/graph_node_calls.gen.h"
#include "client/hooks/graph_params.h"
#include "client/hooks/graph_tokens.h"

namespace warpline::client {

namespace {

/// Lays a kernel node's parameters out where the program may read them until the next question about the node.
CUresult keep_params(GraphNode& node, const Bytes& values, const Bytes& sizes, void**& pointers) {
    constexpr size_t k_alignment = 16;
    const size_t count = sizes.size() / sizeof(uint32_t);
    MutexLock lock(node.mutex);
    node.params.assign(values.size() + (count + 1) * k_alignment, std::byte{});
    node.pointers.clear();
    const auto begin = reinterpret_cast<uintptr_t>(node.params.data());
    size_t place = (begin + k_alignment - 1) / k_alignment * k_alignment - begin;
    size_t offset = 0;
    for (size_t i = 0; i < count; ++i) {
        uint32_t size = 0;
        std::memcpy(&size, sizes.data() + i * sizeof size, sizeof size);
        if (size > values.size() - offset) return CUDA_ERROR_UNKNOWN;
        if (size != 0) std::memcpy(node.params.data() + place, values.data() + offset, size);
        node.pointers.push_back(node.params.data() + place);
        offset += size;
        place += (size + k_alignment - 1) / k_alignment * k_alignment;
    }
    pointers = node.pointers.empty() ? nullptr : node.pointers.data();
    return CUDA_SUCCESS;
}

void describe(const GraphEnd& end, CUDA_MEMCPY3D& copy, bool source) {
    if (source) {
        copy.srcMemoryType = CU_MEMORYTYPE_HOST;
        copy.srcHost = end.host;
        copy.srcXInBytes = end.x, copy.srcY = end.y, copy.srcZ = end.z, copy.srcPitch = end.pitch, copy.srcHeight = end.height;
    } else {
        copy.dstMemoryType = CU_MEMORYTYPE_HOST;
        copy.dstHost = const_cast<void*>(end.host);
        copy.dstXInBytes = end.x, copy.dstY = end.y, copy.dstZ = end.z, copy.dstPitch = end.pitch, copy.dstHeight = end.height;
    }
}

}  // namespace

CUresult hook_client_cuGraphKernelNodeGetParams_v2(Call& call, CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS* nodeParams) {
    GraphNode* node = call.state.graph_nodes.find(to_token(hNode));
    if (!node) return CUDA_ERROR_INVALID_VALUE;
    gen::CuGraphKernelNodeGetParamsV2Values answer;
    CUresult result = gen::request_cuGraphKernelNodeGetParams_v2(call, to_token(hNode), answer);
    if (result != CUDA_SUCCESS) return result;
    const Function* function = call.state.functions.find(answer.f);
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    CUDA_KERNEL_NODE_PARAMS params{};
    // Kernels of libraries and functions of modules have one kind of token.
    if (function->code && function->code->library) {
        params.kern = to_handle<CUkernel>(answer.f);
    } else {
        params.func = to_handle<CUfunction>(answer.f);
    }
    params.gridDimX = answer.gridX, params.gridDimY = answer.gridY, params.gridDimZ = answer.gridZ;
    params.blockDimX = answer.blockX, params.blockDimY = answer.blockY, params.blockDimZ = answer.blockZ;
    params.sharedMemBytes = answer.sharedMemBytes;
    result = keep_params(*node, answer.params, answer.sizes, params.kernelParams);
    if (result == CUDA_SUCCESS) *nodeParams = params;
    return result;
}

CUresult hook_client_cuGraphKernelNodeGetParams(Call& call, CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
    CUDA_KERNEL_NODE_PARAMS params{};
    const CUresult result = hook_client_cuGraphKernelNodeGetParams_v2(call, hNode, &params);
    if (result != CUDA_SUCCESS) return result;
    if (!params.func) params.func = reinterpret_cast<CUfunction>(params.kern);
    std::memcpy(nodeParams, &params, sizeof *nodeParams);  // the newer form only adds fields at the end
    return CUDA_SUCCESS;
}

CUresult hook_client_cuGraphMemcpyNodeGetParams(Call& call, CUgraphNode hNode, CUDA_MEMCPY3D* nodeParams) {
    if (CUresult refused = check_nodes(call, &hNode, 1); refused != CUDA_SUCCESS) return refused;
    gen::CuGraphMemcpyNodeGetParamsValues answer;
    const CUresult result = gen::request_cuGraphMemcpyNodeGetParams(call, to_token(hNode), answer);
    if (result != CUDA_SUCCESS) return result;
    CUDA_MEMCPY3D copy{};
    copy_struct(&copy, answer.copy);
    copy.srcArray = to_handle<CUarray>(answer.srcArray);
    copy.dstArray = to_handle<CUarray>(answer.dstArray);
    if (answer.source != 0) {
        const auto end = call.state.graph_ends.source(answer.source);
        if (!end) return CUDA_ERROR_UNKNOWN;
        describe(*end, copy, true);
    }
    if (answer.target != 0) {
        const auto end = call.state.graph_ends.target(answer.target);
        if (!end) return CUDA_ERROR_UNKNOWN;
        describe(*end, copy, false);
    }
    *nodeParams = copy;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuGraphHostNodeGetParams(Call& call, CUgraphNode hNode, CUDA_HOST_NODE_PARAMS* nodeParams) {
    if (CUresult refused = check_nodes(call, &hNode, 1); refused != CUDA_SUCCESS) return refused;
    gen::CuGraphHostNodeGetParamsValues answer;
    const CUresult result = gen::request_cuGraphHostNodeGetParams(call, to_token(hNode), answer);
    if (result != CUDA_SUCCESS) return result;
    const auto function = call.state.graph_ends.function(answer.id);
    if (!function) return CUDA_ERROR_UNKNOWN;
    *nodeParams = {function->first, function->second};
    return CUDA_SUCCESS;
}

}  // namespace warpline::client
