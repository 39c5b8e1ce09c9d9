// Green contexts: asking for multiprocessors, dividing them, and streams that run on some of them.
#include "softgpu/driver/context/green_context.h"

#include <algorithm>

#include "softgpu/driver/context/event.h"
#include "softgpu/driver/context/stream.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/life/context_end.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

CUresult give(const SmResource& found, CUdevResource* resource, CUdevResourceType type) {
    if (resource == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    *resource = as_resource(found);
    return CUDA_SUCCESS;
}

CUresult find_green(CUgreenCtx handle, GreenContextPtr& green) {
    green = process().green_contexts.find(handle);
    return green != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/// All that its streams have been given.
std::vector<FencePtr> work_of(const GreenContext& green) {
    std::vector<FencePtr> fences;
    for (const StreamPtr& stream : green.streams()) {
        for (FencePtr& fence : Scheduler::instance().pending(stream->queue())) fences.push_back(std::move(fence));
    }
    return fences;
}

CUresult check_streams_not_captured(const GreenContext& green) {
    CUresult result = CUDA_SUCCESS;
    for (const StreamPtr& stream : green.streams()) {
        auto capture = stream->capture();
        if (capture == nullptr) continue;
        capture->invalidate();
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return result;
}

}  // namespace

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource* resource, CUdevResourceType type) {
    Device* found = nullptr;
    CU_TRY(find_device(device, found));
    return give(whole_device(*found), resource, type);
}

CUresult cuCtxGetDevResource(CUcontext hCtx, CUdevResource* resource, CUdevResourceType type) {
    auto context = process().contexts.find(hCtx);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    return give(whole_device(context->device()), resource, type);
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource* resource, CUdevResourceType type) {
    GreenContextPtr green;
    CU_TRY(find_green(hCtx, green));
    SmResource found = green->resource();
    found.split = 0;  // it may be divided again
    return give(found, resource, type);
}

CUresult cuStreamGetDevResource(CUstream hStream, CUdevResource* resource, CUdevResourceType type) {
    StreamPtr stream;
    CU_TRY(find_stream(hStream, stream));
    if (stream->green() == nullptr) return give(whole_device(stream->context().device()), resource, type);
    return driver::cuGreenCtxGetDevResource(stream->green()->handle(), resource, type);
}

CUresult cuDevSmResourceSplitByCount(CUdevResource* result, unsigned int* nbGroups, const CUdevResource* input,
                                     CUdevResource* remaining, unsigned int useFlags, unsigned int minCount) {
    if (nbGroups == nullptr || input == nullptr || (result != nullptr && *nbGroups == 0)) return CUDA_ERROR_INVALID_VALUE;
    SmResource whole;
    CU_TRY(read_resource(*input, whole));
    SmSplit parts;
    const unsigned most = result != nullptr ? *nbGroups : static_cast<unsigned>(k_divisible_multiprocessors);
    CU_TRY(split(whole, most, useFlags, minCount, parts));
    if (result != nullptr) std::transform(parts.groups.begin(), parts.groups.end(), result, as_resource);
    if (remaining != nullptr) *remaining = as_resource(parts.rest);
    *nbGroups = static_cast<unsigned>(parts.groups.size());
    return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* phDesc, CUdevResource* resources, unsigned int nbResources) {
    if (phDesc == nullptr || resources == nullptr || nbResources == 0) return CUDA_ERROR_INVALID_VALUE;
    SmResource all;
    for (unsigned i = 0; i < nbResources; ++i) {
        SmResource one;
        CU_TRY(read_resource(resources[i], one));
        const bool fits = one.device == all.device && one.split == all.split && one.split != 0 && (one.set & all.set).none();
        if (i != 0 && !fits) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        one.set |= all.set;
        all = one;
    }
    *phDesc = as_handle<CUdevResourceDesc>(
        process().resource_descriptors.add(std::make_shared<ResourceDescriptor>(ResourceDescriptor{all})));
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxCreate(CUgreenCtx* phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags) {
    if (phCtx == nullptr || flags != CU_GREEN_CTX_DEFAULT_STREAM) return CUDA_ERROR_INVALID_VALUE;
    auto described = process().resource_descriptors.find(desc);
    if (described == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Device* device = nullptr;
    CU_TRY(find_device(dev, device));
    if (described->resource.device != dev) return CUDA_ERROR_INVALID_DEVICE;
    CU_TRY(retain_primary(*device));
    auto green = std::make_shared<GreenContext>(device->primary, described->resource);
    green->set_handle(as_handle<CUgreenCtx>(process().green_contexts.add(green)));
    *phCtx = green->handle();
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxDestroy(CUgreenCtx hCtx) {
    auto green = process().green_contexts.remove(hCtx);
    if (green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    green->end();
    return release_primary(green->primary()->device());
}

CUresult cuGreenCtxStreamCreate(CUstream* phStream, CUgreenCtx greenCtx, unsigned int flags, int priority) {
    if (phStream == nullptr || flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    GreenContextPtr green;
    CU_TRY(find_green(greenCtx, green));
    priority = std::clamp(priority, k_greatest_priority, k_least_priority);
    auto stream = std::make_shared<Stream>(green->primary(), QueueKind::non_blocking, flags, priority, 0);
    stream->set_green(green);
    stream->set_handle(process().streams.add(stream));
    green->primary()->own_stream(stream);
    green->own_stream(stream);
    *phStream = stream->handle();
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxRecordEvent(CUgreenCtx hCtx, CUevent hEvent) {
    GreenContextPtr green;
    CU_TRY(find_green(hCtx, green));
    auto event = process().events.find(hEvent);
    if (event == nullptr || event->context() != green->primary()) return CUDA_ERROR_INVALID_HANDLE;
    CU_TRY(check_streams_not_captured(*green));
    const std::vector<FencePtr> before = work_of(*green);
    event->record([&before](std::function<void()> end) {
        return Scheduler::instance().submit_free(std::move(end), before, k_greatest_priority);
    });
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxWaitEvent(CUgreenCtx hCtx, CUevent hEvent) {
    GreenContextPtr green;
    CU_TRY(find_green(hCtx, green));
    auto event = process().events.find(hEvent);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    CU_TRY(check_streams_not_captured(*green));
    CU_TRY(check_event_not_captured(*event));
    FencePtr fence = event->fence();
    if (fence == nullptr) return CUDA_SUCCESS;
    for (const StreamPtr& stream : green->streams()) stream->submit_always({}, std::span(&fence, 1));
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxGetId(CUgreenCtx greenCtx, unsigned long long* greenCtxId) {
    if (greenCtxId == nullptr) return CUDA_ERROR_INVALID_VALUE;
    GreenContextPtr green;
    CU_TRY(find_green(greenCtx, green));
    *greenCtxId = green->id();
    return CUDA_SUCCESS;
}

}  // namespace warpline::softgpu::driver
