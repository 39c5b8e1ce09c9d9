#pragma once

// What cuda.h of newer toolkits declares of the calls that are served (cuda/api), for builds with an older one. Included by
// cuda_types.h, and read by the generator (cuda/gen/prototypes.py). tests/e2e/versions.py holds it against the newest header.
// [cuda.h of CUDA 13.1 to 13.5]

#if CUDA_VERSION < 13050

#ifdef __cplusplus
extern "C" {
#endif

#if CUDA_VERSION < 13010
CUresult cuLaunchHostFunc_v2(CUstream hStream, CUhostFn fn, void* userData, unsigned int syncMode);
CUresult cuLaunchHostFunc_v2_ptsz(CUstream hStream, CUhostFn fn, void* userData, unsigned int syncMode);
CUresult cuStreamGetDevResource(CUstream hStream, CUdevResource* resource, CUdevResourceType type);
CUresult cuStreamGetDevResource_ptsz(CUstream hStream, CUdevResource* resource, CUdevResourceType type);
#ifndef WARPLINE_HAS_NEWER_TYPES  // where all this is held against a header that has them (tests/e2e/versions.py)
typedef struct CU_DEV_SM_RESOURCE_GROUP_PARAMS_st {
    unsigned int smCount;
    unsigned int coscheduledSmCount;
    unsigned int preferredCoscheduledSmCount;
    unsigned int flags;
    unsigned int reserved[12];
} CU_DEV_SM_RESOURCE_GROUP_PARAMS;
#endif
static_assert(sizeof(CU_DEV_SM_RESOURCE_GROUP_PARAMS) == 64 &&
              __builtin_offsetof(CU_DEV_SM_RESOURCE_GROUP_PARAMS, flags) == 12);
CUresult cuDevSmResourceSplit(CUdevResource* result, unsigned int nbGroups, const CUdevResource* input,
                              CUdevResource* remainder, unsigned int flags, CU_DEV_SM_RESOURCE_GROUP_PARAMS* groupParams);
CUresult cuGraphGetId(CUgraph hGraph, unsigned int* graphId);
CUresult cuGraphExecGetId(CUgraphExec hGraphExec, unsigned int* graphId);
CUresult cuGraphNodeGetContainingGraph(CUgraphNode hNode, CUgraph* phGraph);
CUresult cuGraphNodeGetLocalId(CUgraphNode hNode, unsigned int* nodeId);
CUresult cuGraphNodeGetToolsId(CUgraphNode hNode, unsigned long long* toolsNodeId);
#endif

#if CUDA_VERSION < 13020
CUresult cuGraphNodeGetParams(CUgraphNode hNode, CUgraphNodeParams* nodeParams);
CUresult cuFuncGetParamCount(CUfunction func, size_t* paramCount);
CUresult cuKernelGetParamCount(CUkernel kernel, size_t* paramCount);
CUresult cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t size, CUmemcpyAttributes* attr, CUstream hStream);
CUresult cuMemcpyWithAttributesAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t size, CUmemcpyAttributes* attr,
                                          CUstream hStream);
CUresult cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP* op, unsigned long long flags, CUstream hStream);
CUresult cuMemcpy3DWithAttributesAsync_ptsz(CUDA_MEMCPY3D_BATCH_OP* op, unsigned long long flags, CUstream hStream);
#endif

#ifdef __cplusplus
}
#endif

#endif
