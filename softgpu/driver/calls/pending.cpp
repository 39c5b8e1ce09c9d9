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
