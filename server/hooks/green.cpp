// Green contexts: parts of a device's multiprocessors. What a resource is the driver alone knows; a client names those that it
// was given.
#include "server/gen/green_calls.gen.h"
#include "server/hooks/common.h"
#include "server/session/struct_bytes.h"

namespace warpline::server {

namespace {

/// More than any device has parts.
constexpr unsigned k_max_groups = 1024;

/// Remembers a resource, so that the client may name it.
CUresult give(ServerCall& call, const CUdevResource& resource, uint64_t owner, Bytes& out) {
    out = bytes_of(resource);
    return call.session().resources().add(out, owner) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/// Asks for the multiprocessors of something, and gives them to the client.
template <typename Function, typename Handle>
CUresult answer(ServerCall& call, Function get, Handle of, uint32_t type, uint64_t owner, Bytes& out) {
    if (type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    CUdevResource resource{};
    WL_CUDA(get(of, &resource, static_cast<CUdevResourceType>(type)));
    return give(call, resource, owner, out);
}

/// Reads a resource that this client was given. @param owner  whose it is
CUresult read_resource(ServerCall& call, BytesView bytes, CUdevResource& out, uint64_t& owner) {
    const bool given = read_struct(bytes, out) && call.session().resources().find({bytes.begin(), bytes.end()}, owner);
    return given ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult hook_server_cuDeviceGetDevResource(ServerCall& call, const CuDeviceGetDevResourceArgs& args,
                                            CuDeviceGetDevResourceValues& values) {
    const auto get = WL_DRIVER(call, cuDeviceGetDevResource);
    CUdevice device = 0;
    if (!call.find_device(args.device, device)) return CUDA_ERROR_INVALID_DEVICE;
    return answer(call, get, device, args.type, 0, values.resource);
}

CUresult hook_server_cuCtxGetDevResource(ServerCall& call, const CuCtxGetDevResourceArgs& args,
                                         CuCtxGetDevResourceValues& values) {
    const auto get = WL_DRIVER(call, cuCtxGetDevResource);
    return answer(call, get, WL_FIND(call, CUcontext, context, args.hCtx), args.type, 0, values.resource);
}

CUresult hook_server_cuGreenCtxGetDevResource(ServerCall& call, const CuGreenCtxGetDevResourceArgs& args,
                                              CuGreenCtxGetDevResourceValues& values) {
    const auto get = WL_DRIVER(call, cuGreenCtxGetDevResource);
    return answer(call, get, WL_FIND(call, CUgreenCtx, green_context, args.hCtx), args.type, args.hCtx, values.resource);
}

CUresult hook_server_cuStreamGetDevResource(ServerCall& call, const CuStreamGetDevResourceArgs& args,
                                            CuStreamGetDevResourceValues& values) {
    const auto get = WL_DRIVER(call, cuStreamGetDevResource);
    return answer(call, get, WL_FIND(call, CUstream, stream, args.hStream), args.type, 0, values.resource);
}

CUresult hook_server_cuDevSmResourceSplitByCount(ServerCall& call, const CuDevSmResourceSplitByCountArgs& args,
                                                 CuDevSmResourceSplitByCountValues& values) {
    const auto split = WL_DRIVER(call, cuDevSmResourceSplitByCount);
    CUdevResource input;
    uint64_t owner = 0;
    WL_CUDA(read_resource(call, args.input, input, owner));
    if (args.groups > k_max_groups && !args.countsOnly) return CUDA_ERROR_INVALID_VALUE;
    std::vector<CUdevResource> result(args.countsOnly ? 0 : args.groups);
    CUdevResource remaining{};
    unsigned groups = args.groups;
    WL_CUDA(split(args.countsOnly ? nullptr : result.data(), &groups, &input, &remaining, args.useFlags, args.minCount));
    result.resize(args.countsOnly ? 0 : std::min<size_t>(groups, result.size()));
    for (const CUdevResource& one : result) {
        Bytes bytes;
        WL_CUDA(give(call, one, owner, bytes));
    }
    WL_CUDA(give(call, remaining, owner, values.remaining));
    values.result = bytes_of_array(result);
    values.groups = groups;
    return CUDA_SUCCESS;
}

CUresult hook_server_cuDevResourceGenerateDesc(ServerCall& call, const CuDevResourceGenerateDescArgs& args) {
    const auto generate = WL_DRIVER(call, cuDevResourceGenerateDesc);
    if (!call.may_bind(HandleKind::resource_desc, args.phDesc)) return CUDA_ERROR_INVALID_HANDLE;
    const size_t count = args.resources.size() / sizeof(CUdevResource);
    if (count == 0 || count != args.nbResources || args.resources.size() % sizeof(CUdevResource) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    std::vector<CUdevResource> resources(count);
    uint64_t owner = 0;
    for (size_t i = 0; i < count; ++i) {
        const BytesView one = args.resources.subspan(i * sizeof(CUdevResource), sizeof(CUdevResource));
        WL_CUDA(read_resource(call, one, resources[i], owner));
    }
    CUdevResourceDesc desc = nullptr;
    WL_CUDA(generate(&desc, resources.data(), static_cast<unsigned>(count)));
    call.bind(HandleKind::resource_desc, args.phDesc, desc, owner);
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGreenCtxCreate(ServerCall& call, const CuGreenCtxCreateArgs& args) {
    const auto create = WL_DRIVER(call, cuGreenCtxCreate);
    if (!call.may_bind(HandleKind::green_context, args.phCtx)) return CUDA_ERROR_INVALID_HANDLE;
    const auto desc = WL_FIND(call, CUdevResourceDesc, resource_desc, args.desc);
    CUdevice device = 0;
    if (!call.find_device(args.dev, device)) return CUDA_ERROR_INVALID_DEVICE;
    CUgreenCtx green = nullptr;
    WL_CUDA(create(&green, desc, device, args.flags));
    call.bind(HandleKind::green_context, args.phCtx, green, Contexts::primary_token(args.dev));
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGreenCtxDestroy(ServerCall& call, const CuGreenCtxDestroyArgs& args) {
    const auto destroy = WL_DRIVER(call, cuGreenCtxDestroy);
    const auto green = WL_FIND(call, CUgreenCtx, green_context, args.hCtx);
    Session& session = call.session();
    // Its streams end with it: nothing of ours may ask them afterwards.
    for (const uint64_t token : args.streams) {
        const auto entry = session.handles().find(HandleKind::stream, token);
        if (!entry) continue;
        session.freed().stream_ends(value_to_handle<CUstream>(entry->value));
        if (call.driver()->cuStreamDestroy_v2 != nullptr)
            call.driver()->cuStreamDestroy_v2(value_to_handle<CUstream>(entry->value));
        call.unbind(HandleKind::stream, token);
    }
    session.resources().owner_ended(args.hCtx);
    call.unbind(HandleKind::green_context, args.hCtx);
    return destroy(green);
}

CUresult hook_server_cuGreenCtxStreamCreate(ServerCall& call, const CuGreenCtxStreamCreateArgs& args) {
    const auto create = WL_DRIVER(call, cuGreenCtxStreamCreate);
    if (!call.may_bind(HandleKind::stream, args.phStream)) return CUDA_ERROR_INVALID_HANDLE;
    const auto green = WL_FIND(call, CUgreenCtx, green_context, args.greenCtx);
    CUstream stream = nullptr;
    WL_CUDA(create(&stream, green, args.flags, args.priority));
    const auto entry = call.session().handles().find(HandleKind::green_context, args.greenCtx);
    // Of the primary context, as what is freed and awaited there has to know it.
    HandleTable::Entry made{handle_to_value(stream), entry ? entry->owner : call.context()};
    made.non_blocking = true;
    call.session().handles().bind(HandleKind::stream, args.phStream, made);
    return CUDA_SUCCESS;
}

}  // namespace warpline::server
