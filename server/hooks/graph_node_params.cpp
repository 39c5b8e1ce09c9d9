// What nodes of graphs were made of, and what they are to be made of from now on.
#include "common/log/log.h"
#include "server/gen/graph_node_params_calls.gen.h"
#include "server/hooks/graph_batch.h"
#include "server/hooks/graph_common.h"
#include "server/hooks/graph_params.h"
#include "server/hooks/launch_attributes.h"
#include "server/session/struct_bytes.h"

namespace warpline::server {

namespace {

void location_to_client(ServerCall& call, CUmemLocation& location) {
    if (location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        static_cast<void>(call.session().contexts().client_device(location.id, location.id));
}

}  // namespace

CUresult hook_server_cuGraphBatchMemOpNodeSetParams(ServerCall& call, const CuGraphBatchMemOpNodeSetParamsArgs& args) {
    const auto set = WL_DRIVER(call, cuGraphBatchMemOpNodeSetParams);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    Batch batch;
    WL_CUDA(read_batch(call, args, batch));
    return set(node, &batch.params);
}

CUresult hook_server_cuGraphBatchMemOpNodeGetParams(ServerCall& call, const CuGraphBatchMemOpNodeGetParamsArgs& args,
                                                    CuGraphBatchMemOpNodeGetParamsValues& values) {
    const auto get = WL_DRIVER(call, cuGraphBatchMemOpNodeGetParams);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    CUDA_BATCH_MEM_OP_NODE_PARAMS params{};
    WL_CUDA(get(node, &params));
    const BytesView items = as_bytes(params.paramArray, params.count * sizeof(CUstreamBatchMemOpParams));
    values.items.assign(items.begin(), items.end());
    values.flags = params.flags;
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphMemAllocNodeGetParams(ServerCall& call, const CuGraphMemAllocNodeGetParamsArgs& args,
                                                  CuGraphMemAllocNodeGetParamsValues& values) {
    const auto get = WL_DRIVER(call, cuGraphMemAllocNodeGetParams);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    CUDA_MEM_ALLOC_NODE_PARAMS params{};
    WL_CUDA(get(node, &params));
    std::vector<CUmemAccessDesc> access(params.accessDescs, params.accessDescs + params.accessDescCount);
    location_to_client(call, params.poolProps.location);
    for (CUmemAccessDesc& one : access) location_to_client(call, one.location);
    values.properties = bytes_of(params.poolProps);
    values.access = bytes_of_array(access);
    values.bytes = params.bytesize;
    values.address = params.dptr;
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphKernelNodeSetParams_v2(ServerCall& call, const CuGraphKernelNodeSetParamsV2Args& args) {
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    KernelNodeParams params;
    WL_CUDA(read_kernel_node(call, args, params));
    return with_kernel_node(call, call.driver()->cuGraphKernelNodeSetParams_v2, call.driver()->cuGraphKernelNodeSetParams,
                            &params.node, node);
}

CUresult hook_server_cuGraphKernelNodeGetParams_v2(ServerCall& call, const CuGraphKernelNodeGetParamsV2Args& args,
                                                   CuGraphKernelNodeGetParamsV2Values& values) {
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    CUDA_KERNEL_NODE_PARAMS params{};
    WL_CUDA(with_kernel_node(call, call.driver()->cuGraphKernelNodeGetParams_v2, call.driver()->cuGraphKernelNodeGetParams,
                             &params, node));
    // A function of a library's module is named as the library's kernel, too, which the program may not have asked for (DB-55).
    Functions& functions = call.session().functions();
    values.func = functions.token_of(params.func);
    values.kern = functions.token_of(params.kern);
    values.ctx = call.session().contexts().token_of(params.ctx);
    const uint64_t token = values.func != 0 ? values.func : values.kern;
    if (token == 0) {
        WL_LOG(warn, "server",
               "the driver names a node's kernel ({}) and function ({}) by handles that it has not given before",
               static_cast<const void*>(params.kern), static_cast<const void*>(params.func));
        return CUDA_ERROR_INVALID_HANDLE;
    }
    values.gridX = params.gridDimX, values.gridY = params.gridDimY, values.gridZ = params.gridDimZ;
    values.blockX = params.blockDimX, values.blockY = params.blockDimY, values.blockZ = params.blockDimZ;
    values.sharedMemBytes = params.sharedMemBytes;
    if (params.kernelParams == nullptr) return params.extra == nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    CUresult why = CUDA_SUCCESS;
    const auto layout = functions.layout(token, why);
    if (layout == nullptr) return why;
    for (size_t i = 0; i < layout->sizes.size(); ++i) {
        const BytesView count = as_bytes(&layout->sizes[i], sizeof layout->sizes[i]);
        const BytesView value = as_bytes(params.kernelParams[i], layout->sizes[i]);
        values.sizes.insert(values.sizes.end(), count.begin(), count.end());
        values.params.insert(values.params.end(), value.begin(), value.end());
    }
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphMemcpyNodeSetParams(ServerCall& call, const CuGraphMemcpyNodeSetParamsArgs& args) {
    const auto set = WL_DRIVER(call, cuGraphMemcpyNodeSetParams);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    CUDA_MEMCPY3D copy{};
    HostCopyPtr host;
    WL_CUDA(read_copy_node(call, args, copy, host));
    WL_CUDA(set(node, &copy));
    call.session().graph_copies().keep(graph_of_node(call, args.hNode), node, std::move(host));
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphMemcpyNodeGetParams(ServerCall& call, const CuGraphMemcpyNodeGetParamsArgs& args,
                                                CuGraphMemcpyNodeGetParamsValues& values) {
    const auto get = WL_DRIVER(call, cuGraphMemcpyNodeGetParams);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    CUDA_MEMCPY3D copy{};
    WL_CUDA(get(node, &copy));
    GraphCopies& copies = call.session().graph_copies();
    const HandleTable& handles = call.session().handles();
    for (const HostCopyPtr& host : {copies.copy_of(copy, true), copies.copy_of(copy, false)}) {
        if (host == nullptr) continue;
        values.source = host->source;
        if (host->source == 0) values.target = host->staging->call;
    }
    if (copy.srcMemoryType == CU_MEMORYTYPE_ARRAY)
        values.srcArray = handles.token_of(HandleKind::array, handle_to_value(copy.srcArray));
    if (copy.dstMemoryType == CU_MEMORYTYPE_ARRAY)
        values.dstArray = handles.token_of(HandleKind::array, handle_to_value(copy.dstArray));
    copy.srcHost = nullptr;
    copy.dstHost = nullptr;
    copy.srcArray = nullptr;
    copy.dstArray = nullptr;
    const BytesView bytes = as_bytes(&copy, sizeof copy);
    values.copy.assign(bytes.begin(), bytes.end());
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphHostNodeSetParams(ServerCall& call, const CuGraphHostNodeSetParamsArgs& args) {
    const auto set = WL_DRIVER(call, cuGraphHostNodeSetParams);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    HostCalls::Ticket* ticket = call.session().host_calls().make_ticket(args.id, false);
    if (ticket == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUDA_HOST_NODE_PARAMS params{&HostCalls::run, ticket};
    if (const CUresult result = set(node, &params); result != CUDA_SUCCESS) {
        call.session().host_calls().drop_ticket(ticket);
        return result;
    }
    call.session().graph_copies().give_ticket(graph_of_node(call, args.hNode), node, ticket);
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphHostNodeGetParams(ServerCall& call, const CuGraphHostNodeGetParamsArgs& args,
                                              CuGraphHostNodeGetParamsValues& values) {
    const auto get = WL_DRIVER(call, cuGraphHostNodeGetParams);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    CUDA_HOST_NODE_PARAMS params{};
    WL_CUDA(get(node, &params));
    const HostCalls::Ticket* ticket = call.session().host_calls().find_ticket(params.userData);
    if (ticket == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    values.id = ticket->id;
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphEventRecordNodeGetEvent(ServerCall& call, const CuGraphEventRecordNodeGetEventArgs& args,
                                                    CuGraphEventRecordNodeGetEventValues& values) {
    const auto get = WL_DRIVER(call, cuGraphEventRecordNodeGetEvent);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    CUevent event = nullptr;
    WL_CUDA(get(node, &event));
    values.eventOut = call.session().handles().token_of(HandleKind::event, handle_to_value(event));
    return values.eventOut != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult hook_server_cuGraphEventWaitNodeGetEvent(ServerCall& call, const CuGraphEventWaitNodeGetEventArgs& args,
                                                  CuGraphEventWaitNodeGetEventValues& values) {
    const auto get = WL_DRIVER(call, cuGraphEventWaitNodeGetEvent);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    CUevent event = nullptr;
    WL_CUDA(get(node, &event));
    values.eventOut = call.session().handles().token_of(HandleKind::event, handle_to_value(event));
    return values.eventOut != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult hook_server_cuGraphKernelNodeSetAttribute(ServerCall& call, const CuGraphKernelNodeSetAttributeArgs& args) {
    const auto set = WL_DRIVER(call, cuGraphKernelNodeSetAttribute);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    const auto id = static_cast<CUkernelNodeAttrID>(args.attr);
    CUkernelNodeAttrValue value{};
    WL_CUDA(read_attribute(call, id, args.value, value));
    return set(node, id, &value);
}

}  // namespace warpline::server
