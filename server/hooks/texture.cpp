// Texture and surface objects: the numbers that a client may use.
#include "server/gen/texture_calls.gen.h"
#include "server/hooks/common.h"

namespace warpline::server {

namespace {

/// A resource as it lay in the client's memory, with the handles that travelled beside it put in.
template <typename Args>
CUresult read_resource(ServerCall& call, const Args& args, CUDA_RESOURCE_DESC& resource) {
    if (args.resource.size() != sizeof resource) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(&resource, args.resource.data(), sizeof resource);
    // The kind by which the ranges were checked is the one in the structure.
    if (static_cast<uint32_t>(resource.resType) != args.kind) return CUDA_ERROR_INVALID_VALUE;
    switch (resource.resType) {
        case CU_RESOURCE_TYPE_ARRAY: resource.res.array.hArray = WL_FIND(call, CUarray, array, args.array); return CUDA_SUCCESS;
        case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
            resource.res.mipmap.hMipmappedArray = WL_FIND(call, CUmipmappedArray, mipmapped_array, args.mipmappedArray);
            return CUDA_SUCCESS;
        case CU_RESOURCE_TYPE_LINEAR:
        case CU_RESOURCE_TYPE_PITCH2D: return CUDA_SUCCESS;
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

/// Drivers take such an object for a pointer or an index of theirs.
template <typename Destroy>
CUresult destroy_given(ServerCall& call, GivenValues::Kind kind, uint64_t object, Destroy destroy) {
    GivenValues& given = call.session().values();
    if (!given.contains(kind, object)) return CUDA_ERROR_INVALID_VALUE;
    WL_CUDA(destroy(object));
    given.remove(kind, object);
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
    GivenValues& given = call.session().values();
    if (given.full()) return CUDA_ERROR_OUT_OF_MEMORY;
    CUtexObject made = 0;
    WL_CUDA(create(&made, &resource, texture_given, view_given));
    given.add(GivenValues::Kind::texture, made, call.context());
    values.texObject = made;
    return CUDA_SUCCESS;
}

CUresult hook_server_cuTexObjectDestroy(ServerCall& call, const CuTexObjectDestroyArgs& args) {
    const auto destroy = WL_DRIVER(call, cuTexObjectDestroy);
    return destroy_given(call, GivenValues::Kind::texture, args.texObject, destroy);
}

CUresult hook_server_cuSurfObjectCreate(ServerCall& call, const CuSurfObjectCreateArgs& args,
                                        CuSurfObjectCreateValues& values) {
    const auto create = WL_DRIVER(call, cuSurfObjectCreate);
    CUDA_RESOURCE_DESC resource{};
    WL_CUDA(read_resource(call, args, resource));
    GivenValues& given = call.session().values();
    if (given.full()) return CUDA_ERROR_OUT_OF_MEMORY;
    CUsurfObject made = 0;
    WL_CUDA(create(&made, &resource));
    given.add(GivenValues::Kind::surface, made, call.context());
    values.surfObject = made;
    return CUDA_SUCCESS;
}

CUresult hook_server_cuSurfObjectDestroy(ServerCall& call, const CuSurfObjectDestroyArgs& args) {
    const auto destroy = WL_DRIVER(call, cuSurfObjectDestroy);
    return destroy_given(call, GivenValues::Kind::surface, args.surfObject, destroy);
}

}  // namespace warpline::server
