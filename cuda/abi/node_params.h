// The parameters of a node of whatever type, of those that the functions for each type tell.
#pragma once

#include <cstring>

#include "cuda/abi/cuda_types.h"

namespace warpline::cuda::abi {

/// The answer of cuGraphNodeGetParams.
///
/// @param type  of the node
/// @param of    has a function for each type that tells its parameters as the type's own call does
/// @errors      what those give; not supported: conditional nodes and semaphores
template <typename Functions>
CUresult gather_node_params(CUgraphNodeType type, Functions&& of, CUgraphNodeParams& out) {
    out = {};
    out.type = type;
    switch (type) {
        case CU_GRAPH_NODE_TYPE_KERNEL: {
            CUDA_KERNEL_NODE_PARAMS kernel{};
            const CUresult result = of.kernel(kernel);
            std::memcpy(&out.kernel, &kernel, sizeof kernel);  // one layout under two names
            return result;
        }
        case CU_GRAPH_NODE_TYPE_MEMCPY: return of.copy(out.memcpy.copyParams, out.memcpy.copyCtx);
        case CU_GRAPH_NODE_TYPE_MEMSET: {
            CUDA_MEMSET_NODE_PARAMS fill{};
            const CUresult result = of.fill(fill, out.memset.ctx);
            out.memset.dst = fill.dst, out.memset.pitch = fill.pitch, out.memset.value = fill.value;
            out.memset.elementSize = fill.elementSize, out.memset.width = fill.width, out.memset.height = fill.height;
            return result;
        }
        case CU_GRAPH_NODE_TYPE_HOST: {
            CUDA_HOST_NODE_PARAMS host{};
            const CUresult result = of.host(host);
            out.host.fn = host.fn, out.host.userData = host.userData;
            return result;
        }
        case CU_GRAPH_NODE_TYPE_GRAPH: return of.child(out.graph);
        case CU_GRAPH_NODE_TYPE_EMPTY: return CUDA_SUCCESS;
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return of.wait(out.eventWait.event);
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return of.record(out.eventRecord.event);
        case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
            CUDA_MEM_ALLOC_NODE_PARAMS alloc{};
            const CUresult result = of.allocation(alloc);
            out.alloc.poolProps = alloc.poolProps, out.alloc.accessDescs = alloc.accessDescs;
            out.alloc.accessDescCount = alloc.accessDescCount;
            out.alloc.bytesize = alloc.bytesize, out.alloc.dptr = alloc.dptr;
            return result;
        }
        case CU_GRAPH_NODE_TYPE_MEM_FREE: return of.release(out.free.dptr);
        case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
            CUDA_BATCH_MEM_OP_NODE_PARAMS batch{};
            const CUresult result = of.batch(batch);
            out.memOp.ctx = batch.ctx, out.memOp.count = batch.count, out.memOp.paramArray = batch.paramArray;
            out.memOp.flags = batch.flags;
            return result;
        }
        case CU_GRAPH_NODE_TYPE_CONDITIONAL: return of.conditional(out.conditional);
        default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

}  // namespace warpline::cuda::abi
