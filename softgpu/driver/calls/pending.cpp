// Calls of areas that follow: refused, one log line each.
#include "common/log/log.h"
#include "cuda/abi/cuda_types.h"

namespace warpline::softgpu::driver {

namespace {
CUresult refuse(const char* call) {
    WL_LOG(warn, "softgpu", "{} is not supported by the software GPU", call);
    return CUDA_ERROR_NOT_SUPPORTED;
}
}  // namespace

CUresult cuArrayCreate_v2(CUarray*, const CUDA_ARRAY_DESCRIPTOR*) { return refuse("cuArrayCreate_v2"); }
CUresult cuArray3DCreate_v2(CUarray*, const CUDA_ARRAY3D_DESCRIPTOR*) { return refuse("cuArray3DCreate_v2"); }
CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR*, CUarray) { return refuse("cuArrayGetDescriptor_v2"); }
CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR*, CUarray) { return refuse("cuArray3DGetDescriptor_v2"); }
CUresult cuArrayDestroy(CUarray) { return refuse("cuArrayDestroy"); }
CUresult cuArrayGetPlane(CUarray*, CUarray, unsigned int) { return refuse("cuArrayGetPlane"); }
CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES*, CUarray) { return refuse("cuArrayGetSparseProperties"); }
CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS*, CUarray, CUdevice) {
    return refuse("cuArrayGetMemoryRequirements");
}
CUresult cuMipmappedArrayCreate(CUmipmappedArray*, const CUDA_ARRAY3D_DESCRIPTOR*, unsigned int) {
    return refuse("cuMipmappedArrayCreate");
}
CUresult cuMipmappedArrayGetLevel(CUarray*, CUmipmappedArray, unsigned int) { return refuse("cuMipmappedArrayGetLevel"); }
CUresult cuMipmappedArrayDestroy(CUmipmappedArray) { return refuse("cuMipmappedArrayDestroy"); }
CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES*, CUmipmappedArray) {
    return refuse("cuMipmappedArrayGetSparseProperties");
}
CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS*, CUmipmappedArray, CUdevice) {
    return refuse("cuMipmappedArrayGetMemoryRequirements");
}
CUresult cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode) { return refuse("cuStreamBeginCapture_v2"); }
CUresult cuStreamBeginCapture(CUstream) { return refuse("cuStreamBeginCapture"); }
CUresult cuStreamBeginCaptureToGraph(CUstream, CUgraph, const CUgraphNode*, const CUgraphEdgeData*, size_t,
                                     CUstreamCaptureMode) {
    return refuse("cuStreamBeginCaptureToGraph");
}
CUresult cuStreamEndCapture(CUstream, CUgraph*) { return refuse("cuStreamEndCapture"); }
CUresult cuStreamIsCapturing(CUstream, CUstreamCaptureStatus*) { return refuse("cuStreamIsCapturing"); }
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode*) { return refuse("cuThreadExchangeStreamCaptureMode"); }
CUresult cuStreamGetCaptureInfo_v3(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*, const CUgraphNode**,
                                   const CUgraphEdgeData**, size_t*) {
    return refuse("cuStreamGetCaptureInfo_v3");
}
CUresult cuStreamGetCaptureInfo_v2(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*, const CUgraphNode**, size_t*) {
    return refuse("cuStreamGetCaptureInfo_v2");
}
CUresult cuStreamGetCaptureInfo(CUstream, CUstreamCaptureStatus*, cuuint64_t*) { return refuse("cuStreamGetCaptureInfo"); }
CUresult cuStreamUpdateCaptureDependencies_v2(CUstream, CUgraphNode*, const CUgraphEdgeData*, size_t, unsigned int) {
    return refuse("cuStreamUpdateCaptureDependencies_v2");
}
CUresult cuStreamUpdateCaptureDependencies(CUstream, CUgraphNode*, size_t, unsigned int) {
    return refuse("cuStreamUpdateCaptureDependencies");
}
CUresult cuDeviceGraphMemTrim(CUdevice) { return refuse("cuDeviceGraphMemTrim"); }
CUresult cuDeviceGetGraphMemAttribute(CUdevice, CUgraphMem_attribute, void*) { return refuse("cuDeviceGetGraphMemAttribute"); }
CUresult cuDeviceSetGraphMemAttribute(CUdevice, CUgraphMem_attribute, void*) { return refuse("cuDeviceSetGraphMemAttribute"); }
CUresult cuGraphCreate(CUgraph*, unsigned int) { return refuse("cuGraphCreate"); }
CUresult cuGraphDestroy(CUgraph) { return refuse("cuGraphDestroy"); }
CUresult cuGraphClone(CUgraph*, CUgraph) { return refuse("cuGraphClone"); }
CUresult cuGraphNodeFindInClone(CUgraphNode*, CUgraphNode, CUgraph) { return refuse("cuGraphNodeFindInClone"); }
CUresult cuGraphGetNodes(CUgraph, CUgraphNode*, size_t*) { return refuse("cuGraphGetNodes"); }
CUresult cuGraphGetRootNodes(CUgraph, CUgraphNode*, size_t*) { return refuse("cuGraphGetRootNodes"); }
CUresult cuGraphGetEdges_v2(CUgraph, CUgraphNode*, CUgraphNode*, CUgraphEdgeData*, size_t*) {
    return refuse("cuGraphGetEdges_v2");
}
CUresult cuGraphGetEdges(CUgraph, CUgraphNode*, CUgraphNode*, size_t*) { return refuse("cuGraphGetEdges"); }
CUresult cuGraphNodeGetDependencies_v2(CUgraphNode, CUgraphNode*, CUgraphEdgeData*, size_t*) {
    return refuse("cuGraphNodeGetDependencies_v2");
}
CUresult cuGraphNodeGetDependencies(CUgraphNode, CUgraphNode*, size_t*) { return refuse("cuGraphNodeGetDependencies"); }
CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode, CUgraphNode*, CUgraphEdgeData*, size_t*) {
    return refuse("cuGraphNodeGetDependentNodes_v2");
}
CUresult cuGraphNodeGetDependentNodes(CUgraphNode, CUgraphNode*, size_t*) { return refuse("cuGraphNodeGetDependentNodes"); }
CUresult cuGraphAddDependencies_v2(CUgraph, const CUgraphNode*, const CUgraphNode*, const CUgraphEdgeData*, size_t) {
    return refuse("cuGraphAddDependencies_v2");
}
CUresult cuGraphAddDependencies(CUgraph, const CUgraphNode*, const CUgraphNode*, size_t) {
    return refuse("cuGraphAddDependencies");
}
CUresult cuGraphRemoveDependencies_v2(CUgraph, const CUgraphNode*, const CUgraphNode*, const CUgraphEdgeData*, size_t) {
    return refuse("cuGraphRemoveDependencies_v2");
}
CUresult cuGraphRemoveDependencies(CUgraph, const CUgraphNode*, const CUgraphNode*, size_t) {
    return refuse("cuGraphRemoveDependencies");
}
CUresult cuGraphDestroyNode(CUgraphNode) { return refuse("cuGraphDestroyNode"); }
CUresult cuGraphNodeGetType(CUgraphNode, CUgraphNodeType*) { return refuse("cuGraphNodeGetType"); }
CUresult cuGraphDebugDotPrint(CUgraph, const char*, unsigned int) { return refuse("cuGraphDebugDotPrint"); }
CUresult cuUserObjectCreate(CUuserObject*, void*, CUhostFn, unsigned int, unsigned int) { return refuse("cuUserObjectCreate"); }
CUresult cuUserObjectRetain(CUuserObject, unsigned int) { return refuse("cuUserObjectRetain"); }
CUresult cuUserObjectRelease(CUuserObject, unsigned int) { return refuse("cuUserObjectRelease"); }
CUresult cuGraphRetainUserObject(CUgraph, CUuserObject, unsigned int, unsigned int) {
    return refuse("cuGraphRetainUserObject");
}
CUresult cuGraphReleaseUserObject(CUgraph, CUuserObject, unsigned int) { return refuse("cuGraphReleaseUserObject"); }
CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle*, CUgraph, CUcontext, unsigned int, unsigned int) {
    return refuse("cuGraphConditionalHandleCreate");
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec*, CUgraph, unsigned long long) {
    return refuse("cuGraphInstantiateWithFlags");
}
CUresult cuGraphInstantiate_v2(CUgraphExec*, CUgraph, CUgraphNode*, char*, size_t) { return refuse("cuGraphInstantiate_v2"); }
CUresult cuGraphInstantiateWithParams(CUgraphExec*, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS*) {
    return refuse("cuGraphInstantiateWithParams");
}
CUresult cuGraphUpload(CUgraphExec, CUstream) { return refuse("cuGraphUpload"); }
CUresult cuGraphLaunch(CUgraphExec, CUstream) { return refuse("cuGraphLaunch"); }
CUresult cuGraphExecDestroy(CUgraphExec) { return refuse("cuGraphExecDestroy"); }
CUresult cuGraphExecGetFlags(CUgraphExec, cuuint64_t*) { return refuse("cuGraphExecGetFlags"); }
CUresult cuGraphExecUpdate_v2(CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo*) { return refuse("cuGraphExecUpdate_v2"); }
CUresult cuGraphExecUpdate(CUgraphExec, CUgraph, CUgraphNode*, CUgraphExecUpdateResult*) { return refuse("cuGraphExecUpdate"); }
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS*) {
    return refuse("cuGraphExecKernelNodeSetParams_v2");
}
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1*) {
    return refuse("cuGraphExecKernelNodeSetParams");
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec, CUgraphNode, const CUDA_MEMCPY3D*, CUcontext) {
    return refuse("cuGraphExecMemcpyNodeSetParams");
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec, CUgraphNode, const CUDA_MEMSET_NODE_PARAMS*, CUcontext) {
    return refuse("cuGraphExecMemsetNodeSetParams");
}
CUresult cuGraphExecHostNodeSetParams(CUgraphExec, CUgraphNode, const CUDA_HOST_NODE_PARAMS*) {
    return refuse("cuGraphExecHostNodeSetParams");
}
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec, CUgraphNode, CUgraph) {
    return refuse("cuGraphExecChildGraphNodeSetParams");
}
CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec, CUgraphNode, CUevent) {
    return refuse("cuGraphExecEventRecordNodeSetEvent");
}
CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec, CUgraphNode, CUevent) {
    return refuse("cuGraphExecEventWaitNodeSetEvent");
}
CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec, CUgraphNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS*) {
    return refuse("cuGraphExecBatchMemOpNodeSetParams");
}
CUresult cuGraphNodeSetEnabled(CUgraphExec, CUgraphNode, unsigned int) { return refuse("cuGraphNodeSetEnabled"); }
CUresult cuGraphNodeGetEnabled(CUgraphExec, CUgraphNode, unsigned int*) { return refuse("cuGraphNodeGetEnabled"); }
CUresult cuGraphExecNodeSetParams(CUgraphExec, CUgraphNode, CUgraphNodeParams*) { return refuse("cuGraphExecNodeSetParams"); }
CUresult cuGraphAddKernelNode_v2(CUgraphNode*, CUgraph, const CUgraphNode*, size_t, const CUDA_KERNEL_NODE_PARAMS*) {
    return refuse("cuGraphAddKernelNode_v2");
}
CUresult cuGraphAddKernelNode(CUgraphNode*, CUgraph, const CUgraphNode*, size_t, const CUDA_KERNEL_NODE_PARAMS_v1*) {
    return refuse("cuGraphAddKernelNode");
}
CUresult cuGraphAddMemcpyNode(CUgraphNode*, CUgraph, const CUgraphNode*, size_t, const CUDA_MEMCPY3D*, CUcontext) {
    return refuse("cuGraphAddMemcpyNode");
}
CUresult cuGraphAddMemsetNode(CUgraphNode*, CUgraph, const CUgraphNode*, size_t, const CUDA_MEMSET_NODE_PARAMS*, CUcontext) {
    return refuse("cuGraphAddMemsetNode");
}
CUresult cuGraphAddHostNode(CUgraphNode*, CUgraph, const CUgraphNode*, size_t, const CUDA_HOST_NODE_PARAMS*) {
    return refuse("cuGraphAddHostNode");
}
CUresult cuGraphAddChildGraphNode(CUgraphNode*, CUgraph, const CUgraphNode*, size_t, CUgraph) {
    return refuse("cuGraphAddChildGraphNode");
}
CUresult cuGraphAddEmptyNode(CUgraphNode*, CUgraph, const CUgraphNode*, size_t) { return refuse("cuGraphAddEmptyNode"); }
CUresult cuGraphAddEventRecordNode(CUgraphNode*, CUgraph, const CUgraphNode*, size_t, CUevent) {
    return refuse("cuGraphAddEventRecordNode");
}
CUresult cuGraphAddEventWaitNode(CUgraphNode*, CUgraph, const CUgraphNode*, size_t, CUevent) {
    return refuse("cuGraphAddEventWaitNode");
}
CUresult cuGraphAddBatchMemOpNode(CUgraphNode*, CUgraph, const CUgraphNode*, size_t, const CUDA_BATCH_MEM_OP_NODE_PARAMS*) {
    return refuse("cuGraphAddBatchMemOpNode");
}
CUresult cuGraphAddMemAllocNode(CUgraphNode*, CUgraph, const CUgraphNode*, size_t, CUDA_MEM_ALLOC_NODE_PARAMS*) {
    return refuse("cuGraphAddMemAllocNode");
}
CUresult cuGraphAddMemFreeNode(CUgraphNode*, CUgraph, const CUgraphNode*, size_t, CUdeviceptr) {
    return refuse("cuGraphAddMemFreeNode");
}
CUresult cuGraphAddNode_v2(CUgraphNode*, CUgraph, const CUgraphNode*, const CUgraphEdgeData*, size_t, CUgraphNodeParams*) {
    return refuse("cuGraphAddNode_v2");
}
CUresult cuGraphAddNode(CUgraphNode*, CUgraph, const CUgraphNode*, size_t, CUgraphNodeParams*) {
    return refuse("cuGraphAddNode");
}
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode, CUDA_KERNEL_NODE_PARAMS*) {
    return refuse("cuGraphKernelNodeGetParams_v2");
}
CUresult cuGraphKernelNodeGetParams(CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v1*) { return refuse("cuGraphKernelNodeGetParams"); }
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode, const CUDA_KERNEL_NODE_PARAMS*) {
    return refuse("cuGraphKernelNodeSetParams_v2");
}
CUresult cuGraphKernelNodeSetParams(CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1*) {
    return refuse("cuGraphKernelNodeSetParams");
}
CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode, CUgraphNode) { return refuse("cuGraphKernelNodeCopyAttributes"); }
CUresult cuGraphKernelNodeGetAttribute(CUgraphNode, CUkernelNodeAttrID, CUkernelNodeAttrValue*) {
    return refuse("cuGraphKernelNodeGetAttribute");
}
CUresult cuGraphKernelNodeSetAttribute(CUgraphNode, CUkernelNodeAttrID, const CUkernelNodeAttrValue*) {
    return refuse("cuGraphKernelNodeSetAttribute");
}
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode, CUDA_MEMCPY3D*) { return refuse("cuGraphMemcpyNodeGetParams"); }
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode, const CUDA_MEMCPY3D*) { return refuse("cuGraphMemcpyNodeSetParams"); }
CUresult cuGraphMemsetNodeGetParams(CUgraphNode, CUDA_MEMSET_NODE_PARAMS*) { return refuse("cuGraphMemsetNodeGetParams"); }
CUresult cuGraphMemsetNodeSetParams(CUgraphNode, const CUDA_MEMSET_NODE_PARAMS*) {
    return refuse("cuGraphMemsetNodeSetParams");
}
CUresult cuGraphHostNodeGetParams(CUgraphNode, CUDA_HOST_NODE_PARAMS*) { return refuse("cuGraphHostNodeGetParams"); }
CUresult cuGraphHostNodeSetParams(CUgraphNode, const CUDA_HOST_NODE_PARAMS*) { return refuse("cuGraphHostNodeSetParams"); }
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode, CUgraph*) { return refuse("cuGraphChildGraphNodeGetGraph"); }
CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode, CUevent*) { return refuse("cuGraphEventRecordNodeGetEvent"); }
CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode, CUevent) { return refuse("cuGraphEventRecordNodeSetEvent"); }
CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode, CUevent*) { return refuse("cuGraphEventWaitNodeGetEvent"); }
CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode, CUevent) { return refuse("cuGraphEventWaitNodeSetEvent"); }
CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode, CUDA_BATCH_MEM_OP_NODE_PARAMS*) {
    return refuse("cuGraphBatchMemOpNodeGetParams");
}
CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS*) {
    return refuse("cuGraphBatchMemOpNodeSetParams");
}
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode, CUDA_MEM_ALLOC_NODE_PARAMS*) {
    return refuse("cuGraphMemAllocNodeGetParams");
}
CUresult cuGraphMemFreeNodeGetParams(CUgraphNode, CUdeviceptr*) { return refuse("cuGraphMemFreeNodeGetParams"); }
CUresult cuGraphNodeSetParams(CUgraphNode, CUgraphNodeParams*) { return refuse("cuGraphNodeSetParams"); }
CUresult cuLinkCreate_v2(unsigned int, CUjit_option*, void**, CUlinkState*) { return refuse("cuLinkCreate_v2"); }
CUresult cuLinkAddData_v2(CUlinkState, CUjitInputType, void*, size_t, const char*, unsigned int, CUjit_option*, void**) {
    return refuse("cuLinkAddData_v2");
}
CUresult cuLinkAddFile_v2(CUlinkState, CUjitInputType, const char*, unsigned int, CUjit_option*, void**) {
    return refuse("cuLinkAddFile_v2");
}
CUresult cuLinkComplete(CUlinkState, void**, size_t*) { return refuse("cuLinkComplete"); }
CUresult cuLinkDestroy(CUlinkState) { return refuse("cuLinkDestroy"); }
CUresult cuModuleGetTexRef(CUtexref*, CUmodule, const char*) { return refuse("cuModuleGetTexRef"); }
CUresult cuModuleGetSurfRef(CUsurfref*, CUmodule, const char*) { return refuse("cuModuleGetSurfRef"); }
CUresult cuTexObjectCreate(CUtexObject*, const CUDA_RESOURCE_DESC*, const CUDA_TEXTURE_DESC*, const CUDA_RESOURCE_VIEW_DESC*) {
    return refuse("cuTexObjectCreate");
}
CUresult cuTexObjectDestroy(CUtexObject) { return refuse("cuTexObjectDestroy"); }
CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC*, CUtexObject) { return refuse("cuTexObjectGetResourceDesc"); }
CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC*, CUtexObject) { return refuse("cuTexObjectGetTextureDesc"); }
CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC*, CUtexObject) {
    return refuse("cuTexObjectGetResourceViewDesc");
}
CUresult cuSurfObjectCreate(CUsurfObject*, const CUDA_RESOURCE_DESC*) { return refuse("cuSurfObjectCreate"); }
CUresult cuSurfObjectDestroy(CUsurfObject) { return refuse("cuSurfObjectDestroy"); }
CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC*, CUsurfObject) { return refuse("cuSurfObjectGetResourceDesc"); }
CUresult cuTexRefCreate(CUtexref*) { return refuse("cuTexRefCreate"); }
CUresult cuTexRefDestroy(CUtexref) { return refuse("cuTexRefDestroy"); }
CUresult cuTexRefSetArray(CUtexref, CUarray, unsigned int) { return refuse("cuTexRefSetArray"); }
CUresult cuTexRefSetMipmappedArray(CUtexref, CUmipmappedArray, unsigned int) { return refuse("cuTexRefSetMipmappedArray"); }
CUresult cuTexRefSetAddress_v2(size_t*, CUtexref, CUdeviceptr, size_t) { return refuse("cuTexRefSetAddress_v2"); }
CUresult cuTexRefSetAddress2D_v3(CUtexref, const CUDA_ARRAY_DESCRIPTOR*, CUdeviceptr, size_t) {
    return refuse("cuTexRefSetAddress2D_v3");
}
CUresult cuTexRefSetFormat(CUtexref, CUarray_format, int) { return refuse("cuTexRefSetFormat"); }
CUresult cuTexRefSetAddressMode(CUtexref, int, CUaddress_mode) { return refuse("cuTexRefSetAddressMode"); }
CUresult cuTexRefSetFilterMode(CUtexref, CUfilter_mode) { return refuse("cuTexRefSetFilterMode"); }
CUresult cuTexRefSetMipmapFilterMode(CUtexref, CUfilter_mode) { return refuse("cuTexRefSetMipmapFilterMode"); }
CUresult cuTexRefSetMipmapLevelBias(CUtexref, float) { return refuse("cuTexRefSetMipmapLevelBias"); }
CUresult cuTexRefSetMipmapLevelClamp(CUtexref, float, float) { return refuse("cuTexRefSetMipmapLevelClamp"); }
CUresult cuTexRefSetMaxAnisotropy(CUtexref, unsigned int) { return refuse("cuTexRefSetMaxAnisotropy"); }
CUresult cuTexRefSetBorderColor(CUtexref, float*) { return refuse("cuTexRefSetBorderColor"); }
CUresult cuTexRefSetFlags(CUtexref, unsigned int) { return refuse("cuTexRefSetFlags"); }
CUresult cuTexRefGetAddress_v2(CUdeviceptr*, CUtexref) { return refuse("cuTexRefGetAddress_v2"); }
CUresult cuTexRefGetArray(CUarray*, CUtexref) { return refuse("cuTexRefGetArray"); }
CUresult cuTexRefGetMipmappedArray(CUmipmappedArray*, CUtexref) { return refuse("cuTexRefGetMipmappedArray"); }
CUresult cuTexRefGetAddressMode(CUaddress_mode*, CUtexref, int) { return refuse("cuTexRefGetAddressMode"); }
CUresult cuTexRefGetFilterMode(CUfilter_mode*, CUtexref) { return refuse("cuTexRefGetFilterMode"); }
CUresult cuTexRefGetFormat(CUarray_format*, int*, CUtexref) { return refuse("cuTexRefGetFormat"); }
CUresult cuTexRefGetMipmapFilterMode(CUfilter_mode*, CUtexref) { return refuse("cuTexRefGetMipmapFilterMode"); }
CUresult cuTexRefGetMipmapLevelBias(float*, CUtexref) { return refuse("cuTexRefGetMipmapLevelBias"); }
CUresult cuTexRefGetMipmapLevelClamp(float*, float*, CUtexref) { return refuse("cuTexRefGetMipmapLevelClamp"); }
CUresult cuTexRefGetMaxAnisotropy(int*, CUtexref) { return refuse("cuTexRefGetMaxAnisotropy"); }
CUresult cuTexRefGetBorderColor(float*, CUtexref) { return refuse("cuTexRefGetBorderColor"); }
CUresult cuTexRefGetFlags(unsigned int*, CUtexref) { return refuse("cuTexRefGetFlags"); }
CUresult cuSurfRefSetArray(CUsurfref, CUarray, unsigned int) { return refuse("cuSurfRefSetArray"); }
CUresult cuSurfRefGetArray(CUarray*, CUsurfref) { return refuse("cuSurfRefGetArray"); }

}  // namespace warpline::softgpu::driver
