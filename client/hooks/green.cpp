// Green contexts: parts of a device's multiprocessors and work queues. Their streams belong to the primary context here, as its
// other streams do, and so does what is done while one is current; the server's driver knows which multiprocessors they have.
#include <algorithm>
#include <cstring>
#include <vector>

#include "client/call/completion.h"
#include "client/call/pooled.h"
#include "client/gen/context_calls.gen.h"
#include "client/gen/green_calls.gen.h"
#include "client/graph/capture.h"
#include "cuda/abi/dev_resource.h"
#include "cuda/abi/export_tables.h"

namespace warpline::client {

namespace {

/// Of the kinds of resources, those that there are. @param has_queues  what is asked has work queues to tell of
CUresult check_kind(unsigned type, bool has_queues = true) {
    if (type == cuda::abi::k_resource_sm) return CUDA_SUCCESS;
    const bool queues = type == cuda::abi::k_resource_workqueue_config || type == cuda::abi::k_resource_workqueue;
    const bool known = has_queues && Process::instance().driver_version() >= cuda::abi::k_workqueue_driver;
    return queues && known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_RESOURCE_TYPE;
}

/// What a device or a context has does not change: libraries ask for it again and again.
/// @param of  token of whose resource it is, or a device @param ask  gets the answer's values
template <typename Values, typename Ask>
CUresult give(Call& call, uint64_t of, CUdevResourceType type, CUdevResource* resource, Ask ask) {
    Bytes bytes;
    const CUresult result = call.state.resources.get(question_of(call.id, of, type), bytes, [&](Bytes& told) {
        Values answer;
        const CUresult asked = ask(answer);
        told = std::move(answer.resource);
        return asked;
    });
    if (result == CUDA_SUCCESS) copy_struct(resource, bytes);
    return result;
}

/// A green context by the program's handle, which is also what it is converted to (DB-65).
/// @param token  by which the server knows it
const GreenContext* find_green(const Call& call, CUgreenCtx handle, uint64_t& token) {
    const Context* converted = call.state.contexts.find(to_token(handle));
    token = converted ? converted->green : 0;
    return call.state.green_contexts.find(token);
}

/// Makes the context that is current where the green one is.
CUresult convert(Call& call, uint64_t token, GreenContext& green) {
    auto made = call.state.contexts.make();
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    made.object->token = made.token;
    made.object->id = call.state.next_id();
    made.object->device = green.device;
    made.object->base = green.context;
    made.object->green = token;
    made.object->retained.store(1);
    call.context = green.context;
    // Its default stream works beside the primary context's.
    call.state.works_beside_default.store(true);
    const CUresult result = gen::issue_cuCtxFromGreenCtx(call, made.token, token);
    if (result != CUDA_SUCCESS) {
        call.state.contexts.remove(made.token);
        return result;
    }
    green.handle = made.token;
    return CUDA_SUCCESS;
}

/// The streams of a green context that the program has not destroyed.
std::vector<uint64_t> streams_of(Call& call, uint64_t green) {
    std::vector<uint64_t> tokens;
    call.state.streams.for_each([&](uint64_t token, const Stream& stream) {
        if (stream.green == green) tokens.push_back(token);
    });
    return tokens;
}

}  // namespace

CUresult hook_client_cuDeviceGetDevResource(Call& call, CUdevice device, CUdevResource* resource, CUdevResourceType type) {
    if (!find_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (CUresult refused = check_kind(type); refused != CUDA_SUCCESS) return refused;
    return give<gen::CuDeviceGetDevResourceValues>(call, static_cast<uint64_t>(device), type, resource, [&](auto& answer) {
        return gen::request_cuDeviceGetDevResource(call, device, type, answer);
    });
}

CUresult hook_client_cuCtxGetDevResource(Call& call, CUcontext hCtx, CUdevResource* resource, CUdevResourceType type) {
    if (CUresult refused = check_kind(type); refused != CUDA_SUCCESS) return refused;
    const Context* context = call.state.contexts.find(to_token(hCtx));
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (context->green != 0)
        return hook_client_cuGreenCtxGetDevResource(call, to_handle<CUgreenCtx>(context->token), resource, type);
    return give<gen::CuCtxGetDevResourceValues>(call, to_token(hCtx), type, resource, [&](auto& answer) {
        return gen::request_cuCtxGetDevResource(call, to_token(hCtx), type, answer);
    });
}

CUresult hook_client_cuGreenCtxGetDevResource(Call& call, CUgreenCtx hCtx, CUdevResource* resource, CUdevResourceType type) {
    if (CUresult refused = check_kind(type); refused != CUDA_SUCCESS) return refused;
    uint64_t token = 0;
    if (!find_green(call, hCtx, token)) return CUDA_ERROR_INVALID_CONTEXT;
    return give<gen::CuGreenCtxGetDevResourceValues>(call, token, type, resource, [&](auto& answer) {
        return gen::request_cuGreenCtxGetDevResource(call, token, type, answer);
    });
}

CUresult hook_client_cuStreamGetDevResource(Call& call, CUstream hStream, CUdevResource* resource, CUdevResourceType type) {
    if (CUresult refused = check_stream(call, hStream); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = check_kind(type, false); refused != CUDA_SUCCESS) return refused;
    const uint64_t token = stream_token(call, hStream);
    const Stream* stream = call.state.streams.find(token);
    // Streams have what their contexts have.
    uint64_t of = stream ? (stream->green != 0 ? stream->green : stream->context) : call.scope();
    if (stream && stream->detached.load()) of = token;
    return give<gen::CuStreamGetDevResourceValues>(
        call, of, type, resource, [&](auto& answer) { return gen::request_cuStreamGetDevResource(call, token, type, answer); });
}

CUresult hook_client_cuDevSmResourceSplitByCount(Call& call, CUdevResource* result, unsigned int* nbGroups,
                                                 const CUdevResource* input, CUdevResource* remaining, unsigned int useFlags,
                                                 unsigned int minCount) {
    if (CUresult refused = check_kind(cuda::abi::type_of(*input), false); refused != CUDA_SUCCESS) return refused;
    gen::CuDevSmResourceSplitByCountValues answer;
    const CUresult split = gen::request_cuDevSmResourceSplitByCount(call, struct_bytes(input), *nbGroups, result == nullptr,
                                                                    useFlags, minCount, answer);
    if (split != CUDA_SUCCESS) return split;
    const size_t given = answer.result.size() / sizeof(CUdevResource);
    if (result && (given != answer.groups || given > *nbGroups)) return CUDA_ERROR_UNKNOWN;
    if (result && given != 0) std::memcpy(result, answer.result.data(), given * sizeof(CUdevResource));
    if (remaining) copy_struct(remaining, answer.remaining);
    *nbGroups = answer.groups;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuDevSmResourceSplit(Call& call, CUdevResource* result, unsigned int nbGroups, const CUdevResource* input,
                                          CUdevResource* remainder, unsigned int flags,
                                          CU_DEV_SM_RESOURCE_GROUP_PARAMS* groupParams) {
    if (CUresult refused = check_kind(cuda::abi::type_of(*input), false); refused != CUDA_SUCCESS) return refused;
    // A group has two multiprocessors at least.
    if (nbGroups == 0 || (result && nbGroups > input->sm.smCount)) return CUDA_ERROR_INVALID_VALUE;
    gen::CuDevSmResourceSplitValues answer;
    const CUresult split = gen::request_cuDevSmResourceSplit(call, struct_bytes(input), array_bytes(groupParams, nbGroups),
                                                             flags, result == nullptr, answer);
    if (split != CUDA_SUCCESS) return split;
    const size_t result_bytes = result ? nbGroups * sizeof(CUdevResource) : 0;
    if (answer.groups.size() != nbGroups * sizeof *groupParams || answer.result.size() != result_bytes)
        return CUDA_ERROR_UNKNOWN;
    copy_array(groupParams, nbGroups, answer.groups);
    if (result) copy_array(result, nbGroups, answer.result);
    if (remainder) copy_struct(remainder, answer.remainder);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuDevResourceGenerateDesc(Call& call, CUdevResourceDesc* phDesc, CUdevResource* resources,
                                               unsigned int nbResources) {
    if (nbResources == 0) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < nbResources; ++i) {
        if (CUresult refused = check_kind(cuda::abi::type_of(resources[i])); refused != CUDA_SUCCESS) return refused;
        if (cuda::abi::has_next(resources[i])) return WL_REFUSE_CALL("cuDevResourceGenerateDesc", "chains of resources");
    }
    auto made = make_object<HandleKind::resource_desc>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result =
        gen::request_cuDevResourceGenerateDesc(call, made.token, array_bytes(resources, nbResources), nbResources);
    if (result != CUDA_SUCCESS) {
        call.state.resource_descs.remove(made.token);
        return result;
    }
    for (unsigned i = 0; i < nbResources; ++i) {
        if (resources[i].type == CU_DEV_RESOURCE_TYPE_SM) made.object->multiprocessors += resources[i].sm.smCount;
    }
    *phDesc = to_handle<CUdevResourceDesc>(made.token);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuGreenCtxCreate(Call& call, CUgreenCtx* phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags) {
    const Device* device = find_device(dev);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    const ResourceDesc* described = call.state.resource_descs.find(to_token(desc));
    if (!described) return CUDA_ERROR_INVALID_VALUE;
    auto made = make_object<HandleKind::green_context>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    made.object->context = device->primary_context;
    made.object->device = dev;
    const int all = device->attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    made.object->multiprocessors = described->multiprocessors != 0 ? described->multiprocessors : static_cast<unsigned>(all);
    made.object->id = call.state.next_id();
    // It holds the primary context until it is destroyed.
    CUcontext primary = nullptr;
    CUresult result = hook_client_cuDevicePrimaryCtxRetain(call, &primary, dev);
    if (result == CUDA_SUCCESS) {
        result = gen::request_cuGreenCtxCreate(call, made.token, to_token(desc), dev, flags);
        if (result == CUDA_SUCCESS) {
            result = convert(call, made.token, *made.object);
            if (result != CUDA_SUCCESS) gen::issue_cuGreenCtxDestroy(call, made.token, {});
        }
        if (result != CUDA_SUCCESS) hook_client_cuDevicePrimaryCtxRelease_v2(call, dev);
    }
    if (result != CUDA_SUCCESS) {
        call.state.green_contexts.remove(made.token);
        return result;
    }
    *phCtx = to_handle<CUgreenCtx>(made.object->handle);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuGreenCtxDestroy(Call& call, CUgreenCtx hCtx) {
    uint64_t token = 0;
    const GreenContext* green = find_green(call, hCtx, token);
    if (!green) return CUDA_ERROR_INVALID_CONTEXT;
    const std::vector<uint64_t> streams = streams_of(call, token);
    for (const uint64_t stream : streams) forget_capture(call, stream, *call.state.streams.find(stream));
    call.context = green->context;
    call.converted = 0;
    const int device = green->device;
    const uint64_t handle = green->handle;
    cuda::abi::context_storage_clear(to_handle<CUcontext>(handle));
    for (const DeviceRange& range : call.state.pool_heap.context_settled(handle, UINT64_MAX)) release_pooled(call, range);
    const CUresult result = gen::issue_cuGreenCtxDestroy(call, token, streams);
    // The program destroys them, or not; they are good for nothing else.
    for (const uint64_t stream : streams) call.state.streams.find(stream)->detached.store(true);
    call.state.contexts.remove(handle);
    call.state.green_contexts.remove(token);
    call.state.resources.forget();
    const CUresult released = hook_client_cuDevicePrimaryCtxRelease_v2(call, device);
    return result == CUDA_SUCCESS ? released : result;
}

CUresult hook_client_cuCtxFromGreenCtx(Call& call, CUcontext* pContext, CUgreenCtx hCtx) {
    uint64_t token = 0;
    if (!find_green(call, hCtx, token)) return CUDA_ERROR_INVALID_CONTEXT;
    *pContext = to_handle<CUcontext>(to_token(hCtx));
    return CUDA_SUCCESS;
}

CUresult hook_client_cuGreenCtxStreamCreate(Call& call, CUstream* phStream, CUgreenCtx greenCtx, unsigned int flags,
                                            int priority) {
    uint64_t token = 0;
    const GreenContext* green = find_green(call, greenCtx, token);
    if (!green) return CUDA_ERROR_INVALID_CONTEXT;
    if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    call.context = green->context;
    auto made = make_object<HandleKind::stream>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    const Device* device = find_device(green->device);
    made.object->id = call.state.next_id();
    made.object->flags = flags;
    made.object->green = token;
    made.object->scope = call.context;  // waits for no default stream
    made.object->priority.store(std::clamp(priority, device->greatest_priority, device->least_priority));
    call.state.works_beside_default.store(true);
    const CUresult result = gen::issue_cuGreenCtxStreamCreate(call, made.token, token, flags, priority);
    if (result != CUDA_SUCCESS) {
        call.state.streams.remove(made.token);
        return result;
    }
    *phStream = to_handle<CUstream>(made.token);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuGreenCtxRecordEvent(Call& call, CUgreenCtx hCtx, CUevent hEvent) {
    uint64_t token = 0;
    const GreenContext* green = find_green(call, hCtx, token);
    if (!green) return CUDA_ERROR_INVALID_CONTEXT;
    Event* event = call.state.events.find(to_token(hEvent));
    if (!event || event->context != green->context) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult refused = check_green_not_captured(call, token); refused != CUDA_SUCCESS) return refused;
    const CUresult result = gen::issue_cuGreenCtxRecordEvent(call, token, to_token(hEvent));
    if (result == CUDA_SUCCESS) note_recorded_behind_all(call, *event);
    return result;
}

CUresult hook_client_cuGreenCtxWaitEvent(Call& call, CUgreenCtx hCtx, CUevent hEvent) {
    uint64_t token = 0;
    if (!find_green(call, hCtx, token)) return CUDA_ERROR_INVALID_CONTEXT;
    const Event* event = call.state.events.find(to_token(hEvent));
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult refused = check_green_not_captured(call, token); refused != CUDA_SUCCESS) return refused;
    if (const uint64_t id = event->capture_id.load(); call.state.captures.active(id)) {
        call.state.captures.break_off(id);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return gen::issue_cuGreenCtxWaitEvent(call, token, to_token(hEvent));
}

CUresult hook_client_cuGreenCtxGetId(Call& call, CUgreenCtx greenCtx, unsigned long long* greenCtxId) {
    uint64_t token = current_green(call);
    const GreenContext* green = greenCtx ? find_green(call, greenCtx, token) : call.state.green_contexts.find(token);
    if (!green) return CUDA_ERROR_INVALID_CONTEXT;
    *greenCtxId = green->id;
    return CUDA_SUCCESS;
}

}  // namespace warpline::client
