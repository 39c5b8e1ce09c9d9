#include "server/gen/texture_calls.gen.h"
#include "server/hooks/common.h"

namespace warpline::server {

namespace {

/// A resource as it lay in the client's memory, with the handles that travelled beside it put in.
template <typename Args>
CUresult read_resource(ServerCall& call, const Args& args, CUDA_RESOURCE_DESC& resource) {
    if (args.resource.size() != sizeof resource) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(&resource, args.resource.data(), sizeof resource);
    const DeviceMemory& memory = call.session().memory();
    resource.resType = static_cast<CUresourcetype>(args.kind);
    switch (resource.resType) {
        case CU_RESOURCE_TYPE_ARRAY: resource.res.array.hArray = WL_FIND(call, CUarray, array, args.array); return CUDA_SUCCESS;
        case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
            resource.res.mipmap.hMipmappedArray = WL_FIND(call, CUmipmappedArray, mipmapped_array, args.mipmappedArray);
            return CUDA_SUCCESS;
        case CU_RESOURCE_TYPE_LINEAR:
            if (!memory.contains(resource.res.linear.devPtr, resource.res.linear.sizeInBytes))
                return memory.refusal(resource.res.linear.devPtr);
            return CUDA_SUCCESS;
        case CU_RESOURCE_TYPE_PITCH2D: {
            const auto& pitched = resource.res.pitch2D;
            const unsigned __int128 bytes =
                static_cast<unsigned __int128>(pitched.pitchInBytes) * (pitched.height == 0 ? 0 : pitched.height - 1);
            if (bytes > UINT64_MAX || !memory.contains(pitched.devPtr, static_cast<uint64_t>(bytes) + 1))
                return memory.refusal(pitched.devPtr);
            return CUDA_SUCCESS;
        }
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

template <typename T>
CUresult read_optional(BytesView bytes, T& out, T*& pointer) {
    pointer = nullptr;
    if (bytes.empty()) return CUDA_SUCCESS;
    if (bytes.size() != sizeof out) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(&out, bytes.data(), sizeof out);
    pointer = &out;
    return CUDA_SUCCESS;
}

}  // namespace

CUresult hook_server_cuTexObjectCreate(ServerCall& call, const CuTexObjectCreateArgs& args, CuTexObjectCreateValues& values) {
    const auto create = WL_DRIVER(call, cuTexObjectCreate);
    CUDA_RESOURCE_DESC resource{};
    CUDA_TEXTURE_DESC texture{};
    CUDA_RESOURCE_VIEW_DESC view{};
    CUDA_TEXTURE_DESC* texture_given = nullptr;
    CUDA_RESOURCE_VIEW_DESC* view_given = nullptr;
    WL_CUDA(read_resource(call, args, resource));
    WL_CUDA(read_optional(args.texture, texture, texture_given));
    WL_CUDA(read_optional(args.view, view, view_given));
    CUtexObject made = 0;
    WL_CUDA(create(&made, &resource, texture_given, view_given));
    values.texObject = made;
    return CUDA_SUCCESS;
}

CUresult hook_server_cuSurfObjectCreate(ServerCall& call, const CuSurfObjectCreateArgs& args,
                                        CuSurfObjectCreateValues& values) {
    const auto create = WL_DRIVER(call, cuSurfObjectCreate);
    CUDA_RESOURCE_DESC resource{};
    WL_CUDA(read_resource(call, args, resource));
    CUsurfObject made = 0;
    WL_CUDA(create(&made, &resource));
    values.surfObject = made;
    return CUDA_SUCCESS;
}

}  // namespace warpline::server
