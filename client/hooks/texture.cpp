// Texture and surface objects: kernels take them as numbers, so the server chooses those.
#include <algorithm>

#include "client/call/common.h"
#include "client/gen/texture_calls.gen.h"

namespace warpline::client {

namespace {

/// A resource description whose handles are taken out, because they travel as tokens.
struct Resource {
    CUDA_RESOURCE_DESC description{};
    uint64_t array = 0;
    uint64_t mipmapped_array = 0;
};

/// Drivers take textures that are longer than the memory.
CUresult check_linear(const Call& call, uint64_t address, uint64_t size_bytes) {
    if (const auto range = call.state.memory.find(address)) {
        size_bytes = std::min(size_bytes, range->base + range->size_bytes - address);
    }
    return check_device_range(call, address, size_bytes);
}

CUresult read_resource(const Call& call, const CUDA_RESOURCE_DESC& from, Resource& out) {
    out.description = from;
    switch (from.resType) {
        case CU_RESOURCE_TYPE_ARRAY:
            out.array = to_token(from.res.array.hArray);
            out.description.res.array.hArray = nullptr;
            return call.state.arrays.find(out.array) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
            out.mipmapped_array = to_token(from.res.mipmap.hMipmappedArray);
            out.description.res.mipmap.hMipmappedArray = nullptr;
            return call.state.mipmapped_arrays.find(out.mipmapped_array) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        case CU_RESOURCE_TYPE_LINEAR: return check_linear(call, from.res.linear.devPtr, from.res.linear.sizeInBytes);
        case CU_RESOURCE_TYPE_PITCH2D: return check_device_range(call, from.res.pitch2D.devPtr, 1);
    }
    return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult hook_client_cuTexObjectCreate(Call& call, CUtexObject* pTexObject, const CUDA_RESOURCE_DESC* pResDesc,
                                       const CUDA_TEXTURE_DESC* pTexDesc, const CUDA_RESOURCE_VIEW_DESC* pResViewDesc) {
    Resource resource;
    if (CUresult refused = read_resource(call, *pResDesc, resource); refused != CUDA_SUCCESS) return refused;
    gen::CuTexObjectCreateValues answer;
    CUresult result = gen::request_cuTexObjectCreate(call, static_cast<uint32_t>(pResDesc->resType), resource.array,
                                                     resource.mipmapped_array, struct_bytes(&resource.description),
                                                     struct_bytes(pTexDesc), struct_bytes(pResViewDesc), answer);
    if (result != CUDA_SUCCESS) return result;
    Textures::Description description;
    description.resource = *pResDesc;
    if (pTexDesc) description.texture = *pTexDesc;
    if (pResViewDesc) description.view = *pResViewDesc;
    call.state.textures.add(Textures::Kind::texture, answer.texObject, description);
    *pTexObject = answer.texObject;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuTexObjectDestroy(Call& call, CUtexObject texObject) {
    if (!call.state.textures.remove(Textures::Kind::texture, texObject))
        return CUDA_SUCCESS;  // nobody looks whether it is there
    return gen::issue_cuTexObjectDestroy(call, texObject);
}

CUresult hook_client_cuTexObjectGetResourceDesc(Call& call, CUDA_RESOURCE_DESC* pResDesc, CUtexObject texObject) {
    auto found = call.state.textures.find(Textures::Kind::texture, texObject);
    if (!found) return CUDA_ERROR_INVALID_VALUE;
    *pResDesc = found->resource;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuTexObjectGetTextureDesc(Call& call, CUDA_TEXTURE_DESC* pTexDesc, CUtexObject texObject) {
    auto found = call.state.textures.find(Textures::Kind::texture, texObject);
    if (!found) return CUDA_ERROR_INVALID_VALUE;
    *pTexDesc = found->texture;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuTexObjectGetResourceViewDesc(Call& call, CUDA_RESOURCE_VIEW_DESC* pResViewDesc, CUtexObject texObject) {
    auto found = call.state.textures.find(Textures::Kind::texture, texObject);
    if (!found) return CUDA_ERROR_INVALID_VALUE;
    *pResViewDesc = found->view.value_or(CUDA_RESOURCE_VIEW_DESC{});  // DB-61
    return CUDA_SUCCESS;
}

CUresult hook_client_cuSurfObjectCreate(Call& call, CUsurfObject* pSurfObject, const CUDA_RESOURCE_DESC* pResDesc) {
    if (pResDesc->resType != CU_RESOURCE_TYPE_ARRAY) return CUDA_ERROR_INVALID_VALUE;
    Resource resource;
    if (CUresult refused = read_resource(call, *pResDesc, resource); refused != CUDA_SUCCESS) return refused;
    gen::CuSurfObjectCreateValues answer;
    CUresult result = gen::request_cuSurfObjectCreate(call, static_cast<uint32_t>(pResDesc->resType), resource.array,
                                                      resource.mipmapped_array, struct_bytes(&resource.description), answer);
    if (result != CUDA_SUCCESS) return result;
    Textures::Description description;
    description.resource = *pResDesc;
    call.state.textures.add(Textures::Kind::surface, answer.surfObject, description);
    *pSurfObject = answer.surfObject;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuSurfObjectDestroy(Call& call, CUsurfObject surfObject) {
    if (!call.state.textures.remove(Textures::Kind::surface, surfObject))
        return CUDA_SUCCESS;  // nobody looks whether it is there
    return gen::issue_cuSurfObjectDestroy(call, surfObject);
}

CUresult hook_client_cuSurfObjectGetResourceDesc(Call& call, CUDA_RESOURCE_DESC* pResDesc, CUsurfObject surfObject) {
    auto found = call.state.textures.find(Textures::Kind::surface, surfObject);
    if (!found) return CUDA_ERROR_INVALID_VALUE;
    *pResDesc = found->resource;
    return CUDA_SUCCESS;
}

}  // namespace warpline::client
