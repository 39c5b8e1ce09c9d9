// What nodes of executable graphs are to do from the next launch on.
#include <cstring>

#include "client/copy/copies_on_host.h"
#include "client/copy/copy_node.h"
#include "client/gen/graph_exec_params_calls.gen.h"
#include "client/gen/graph_node_params_calls.gen.h"
#include "client/graph/batch.h"
#include "client/graph/holds.h"
#include "client/graph/node_forms.h"
#include "client/graph/node_params.h"

namespace warpline::client {

namespace {

/// The same for a child graph of it.
void exchange_child(GraphExec& exec, GraphNode& node, const Graph& child) {
    UserReferencesPtr now, original;
    {
        MutexLock lock(exec.mutex);
        now = exec.references;
    }
    {
        MutexLock lock(node.mutex);
        if (!node.inner.empty()) original = node.inner.front();
    }
    UserReferencesPtr changed = now ? now->clone() : std::make_shared<UserReferences>();
    if (original) {
        changed->replace_inner(*original, child.references->clone());
    } else {
        changed->add_inner(child.references->clone());
    }
    exchange_references(exec, std::move(changed));
}

/// Of a node that copies within host memory. @blocks for a round trip, if capture or cloning has made the node
CUresult has_rows(Call& call, CUgraphNode node, bool& has_some) {
    const uint32_t kinds = call.state.graph_nodes.find(to_token(node))->copy_kinds.load();
    has_some = (kinds & CopyNode::k_in_rows) != 0;
    if (kinds != 0) return CUDA_SUCCESS;
    std::optional<CUDA_MEMCPY3D> told;
    const CUresult result = describe_host_copy(call, node, told);
    has_some = told.has_value() && !is_one_dimensional(*told);
    return result;
}

/// Whether an executable graph's copy of the program's memory, which is to have rows, stays as it is: nothing else is allowed
/// (DB-52). If the node has been changed it is not known what the executable graph has. @blocks for a round trip
CUresult check_unchanged(Call& call, CUgraphNode node, const CUDA_MEMCPY3D& wanted) {
    CUDA_MEMCPY3D made{};
    if (CUresult refused = hook_client_cuGraphMemcpyNodeGetParams(call, node, &made); refused != CUDA_SUCCESS) return refused;
    const bool is_known = !call.state.graph_nodes.find(to_token(node))->copy_changed.load();
    return is_known && is_same_copy(made, wanted) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult check_pair(const Call& call, CUgraphExec exec, CUgraphNode node) {
    if (!call.state.graph_execs.find(to_token(exec))) return CUDA_ERROR_INVALID_VALUE;
    return check_nodes(call, &node, 1);
}

/// True if the executable graph has the node for all that is known, so that nobody has to be asked. Else the driver says what
/// it thinks of it, and the program is to know.
bool has_node(const Call& call, CUgraphExec exec, CUgraphNode node) {
    const GraphExec& whole = *call.state.graph_execs.find(to_token(exec));
    const GraphNode& part = *call.state.graph_nodes.find(to_token(node));
    return part.graph == whole.source && part.made <= whole.made;
}
bool has_node(const Call& call, CUgraphExec exec, CUgraphNode node, CUgraphNodeType type) {
    const int known = call.state.graph_nodes.find(to_token(node))->type.load();
    return has_node(call, exec, node) && (known == type || known == GraphNode::k_unknown_type);
}

/// True if nothing is known that the driver could refuse to switch the node on and off for.
bool can_be_left_out(const Call& call, CUgraphExec exec, CUgraphNode node) {
    switch (call.state.graph_nodes.find(to_token(node))->type.load()) {
        case GraphNode::k_unknown_type:
        case CU_GRAPH_NODE_TYPE_KERNEL:
        case CU_GRAPH_NODE_TYPE_MEMCPY:
        case CU_GRAPH_NODE_TYPE_MEMSET: return has_node(call, exec, node);
        default: return false;
    }
}

/// The node calls another function here. @param id  by which the server knows it
CUresult set_callback(Call& call, CUgraphExec exec, CUgraphNode node, uint64_t id) {
    const UserObjectPtr end = make_end(call, EndKind::function, id);
    const auto set =
        has_node(call, exec, node) ? gen::issue_cuGraphExecHostNodeSetParams : gen::request_cuGraphExecHostNodeSetParams;
    const CUresult result = set(call, to_token(exec), to_token(node), id);
    if (result == CUDA_SUCCESS) {
        hold_in_exec(call, to_token(exec), to_token(node), end);
    } else {
        end->release(1);
    }
    return result;
}

}  // namespace

CUresult hook_client_cuGraphExecBatchMemOpNodeSetParams(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode,
                                                        const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
    if (!call.state.graph_execs.find(to_token(hGraphExec))) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult refused = check_nodes(call, &hNode, 1); refused != CUDA_SUCCESS) return refused;
    if (!nodeParams->ctx) return CUDA_ERROR_INVALID_VALUE;  // though there is a current one (DB-71)
    if (CUresult refused = check_batch(call, *nodeParams); refused != CUDA_SUCCESS) return refused;
    // Whether it is a batch of the same operations, which it has to be (DB-52), the driver knows.
    return gen::request_cuGraphExecBatchMemOpNodeSetParams(
        call, to_token(hGraphExec), to_token(hNode), context_of_batch(call, *nodeParams),
        array_bytes(nodeParams->paramArray, nodeParams->count), nodeParams->flags);
}

CUresult hook_client_cuGraphExecKernelNodeSetParams_v2(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode,
                                                       const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
    KernelNode kernel;
    if (CUresult refused = check_pair(call, hGraphExec, hNode); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = kernel.read(call, *nodeParams); refused != CUDA_SUCCESS) return refused;
    const LaunchShape& s = kernel.shape;
    const bool is_known = has_node(call, hGraphExec, hNode, CU_GRAPH_NODE_TYPE_KERNEL);
    const auto set = is_known ? gen::issue_cuGraphExecKernelNodeSetParams_v2 : gen::request_cuGraphExecKernelNodeSetParams_v2;
    return set(call, to_token(hGraphExec), to_token(hNode), kernel.function, s.grid_x, s.grid_y, s.grid_z, s.block_x, s.block_y,
               s.block_z, s.shared_bytes, kernel.params.params(), kernel.params.sizes());
}

CUresult hook_client_cuGraphExecKernelNodeSetParams(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode,
                                                    const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
    CUDA_KERNEL_NODE_PARAMS params{};
    std::memcpy(&params, nodeParams, sizeof *nodeParams);  // the newer form only adds fields at the end
    return hook_client_cuGraphExecKernelNodeSetParams_v2(call, hGraphExec, hNode, &params);
}

CUresult hook_client_cuGraphExecMemcpyNodeSetParams(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode,
                                                    const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
    CopyNode copy;
    if (CUresult refused = check_pair(call, hGraphExec, hNode); refused != CUDA_SUCCESS) return refused;
    GraphNode* const node = call.state.graph_nodes.find(to_token(hNode));
    if (CUresult refused = copy.read(call, *copyParams, node->graph); refused != CUDA_SUCCESS) return refused;
    bool on_host = false;
    if (CUresult refused = is_host_copy(call, hNode, on_host); refused != CUDA_SUCCESS) return refused;
    // An executable graph's copies go from where they went to where they went, and keep their rows, with CUDA as well (DB-52).
    if (on_host != copy.on_host.has_value()) return CUDA_ERROR_INVALID_VALUE;
    const bool in_rows = !is_one_dimensional(copy.copy);
    if (in_rows && (on_host || copy.host.exists())) return check_unchanged(call, hNode, *copyParams);
    if (on_host) {
        bool had_rows = false;
        if (CUresult refused = has_rows(call, hNode, had_rows); refused != CUDA_SUCCESS) return refused;
        if (had_rows) return CUDA_ERROR_INVALID_VALUE;
        const uint64_t context = ctx ? to_token(ctx) : call.context;
        if (!call.state.contexts.find(context)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        return set_callback(call, hGraphExec, hNode, register_host_copy(call, *copy.on_host, copy.copy, context));
    }
    // What it is said to become may be what CUDA does not allow: then the program is to know.
    const bool is_alike = !in_rows && copy.kinds() == node->copy_kinds.load() && has_node(call, hGraphExec, hNode);
    const auto set = is_alike ? gen::issue_cuGraphExecMemcpyNodeSetParams : gen::request_cuGraphExecMemcpyNodeSetParams;
    const CUresult result = copy.host.send(call, [&](uint64_t source, uint64_t address, uint64_t bytes) {
        return set(call, to_token(hGraphExec), to_token(hNode), copy.source_array, copy.destination_array,
                   struct_bytes(&copy.copy), ctx ? to_token(ctx) : call.context, source, address, bytes);
    });
    if (result == CUDA_SUCCESS) node->copy_kinds.store(copy.kinds());
    if (result != CUDA_SUCCESS || !copy.host.exists()) return result;
    hold_in_exec(call, to_token(hGraphExec), to_token(hNode), copy.host.held());
    return learn_copies(call, to_token(hGraphExec));
}

CUresult hook_client_cuGraphExecMemsetNodeSetParams(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode,
                                                    const CUDA_MEMSET_NODE_PARAMS* memsetParams, CUcontext ctx) {
    if (CUresult refused = check_pair(call, hGraphExec, hNode); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = check_fill(call, *memsetParams, ctx); refused != CUDA_SUCCESS) return refused;
    const bool is_known = has_node(call, hGraphExec, hNode, CU_GRAPH_NODE_TYPE_MEMSET);
    const auto set = is_known ? gen::issue_cuGraphExecMemsetNodeSetParams : gen::request_cuGraphExecMemsetNodeSetParams;
    return set(call, to_token(hGraphExec), to_token(hNode), struct_bytes(memsetParams), ctx ? to_token(ctx) : call.context);
}

CUresult hook_client_cuGraphExecHostNodeSetParams(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode,
                                                  const CUDA_HOST_NODE_PARAMS* nodeParams) {
    if (CUresult refused = check_pair(call, hGraphExec, hNode); refused != CUDA_SUCCESS) return refused;
    if (!nodeParams->fn) return CUDA_ERROR_INVALID_VALUE;
    bool is_copy = false;
    if (CUresult refused = is_host_copy(call, hNode, is_copy); refused != CUDA_SUCCESS) return refused;
    if (is_copy) return CUDA_ERROR_INVALID_VALUE;
    return set_callback(call, hGraphExec, hNode, register_host_node(call, nodeParams->fn, nodeParams->userData));
}

CUresult hook_client_cuGraphExecChildGraphNodeSetParams(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode,
                                                        CUgraph childGraph) {
    if (CUresult refused = check_pair(call, hGraphExec, hNode); refused != CUDA_SUCCESS) return refused;
    const Graph* child = call.state.graphs.find(to_token(childGraph));
    if (!child) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t exec = to_token(hGraphExec);
    // Whether it is like the one before the driver knows, and the program makes another executable graph where it is not.
    const CUresult result = gen::request_cuGraphExecChildGraphNodeSetParams(call, exec, to_token(hNode), to_token(childGraph));
    if (result != CUDA_SUCCESS) return result;
    exchange_child(*call.state.graph_execs.find(exec), *call.state.graph_nodes.find(to_token(hNode)), *child);
    return learn_copies(call, exec);
}

CUresult hook_client_cuGraphNodeSetEnabled(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled) {
    if (CUresult refused = check_pair(call, hGraphExec, hNode); refused != CUDA_SUCCESS) return refused;
    bool on_host = false;
    if (CUresult refused = is_host_copy(call, hNode, on_host); refused != CUDA_SUCCESS) return refused;
    const uint64_t exec = to_token(hGraphExec), node = to_token(hNode);
    const auto set =
        can_be_left_out(call, hGraphExec, hNode) ? gen::issue_cuGraphNodeSetEnabled : gen::request_cuGraphNodeSetEnabled;
    const CUresult result = set(call, exec, node, isEnabled, on_host);
    GraphExec& known = *call.state.graph_execs.find(exec);
    if (result != CUDA_SUCCESS || !known.concerned.load()) return result;
    if (on_host) {
        MutexLock lock(known.mutex);
        if (isEnabled != 0) {
            known.left_out.erase(node);
        } else {
            known.left_out.insert(node);
        }
        return CUDA_SUCCESS;
    }
    return learn_copies(call, exec);
}

CUresult hook_client_cuGraphNodeGetEnabled(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int* isEnabled) {
    if (CUresult refused = check_pair(call, hGraphExec, hNode); refused != CUDA_SUCCESS) return refused;
    bool on_host = false;
    if (CUresult refused = is_host_copy(call, hNode, on_host); refused != CUDA_SUCCESS) return refused;
    const uint64_t exec = to_token(hGraphExec), node = to_token(hNode);
    if (on_host) {
        GraphExec& known = *call.state.graph_execs.find(exec);
        MutexLock lock(known.mutex);
        *isEnabled = known.left_out.contains(node) ? 0 : 1;
        return CUDA_SUCCESS;
    }
    gen::CuGraphNodeGetEnabledValues answer;
    const CUresult result = gen::request_cuGraphNodeGetEnabled(call, exec, node, answer);
    if (result == CUDA_SUCCESS) *isEnabled = answer.isEnabled;
    return result;
}

CUresult hook_client_cuGraphExecEventRecordNodeSetEvent(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event) {
    if (!call.state.graph_execs.find(to_token(hGraphExec))) return CUDA_ERROR_INVALID_VALUE;
    if (!call.state.graph_nodes.find(to_token(hNode))) return CUDA_ERROR_INVALID_VALUE;
    if (!call.state.events.find(to_token(event))) return CUDA_ERROR_INVALID_VALUE;
    call.state.device_records_events.store(true);
    return gen::issue_cuGraphExecEventRecordNodeSetEvent(call, to_token(hGraphExec), to_token(hNode), to_token(event));
}

CUresult hook_client_cuGraphExecEventWaitNodeSetEvent(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event) {
    if (CUresult refused = check_pair(call, hGraphExec, hNode); refused != CUDA_SUCCESS) return refused;
    if (!call.state.events.find(to_token(event))) return CUDA_ERROR_INVALID_VALUE;
    return gen::issue_cuGraphExecEventWaitNodeSetEvent(call, to_token(hGraphExec), to_token(hNode), to_token(event));
}

CUresult hook_client_cuGraphExecNodeSetParams(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode,
                                              CUgraphNodeParams* nodeParams) {
    const uint64_t exec = to_token(hGraphExec), node = to_token(hNode);
    if (!call.state.graph_execs.find(exec) || !call.state.graph_nodes.find(node)) return CUDA_ERROR_INVALID_VALUE;
    switch (nodeParams->type) {
        case CU_GRAPH_NODE_TYPE_KERNEL: {
            const CUDA_KERNEL_NODE_PARAMS params = kernel_params(*nodeParams);
            return hook_client_cuGraphExecKernelNodeSetParams_v2(call, hGraphExec, hNode, &params);
        }
        case CU_GRAPH_NODE_TYPE_MEMCPY:
            return hook_client_cuGraphExecMemcpyNodeSetParams(call, hGraphExec, hNode, &nodeParams->memcpy.copyParams,
                                                              nodeParams->memcpy.copyCtx);
        case CU_GRAPH_NODE_TYPE_MEMSET: {
            const CUDA_MEMSET_NODE_PARAMS params = memset_params(*nodeParams);
            return hook_client_cuGraphExecMemsetNodeSetParams(call, hGraphExec, hNode, &params, nodeParams->memset.ctx);
        }
        case CU_GRAPH_NODE_TYPE_HOST: {
            const CUDA_HOST_NODE_PARAMS params = host_params(*nodeParams);
            return hook_client_cuGraphExecHostNodeSetParams(call, hGraphExec, hNode, &params);
        }
        case CU_GRAPH_NODE_TYPE_GRAPH:
            return hook_client_cuGraphExecChildGraphNodeSetParams(call, hGraphExec, hNode, nodeParams->graph.graph);
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
            return hook_client_cuGraphExecEventRecordNodeSetEvent(call, hGraphExec, hNode, nodeParams->eventRecord.event);
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
            return hook_client_cuGraphExecEventWaitNodeSetEvent(call, hGraphExec, hNode, nodeParams->eventWait.event);
        case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
            const CUDA_BATCH_MEM_OP_NODE_PARAMS params = batch_params(*nodeParams);
            return hook_client_cuGraphExecBatchMemOpNodeSetParams(call, hGraphExec, hNode, &params);
        }
        default: return WL_REFUSE_CALL("cuGraphExecNodeSetParams", k_unchanged_nodes);
    }
}

}  // namespace warpline::client
