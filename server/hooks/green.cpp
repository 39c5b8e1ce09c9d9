// Green contexts: parts of a device's multiprocessors and work queues. What a resource is the driver alone knows; a client
// names those that it was given.
#include "cuda/abi/dev_resource.h"
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

bool is_workqueue_config(const CUdevResource& resource) {
    return cuda::abi::type_of(resource) == cuda::abi::k_resource_workqueue_config;
}

/// How many streams work at a time is the program's to say: without that, and with the client's number of the device.
CUdevResource without_config(CUdevResource resource) {
    cuda::abi::set_workqueue_config(resource, {});
    return resource;
}

/// Asks for the multiprocessors or work queues of something, and gives them to the client.
template <typename Function, typename Handle>
CUresult answer(ServerCall& call, Function get, Handle of, uint32_t type, uint64_t owner, Bytes& out) {
    const bool known = type == cuda::abi::k_resource_sm || type == cuda::abi::k_resource_workqueue_config ||
                       type == cuda::abi::k_resource_workqueue;
    if (!known) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    CUdevResource resource{};
    WL_CUDA(get(of, &resource, static_cast<CUdevResourceType>(type)));
    if (!is_workqueue_config(resource)) return give(call, resource, owner, out);
    cuda::abi::WorkqueueConfig config = cuda::abi::workqueue_config_of(resource);
    if (!call.session().contexts().client_device(config.device, config.device)) return CUDA_ERROR_UNKNOWN;
    WL_CUDA(give(call, without_config(resource), owner, out));
    cuda::abi::set_workqueue_config(resource, config);
    out = bytes_of(resource);
    return CUDA_SUCCESS;
}

/// Reads a resource that this client was given. @param owner  whose it is
CUresult read_resource(ServerCall& call, BytesView bytes, CUdevResource& out, uint64_t& owner) {
    const bool given = read_struct(bytes, out) && call.session().resources().find({bytes.begin(), bytes.end()}, owner);
    return given ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/// The same for what a descriptor is made of. A program may set up work queues anew, from nothing as well.
CUresult read_part(ServerCall& call, BytesView bytes, CUdevResource& out, uint64_t& owner) {
    if (!read_struct(bytes, out) || !is_workqueue_config(out)) return read_resource(call, bytes, out, owner);
    cuda::abi::WorkqueueConfig config = cuda::abi::workqueue_config_of(out);
    CUdevResource nothing{};
    cuda::abi::set_type(nothing, cuda::abi::k_resource_workqueue_config);
    const Bytes rest = bytes_of(without_config(out));
    const bool given = rest == bytes_of(nothing) || call.session().resources().find(rest, owner);
    if (!given || !call.find_device(config.device, config.device)) return CUDA_ERROR_INVALID_VALUE;
    cuda::abi::set_workqueue_config(out, config);
    return CUDA_SUCCESS;
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

CUresult hook_server_cuDevSmResourceSplit(ServerCall& call, const CuDevSmResourceSplitArgs& args,
                                          CuDevSmResourceSplitValues& values) {
    const auto split = WL_DRIVER(call, cuDevSmResourceSplit);
    CUdevResource input;
    uint64_t owner = 0;
    WL_CUDA(read_resource(call, args.input, input, owner));
    std::vector<CU_DEV_SM_RESOURCE_GROUP_PARAMS> groups(args.groups.size() / sizeof(CU_DEV_SM_RESOURCE_GROUP_PARAMS));
    if (groups.empty() || groups.size() > k_max_groups || args.groups.size() % sizeof groups[0] != 0)
        return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(groups.data(), args.groups.data(), args.groups.size());
    std::vector<CUdevResource> result(args.discover ? 0 : groups.size());
    CUdevResource remainder{};
    WL_CUDA(split(args.discover ? nullptr : result.data(), static_cast<unsigned>(groups.size()), &input, &remainder, args.flags,
                  groups.data()));
    for (const CUdevResource& one : result) {
        Bytes bytes;
        WL_CUDA(give(call, one, owner, bytes));
    }
    WL_CUDA(give(call, remainder, owner, values.remainder));
    values.groups = bytes_of_array(groups);
    values.result = bytes_of_array(result);
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
        uint64_t owner_of_part = 0;
        WL_CUDA(read_part(call, one, resources[i], owner_of_part));
        if (owner_of_part != 0) owner = owner_of_part;
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
    for (const auto& [converted, value] : session.handles().owned(HandleKind::context, args.hCtx)) {
        for (const CUstream stream : session.streams().of_context(converted)) {
            session.freed().stream_ends(stream);
            if (call.driver()->cuStreamDestroy_v2 != nullptr) call.driver()->cuStreamDestroy_v2(stream);
        }
        session.streams().context_ended(converted);
        session.memory().context_ended(converted, PeerAccess::Ending::destroyed);
        session.contexts().forget_current();
    }
    session.resources().owner_ended(args.hCtx);
    call.unbind(HandleKind::green_context, args.hCtx);
    return destroy(green);
}

CUresult hook_server_cuCtxFromGreenCtx(ServerCall& call, const CuCtxFromGreenCtxArgs& args) {
    const auto convert = WL_DRIVER(call, cuCtxFromGreenCtx);
    if (!call.may_bind(HandleKind::context, args.pContext)) return CUDA_ERROR_INVALID_HANDLE;
    const auto green = WL_FIND(call, CUgreenCtx, green_context, args.hCtx);
    CUcontext context = nullptr;
    WL_CUDA(convert(&context, green));
    call.bind(HandleKind::context, args.pContext, context, args.hCtx);
    return CUDA_SUCCESS;
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
    made.scope = made.owner;
    made.non_blocking = true;
    call.session().handles().bind(HandleKind::stream, args.phStream, made);
    return CUDA_SUCCESS;
}

}  // namespace warpline::server
