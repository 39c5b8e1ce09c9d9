// Green contexts: asking for multiprocessors and work queues, dividing them, and streams that run on some of them.
#include "softgpu/driver/context/green_context.h"

#include <algorithm>

#include "softgpu/driver/config/version.h"
#include "softgpu/driver/context/event.h"
#include "softgpu/driver/context/stream.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/life/context_end.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

CUresult cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource* resource, CUdevResourceType type);

namespace {

/// The first driver to make green contexts without CU_GREEN_CTX_DEFAULT_STREAM.
constexpr int k_optional_stream = 13010;

/// Asked before whose resource it is.
bool is_resource(CUdevResourceType type) {
    const auto number = static_cast<unsigned>(type);
    const bool queues = number == cuda::abi::k_resource_workqueue_config || number == cuda::abi::k_resource_workqueue;
    return number == cuda::abi::k_resource_sm || (queues && driver_version() >= cuda::abi::k_workqueue_driver);
}

/// @param queues  null: there are none to be told
CUresult give(const SmResource& found, const Workqueues* queues, CUdevResource* resource, CUdevResourceType type) {
    if (resource == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto number = static_cast<unsigned>(type);
    const bool has_queues = queues != nullptr && driver_version() >= cuda::abi::k_workqueue_driver;
    if (number == cuda::abi::k_resource_sm) {
        *resource = as_resource(found);
    } else if (number == cuda::abi::k_resource_workqueue_config && has_queues) {
        *resource = as_workqueue_config(*queues);
    } else if (number == cuda::abi::k_resource_workqueue && has_queues && queues->of != 0) {
        *resource = as_workqueue(*queues);
    } else {
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    }
    return CUDA_SUCCESS;
}

CUresult find_green(CUgreenCtx handle, GreenContextPtr& green) {
    green = process().green_contexts.find(handle);
    return green != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/// One more part of a descriptor. @param has  which kinds it has had before
CUresult add_to(ResourceDescriptor& described, const CUdevResource& part, unsigned& has) {
    constexpr unsigned k_has_sm = 1, k_has_queues = 2;
    const unsigned type = cuda::abi::type_of(part);
    const bool queues = type == cuda::abi::k_resource_workqueue_config || type == cuda::abi::k_resource_workqueue;
    if (queues && driver_version() >= cuda::abi::k_workqueue_driver) {
        if ((has & k_has_queues) != 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        has |= k_has_queues;
        return read_workqueues(part, described.workqueues);
    }
    SmResource one;
    CU_TRY(read_resource(part, one));
    const SmResource& all = described.resource;
    // DB-65: they need not be of one split, nor apart; those that are named twice are told twice.
    const bool fits = one.device == all.device && one.split != 0 && all.split != 0 && one.alignment == all.alignment;
    if ((has & k_has_sm) != 0 && !fits) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    has |= k_has_sm;
    one.named_again += all.named_again + static_cast<unsigned>((one.set & all.set).count());
    one.set |= all.set;
    described.resource = one;
    return CUDA_SUCCESS;
}

/// Completes what was named: what nothing was said of is the device's.
CUresult complete(ResourceDescriptor& described) {
    const bool has_sm = described.resource.set.any(), has_queues = described.workqueues.config.concurrency_limit != 0;
    const int ordinal = has_sm ? described.resource.device : described.workqueues.config.device;
    if (has_sm && has_queues && described.workqueues.config.device != ordinal) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    Device* device = nullptr;
    CU_TRY(find_device(ordinal, device));
    if (!has_sm) described.resource = whole_device(*device);
    if (!has_queues) described.workqueues = usual_workqueues(*device);
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource* resource, CUdevResourceType type) {
    Device* found = nullptr;
    CU_TRY(find_device(device, found));
    const Workqueues queues = usual_workqueues(*found);
    return give(whole_device(*found), &queues, resource, type);
}

CUresult cuCtxGetDevResource(CUcontext hCtx, CUdevResource* resource, CUdevResourceType type) {
    if (resource == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!is_resource(type)) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    NamedContext named;
    CU_TRY(find_named_context(hCtx, named));
    if (named.green != nullptr) return driver::cuGreenCtxGetDevResource(named.green->handle(), resource, type);
    const Device& device = named.context->device();
    Workqueues queues = usual_workqueues(device);
    queues.of = named.context->id();
    return give(whole_device(device), &queues, resource, type);
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource* resource, CUdevResourceType type) {
    if (resource == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!is_resource(type)) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    GreenContextPtr green;
    CU_TRY(find_green(hCtx, green));
    SmResource found = green->resource();
    found.split = 0;  // it may be divided again
    Workqueues queues = green->workqueues();
    if (queues.of == 0) queues.of = green->id();
    return give(found, &queues, resource, type);
}

CUresult cuStreamGetDevResource(CUstream hStream, CUdevResource* resource, CUdevResourceType type) {
    StreamPtr stream;
    CU_TRY(find_stream(hStream, stream));
    const GreenContextPtr& green = stream->green();
    SmResource found = green != nullptr ? green->resource() : whole_device(stream->context().device());
    found.split = 0;
    return give(found, nullptr, resource, type);
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

CUresult cuDevSmResourceSplit(CUdevResource* result, unsigned int nbGroups, const CUdevResource* input,
                              CUdevResource* remainder, unsigned int flags, CU_DEV_SM_RESOURCE_GROUP_PARAMS* groupParams) {
    if (input == nullptr || groupParams == nullptr || nbGroups == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    SmResource whole;
    CU_TRY(read_resource(*input, whole));
    SmSplit parts;
    CU_TRY(split_into(whole, {groupParams, nbGroups}, result == nullptr, parts));
    if (result != nullptr) std::transform(parts.groups.begin(), parts.groups.end(), result, as_resource);
    if (remainder != nullptr) *remainder = as_resource(parts.rest);
    return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* phDesc, CUdevResource* resources, unsigned int nbResources) {
    if (phDesc == nullptr || resources == nullptr || nbResources == 0) return CUDA_ERROR_INVALID_VALUE;
    ResourceDescriptor described;
    unsigned has = 0;
    for (unsigned i = 0; i < nbResources; ++i) CU_TRY(add_to(described, resources[i], has));
    CU_TRY(complete(described));
    *phDesc = as_handle<CUdevResourceDesc>(process().resource_descriptors.add(std::make_shared<ResourceDescriptor>(described)));
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxCreate(CUgreenCtx* phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags) {
    // Its default stream is made when it is used: without the flag (CUDA 13.1), too.
    const bool known_flags = flags == CU_GREEN_CTX_DEFAULT_STREAM || (flags == 0 && driver_version() >= k_optional_stream);
    if (phCtx == nullptr || !known_flags) return CUDA_ERROR_INVALID_VALUE;
    auto described = process().resource_descriptors.find(desc);
    if (described == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Device* device = nullptr;
    CU_TRY(find_device(dev, device));
    if (described->resource.device != dev) return CUDA_ERROR_INVALID_DEVICE;
    CU_TRY(retain_primary(*device));
    auto green = std::make_shared<GreenContext>(device->primary, *described);
    green->set_handle(as_handle<CUgreenCtx>(process().green_contexts.add(green)));
    *phCtx = green->handle();
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxDestroy(CUgreenCtx hCtx) {
    auto green = process().green_contexts.remove(hCtx);
    if (green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    static_cast<void>(check_green_not_capturing(*green));  // breaks the captures off
    green->end();
    return release_primary(green->primary()->device());
}

CUresult cuCtxFromGreenCtx(CUcontext* pContext, CUgreenCtx hCtx) {
    if (pContext == nullptr) return CUDA_ERROR_INVALID_VALUE;
    GreenContextPtr green;
    CU_TRY(find_green(hCtx, green));
    *pContext = green->context_handle();
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxStreamCreate(CUstream* phStream, CUgreenCtx greenCtx, unsigned int flags, int priority) {
    if (phStream == nullptr) return CUDA_ERROR_INVALID_VALUE;
    GreenContextPtr green;
    CU_TRY(find_green(greenCtx, green));
    if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    priority = std::clamp(priority, k_greatest_priority, k_least_priority);
    auto stream = std::make_shared<Stream>(green->primary(), QueueKind::non_blocking, flags, priority, 0, green);
    stream->set_handle(process().streams.add(stream));
    green->own_stream(stream);
    *phStream = stream->handle();
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxRecordEvent(CUgreenCtx hCtx, CUevent hEvent) {
    GreenContextPtr green;
    CU_TRY(find_green(hCtx, green));
    auto event = process().events.find(hEvent);
    if (event == nullptr || event->context() != green->primary()) return CUDA_ERROR_INVALID_HANDLE;
    CU_TRY(check_green_not_capturing(*green));
    const std::vector<FencePtr> before = work_of(*green);
    event->record([&](std::function<void()> end) {
        return Scheduler::instance().submit_record(*green->primary()->group(), std::move(end), before, k_greatest_priority);
    });
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxWaitEvent(CUgreenCtx hCtx, CUevent hEvent) {
    GreenContextPtr green;
    CU_TRY(find_green(hCtx, green));
    auto event = process().events.find(hEvent);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    CU_TRY(check_green_not_capturing(*green));
    CU_TRY(check_event_not_captured(*event));
    FencePtr fence = event->fence();
    if (fence == nullptr) return CUDA_SUCCESS;
    green->hold_until(fence);
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxGetId(CUgreenCtx greenCtx, unsigned long long* greenCtxId) {
    if (greenCtxId == nullptr) return CUDA_ERROR_INVALID_VALUE;
    GreenContextPtr green = greenCtx == nullptr ? current_green() : nullptr;
    if (green == nullptr) CU_TRY(find_green(greenCtx, green));
    if (!green->alive()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *greenCtxId = green->id();
    return CUDA_SUCCESS;
}

}  // namespace warpline::softgpu::driver
