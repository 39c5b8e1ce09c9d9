// What is checked of kernels and fills that are to be nodes, and how a host node's function gets its number.
#include "client/graph/node_params.h"

namespace warpline::client {

CUresult KernelNode::read(Call& call, const CUDA_KERNEL_NODE_PARAMS& from) {
    shape = {from.gridDimX, from.gridDimY, from.gridDimZ, from.blockDimX, from.blockDimY, from.blockDimZ, from.sharedMemBytes};
    const bool named_twice = from.kern && to_token(from.kern) == to_token(from.func);
    if (from.func && !named_twice) return read(call, to_token(from.func), from.kernelParams, from.extra);
    // A kernel runs in the context that is named; a function has one of its own.
    if (CUresult refused = work_in(call, from.ctx); refused != CUDA_SUCCESS) return refused;
    return read(call, to_token(from.kern), from.kernelParams, from.extra);
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
    if (CUresult refused = map_host_pointers(call, params.params(), params.sizes()); refused != CUDA_SUCCESS) return refused;
    function = token;
    return ensure_announced(call, token, *found);
}

CUresult check_fill(Call& call, const CUDA_MEMSET_NODE_PARAMS& params, CUcontext context) {
    if (context && !call.state.contexts.find(to_token(context))) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return map_host_pointers(call, as_bytes(&params.dst, sizeof params.dst));
}

uint64_t register_host_node(Call& call, CUhostFn function, void* user_data) {
    auto run = [&session = call.session, &state = call.state, context = call.context, function, user_data](CUresult) {
        run_between_kernels(session, state, context, std::nullopt, [&] { function(user_data); });
    };
    const uint64_t id = call.session.host_calls().add(run, HostCalls::Life::persistent);
    call.state.graph_ends.add_function(id, {function, user_data});
    return id;
}

}  // namespace warpline::client
