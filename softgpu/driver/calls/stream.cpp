// Streams: making, asking and waiting for them, callbacks, attributes.
#include "softgpu/driver/context/stream.h"

#include <algorithm>

#include "softgpu/driver/config/version.h"
#include "softgpu/driver/context/event.h"
#include "softgpu/driver/context/green_context.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/graph/enqueue.h"
#include "softgpu/driver/memory/memory.h"
#include "softgpu/driver/operations/host_thread.h"
#include "softgpu/driver/operations/operation.h"
#include "softgpu/driver/process/ask.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

CUresult create(CUstream* out, unsigned int flags, int priority) {
    if (out == nullptr || (flags & ~static_cast<unsigned int>(CU_STREAM_NON_BLOCKING)) != 0) return CUDA_ERROR_INVALID_VALUE;
    *out = nullptr;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    context->gate().pass_to_make();
    QueueKind kind = (flags & CU_STREAM_NON_BLOCKING) != 0 ? QueueKind::non_blocking : QueueKind::blocking;
    priority = std::clamp(priority, k_greatest_priority, k_least_priority);
    const GreenContextPtr green = current_green();
    auto stream = std::make_shared<Stream>(context->shared_from_this(), kind, flags, priority, 0, green);
    stream->set_handle(process().streams.add(stream));
    if (green != nullptr)
        green->own_stream(stream);
    else
        context->streams().add(stream);
    *out = stream->handle();
    return CUDA_SUCCESS;
}

/// The same as find_stream for calls that only ask about a stream: a failed context does not matter.
CUresult inspect(CUstream handle, StreamPtr& stream) {
    if (handle != nullptr && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
        stream = process().streams.find(handle);
        if (stream == nullptr) return not_found(process().streams, handle);
        return stream->green() != nullptr && !stream->green()->alive() ? cuda::abi::detached_stream(driver_version())
                                                                       : CUDA_SUCCESS;
    }
    return find_stream(handle, stream);
}

struct Callback {
    CUstreamCallback function;
    CUstream stream;
    void* user;
};

}  // namespace

CUresult cuStreamCreate(CUstream* phStream, unsigned int Flags) { return create(phStream, Flags, k_least_priority); }
CUresult cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags, int priority) {
    return create(phStream, flags, priority);
}

CUresult cuStreamDestroy_v2(CUstream hStream) {
    if (hStream == nullptr || hStream == CU_STREAM_LEGACY || hStream == CU_STREAM_PER_THREAD) return CUDA_ERROR_INVALID_HANDLE;
    if (const StreamPtr named = process().streams.find(hStream)) named->context().gate().pass_to_make();
    auto stream = process().streams.remove(hStream);
    if (stream == nullptr) return not_found(process().streams, hStream);
    stream->retire();
    return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream hStream) {
    StreamPtr stream;
    CU_TRY(find_stream(hStream, stream));
    CU_TRY(check_wait_for_stream(*stream));
    return stream->idle() ? stream->context().sticky() : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamSynchronize(CUstream hStream) {
    StreamPtr stream;
    CU_TRY(find_stream(hStream, stream));
    CU_TRY(check_wait_for_stream(*stream));
    return stream->synchronise();
}

CUresult cuStreamGetPriority(CUstream hStream, int* priority) {
    return ask<Stream>(inspect, hStream, priority, [](const Stream& stream) { return stream.priority(); });
}

CUresult cuStreamGetFlags(CUstream hStream, unsigned int* flags) {
    return ask<Stream>(inspect, hStream, flags, [](const Stream& stream) { return stream.flags(); });
}

CUresult cuStreamGetId(CUstream hStream, unsigned long long* streamId) {
    return ask<Stream>(inspect, hStream, streamId, [](const Stream& stream) { return stream.id(); });
}

CUresult cuStreamGetDevice(CUstream hStream, CUdevice* device) {
    return ask<Stream>(inspect, hStream, device, [](const Stream& stream) { return stream.context().device().ordinal(); });
}

CUresult cuStreamGetCtx(CUstream hStream, CUcontext* pctx) {
    if (pctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
    StreamPtr stream;
    CU_TRY(inspect(hStream, stream));
    CU_TRY(check_not_capturing(*stream));
    *pctx = NamedContext{stream->context_ptr(), stream->green()}.handle();
    return CUDA_SUCCESS;
}

CUresult cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx* phCtx) {
    return ask<Stream>(inspect, hStream, phCtx,
                       [](const Stream& stream) { return stream.green() != nullptr ? stream.green()->handle() : nullptr; });
}

CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext* pCtx, CUgreenCtx* pGreenCtx) {
    // As it is documented.
    if (hStream == CU_STREAM_PER_THREAD && current_green() != nullptr) return CUDA_ERROR_INVALID_HANDLE;
    StreamPtr stream;
    CU_TRY(inspect(hStream, stream));
    CU_TRY(check_not_capturing(*stream));
    if (pCtx != nullptr) *pCtx = stream->context().handle();
    return pGreenCtx != nullptr ? driver::cuStreamGetGreenCtx(hStream, pGreenCtx) : CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
    if ((Flags & ~static_cast<unsigned int>(CU_EVENT_WAIT_EXTERNAL)) != 0) return CUDA_ERROR_INVALID_VALUE;
    StreamPtr stream;
    CU_TRY(find_stream(hStream, stream));
    EventPtr event;
    CU_TRY(find_event(hEvent, event));
    return wait_for_event(stream, event, hEvent, (Flags & CU_EVENT_WAIT_EXTERNAL) != 0);
}

CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void* userData, unsigned int flags) {
    if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    StreamPtr stream;
    CU_TRY(find_stream(hStream, stream));
    CU_TRY(check_not_capturing(*stream));
    auto context = stream->context_ptr();
    context->gate().pass_to_make();
    stream->wait_for_room();
    // Called with the error, too, if the context has failed by then.
    stream->submit_always([context, call = Callback{callback, hStream, userData}] {
        context->device().flush_printf();
        call_host_function([&] { call.function(call.stream, context->sticky(), call.user); });
    });
    return CUDA_SUCCESS;
}

CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags) {
    StreamPtr stream;
    CU_TRY(find_stream(hStream, stream));
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    AllocationPtr allocation = process().addresses.find(dptr);
    if (allocation == nullptr || allocation->kind != MemoryKind::managed) return CUDA_ERROR_INVALID_VALUE;
    const bool whole = allocation->address == dptr && (length == 0 || length == allocation->size_bytes);
    // The legacy default stream is all streams.
    const bool single = flags == CU_MEM_ATTACH_SINGLE && stream->kind() == QueueKind::legacy;
    if (!whole || single) return CUDA_ERROR_INVALID_VALUE;
    // Host and device share the memory: whom it is attached to makes no difference to what they see.
    return CUDA_SUCCESS;
}

CUresult cuStreamCopyAttributes(CUstream dst, CUstream src) {
    StreamPtr to, from;
    CU_TRY(find_stream(dst, to));
    CU_TRY(find_stream(src, from));
    std::map<int, CUstreamAttrValue> attributes;
    {
        MutexLock lock(from->attribute_mutex);
        attributes = from->attributes;
    }
    to->set_priority(from->priority());
    MutexLock lock(to->attribute_mutex);
    to->attributes = std::move(attributes);
    return CUDA_SUCCESS;
}

CUresult cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue* value) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    StreamPtr stream;
    CU_TRY(inspect(hStream, stream));
    MutexLock lock(stream->attribute_mutex);
    auto found = stream->attributes.find(attr);
    if (found != stream->attributes.end()) {
        *value = found->second;
        return CUDA_SUCCESS;
    }
    CUstreamAttrValue told{};
    switch (attr) {
        case CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY: told.syncPolicy = CU_SYNC_POLICY_AUTO; break;
        case CU_STREAM_ATTRIBUTE_PRIORITY: told.priority = stream->priority(); break;
        case CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN: break;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    *value = told;
    return CUDA_SUCCESS;
}

CUresult cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue* param) {
    if (param == nullptr) return CUDA_ERROR_INVALID_VALUE;
    StreamPtr stream;
    CU_TRY(find_stream(hStream, stream));
    switch (attr) {
        case CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        case CU_STREAM_ATTRIBUTE_PRIORITY: stream->set_priority(param->priority); return CUDA_SUCCESS;
        case CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN: break;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    MutexLock lock(stream->attribute_mutex);
    stream->attributes[attr] = *param;
    return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void* userData) {
    if (fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
    StreamPtr stream;
    CU_TRY(find_stream(hStream, stream));
    return enqueue(*stream, HostOperation{fn, userData});
}

CUresult cuLaunchHostFunc_v2(CUstream hStream, CUhostFn fn, void* userData, unsigned int syncMode) {
    constexpr unsigned int k_spin_wait = 1;  // CU_HOST_TASK_SPINWAIT; streams here wait in one way
    return syncMode <= k_spin_wait ? driver::cuLaunchHostFunc(hStream, fn, userData) : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace warpline::softgpu::driver
