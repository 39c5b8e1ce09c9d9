// Green contexts: parts of a device's multiprocessors. Their streams belong to the primary context here, as its other streams
// do; the server's driver knows which multiprocessors they have.
#include <algorithm>
#include <cstring>
#include <vector>

#include "client/call/completion.h"
#include "client/gen/context_calls.gen.h"
#include "client/gen/green_calls.gen.h"
#include "client/graph/capture.h"

namespace warpline::client {

namespace {

/// Of the kinds of resources, those that travel.
CUresult check_kind(CUdevResourceType type) {
    if (type == CU_DEV_RESOURCE_TYPE_SM) return CUDA_SUCCESS;
    if (type == CU_DEV_RESOURCE_TYPE_INVALID) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    return WL_REFUSE_CALL("CUdevResource", "resources other than multiprocessors (work queues)");
}

/// From CUDA 13.1 on the last word of a resource is the address of another one, here in the program's memory.
bool has_next(const CUdevResource& resource) {
    uint64_t next = 0;
    std::memcpy(&next, reinterpret_cast<const std::byte*>(&resource + 1) - sizeof next, sizeof next);
    return next != 0;
}

template <typename Values>
CUresult give(CUresult result, const Values& answer, CUdevResource* resource) {
    if (result == CUDA_SUCCESS) copy_struct(resource, answer.resource);
    return result;
}

/// The streams of a green context that the program has not destroyed.
std::vector<uint64_t> streams_of(Call& call, uint64_t green) {
    std::vector<uint64_t> tokens;
    call.state.streams.for_each([&](uint64_t token, const Stream& stream) {
        if (stream.green == green) tokens.push_back(token);
    });
    return tokens;
}

/// None of its streams may be captured; the captures that they take part in are broken off.
CUresult check_not_captured(Call& call, uint64_t green) {
    bool concerned = false;
    call.state.streams.for_each([&](uint64_t, const Stream& stream) {
        if (stream.green != green) return;
        const uint64_t id = stream.capture_id.load();
        if (!call.state.captures.active(id)) return;
        call.state.captures.break_off(id);
        concerned = true;
    });
    return concerned ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

}  // namespace

CUresult hook_client_cuDeviceGetDevResource(Call& call, CUdevice device, CUdevResource* resource, CUdevResourceType type) {
    if (!find_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (CUresult refused = check_kind(type); refused != CUDA_SUCCESS) return refused;
    gen::CuDeviceGetDevResourceValues answer;
    return give(gen::request_cuDeviceGetDevResource(call, device, type, answer), answer, resource);
}

CUresult hook_client_cuCtxGetDevResource(Call& call, CUcontext hCtx, CUdevResource* resource, CUdevResourceType type) {
    if (!call.state.contexts.find(to_token(hCtx))) return CUDA_ERROR_INVALID_CONTEXT;
    if (CUresult refused = check_kind(type); refused != CUDA_SUCCESS) return refused;
    gen::CuCtxGetDevResourceValues answer;
    return give(gen::request_cuCtxGetDevResource(call, to_token(hCtx), type, answer), answer, resource);
}

CUresult hook_client_cuGreenCtxGetDevResource(Call& call, CUgreenCtx hCtx, CUdevResource* resource, CUdevResourceType type) {
    if (!call.state.green_contexts.find(to_token(hCtx))) return CUDA_ERROR_INVALID_CONTEXT;
    if (CUresult refused = check_kind(type); refused != CUDA_SUCCESS) return refused;
    gen::CuGreenCtxGetDevResourceValues answer;
    return give(gen::request_cuGreenCtxGetDevResource(call, to_token(hCtx), type, answer), answer, resource);
}

CUresult hook_client_cuStreamGetDevResource(Call& call, CUstream hStream, CUdevResource* resource, CUdevResourceType type) {
    if (CUresult refused = check_stream(call, hStream); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = check_kind(type); refused != CUDA_SUCCESS) return refused;
    gen::CuStreamGetDevResourceValues answer;
    return give(gen::request_cuStreamGetDevResource(call, stream_token(call, hStream), type, answer), answer, resource);
}

CUresult hook_client_cuDevSmResourceSplitByCount(Call& call, CUdevResource* result, unsigned int* nbGroups,
                                                 const CUdevResource* input, CUdevResource* remaining, unsigned int useFlags,
                                                 unsigned int minCount) {
    if (CUresult refused = check_kind(input->type); refused != CUDA_SUCCESS) return refused;
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

CUresult hook_client_cuDevResourceGenerateDesc(Call& call, CUdevResourceDesc* phDesc, CUdevResource* resources,
                                               unsigned int nbResources) {
    if (nbResources == 0) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < nbResources; ++i) {
        if (CUresult refused = check_kind(resources[i].type); refused != CUDA_SUCCESS) return refused;
        if (has_next(resources[i])) return WL_REFUSE_CALL("cuDevResourceGenerateDesc", "chains of resources (work queues)");
    }
    auto made = make_object<HandleKind::resource_desc>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result =
        gen::request_cuDevResourceGenerateDesc(call, made.token, array_bytes(resources, nbResources), nbResources);
    if (result != CUDA_SUCCESS) {
        call.state.resource_descs.remove(made.token);
        return result;
    }
    for (unsigned i = 0; i < nbResources; ++i) made.object->multiprocessors += resources[i].sm.smCount;
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
    made.object->multiprocessors = described->multiprocessors;
    made.object->id = call.state.next_id();
    // It holds the primary context until it is destroyed.
    CUcontext primary = nullptr;
    CUresult result = hook_client_cuDevicePrimaryCtxRetain(call, &primary, dev);
    if (result == CUDA_SUCCESS) {
        result = gen::request_cuGreenCtxCreate(call, made.token, to_token(desc), dev, flags);
        if (result != CUDA_SUCCESS) hook_client_cuDevicePrimaryCtxRelease_v2(call, dev);
    }
    if (result != CUDA_SUCCESS) {
        call.state.green_contexts.remove(made.token);
        return result;
    }
    *phCtx = to_handle<CUgreenCtx>(made.token);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuGreenCtxDestroy(Call& call, CUgreenCtx hCtx) {
    const uint64_t token = to_token(hCtx);
    const GreenContext* green = call.state.green_contexts.find(token);
    if (!green) return CUDA_ERROR_INVALID_CONTEXT;
    const std::vector<uint64_t> streams = streams_of(call, token);
    for (const uint64_t stream : streams) forget_capture(call, stream, *call.state.streams.find(stream));
    call.context = green->context;
    const int device = green->device;
    const CUresult result = gen::issue_cuGreenCtxDestroy(call, token, streams);
    for (const uint64_t stream : streams) call.state.streams.remove(stream);
    call.state.green_contexts.remove(token);
    const CUresult released = hook_client_cuDevicePrimaryCtxRelease_v2(call, device);
    return result == CUDA_SUCCESS ? released : result;
}

CUresult hook_client_cuGreenCtxStreamCreate(Call& call, CUstream* phStream, CUgreenCtx greenCtx, unsigned int flags,
                                            int priority) {
    const GreenContext* green = call.state.green_contexts.find(to_token(greenCtx));
    if (!green) return CUDA_ERROR_INVALID_CONTEXT;
    if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    call.context = green->context;
    auto made = make_object<HandleKind::stream>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    const Device* device = find_device(green->device);
    made.object->id = call.state.next_id();
    made.object->flags = flags;
    made.object->green = to_token(greenCtx);
    made.object->priority = std::clamp(priority, device->greatest_priority, device->least_priority);
    call.state.works_beside_default.store(true);
    const CUresult result = gen::issue_cuGreenCtxStreamCreate(call, made.token, to_token(greenCtx), flags, priority);
    if (result != CUDA_SUCCESS) {
        call.state.streams.remove(made.token);
        return result;
    }
    *phStream = to_handle<CUstream>(made.token);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuGreenCtxRecordEvent(Call& call, CUgreenCtx hCtx, CUevent hEvent) {
    const GreenContext* green = call.state.green_contexts.find(to_token(hCtx));
    if (!green) return CUDA_ERROR_INVALID_CONTEXT;
    Event* event = call.state.events.find(to_token(hEvent));
    if (!event || event->context != green->context) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult refused = check_not_captured(call, to_token(hCtx)); refused != CUDA_SUCCESS) return refused;
    const CUresult result = gen::issue_cuGreenCtxRecordEvent(call, to_token(hCtx), to_token(hEvent));
    if (result == CUDA_SUCCESS) note_recorded_behind_all(call, *event);
    return result;
}

CUresult hook_client_cuGreenCtxWaitEvent(Call& call, CUgreenCtx hCtx, CUevent hEvent) {
    if (!call.state.green_contexts.find(to_token(hCtx))) return CUDA_ERROR_INVALID_CONTEXT;
    const Event* event = call.state.events.find(to_token(hEvent));
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult refused = check_not_captured(call, to_token(hCtx)); refused != CUDA_SUCCESS) return refused;
    if (const uint64_t id = event->capture_id.load(); call.state.captures.active(id)) {
        call.state.captures.break_off(id);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return gen::issue_cuGreenCtxWaitEvent(call, to_token(hCtx), to_token(hEvent));
}

CUresult hook_client_cuGreenCtxGetId(Call& call, CUgreenCtx greenCtx, unsigned long long* greenCtxId) {
    // No green context is the current one of a thread: without a name there is none.
    const GreenContext* green = greenCtx ? call.state.green_contexts.find(to_token(greenCtx)) : nullptr;
    if (!green) return CUDA_ERROR_INVALID_CONTEXT;
    *greenCtxId = green->id;
    return CUDA_SUCCESS;
}

}  // namespace warpline::client
