// How copies of all shapes travel: what the program describes is brought into one form, and sent in the direction it has.
#include "client/copy/copy_plan.h"

#include "client/call/ahead.h"
#include "client/copy/array_part.h"
#include "client/copy/graph_copies.h"
#include "client/copy/program_memory.h"
#include "client/gen/copy_calls.gen.h"
#include "client/gen/internal_calls.gen.h"

namespace warpline::client {

namespace {

/// One end of a copy as the program describes it.
struct End {
    CUmemorytype type = CU_MEMORYTYPE_HOST;
    const void* host = nullptr;
    CUdeviceptr device = 0;
    CUarray array = nullptr;
    size_t x = 0, y = 0, z = 0, level = 0, pitch = 0, height = 0;
    CUcontext context = nullptr;
};

/// Turns unified addresses into host or device ones, and checks that rows fit into their pitch.
CUresult settle_end(Call& call, End& end, size_t width, size_t height, size_t depth) {
    if (end.type == CU_MEMORYTYPE_UNIFIED) {
        if (side_of(call.state, end.device) == Side::device) {
            end.type = CU_MEMORYTYPE_DEVICE;
        } else {
            end.type = CU_MEMORYTYPE_HOST;
            end.host = reinterpret_cast<const void*>(end.device);
        }
    }
    switch (end.type) {
        case CU_MEMORYTYPE_ARRAY: return check_in_array(call, end.array, {end.x, end.y, end.z, width, height, depth});
        case CU_MEMORYTYPE_HOST:
            if (!end.host) return CUDA_ERROR_INVALID_VALUE;
            break;
        case CU_MEMORYTYPE_DEVICE: break;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    // A pitch of zero stands for rows without gaps.
    if (end.pitch == 0) end.pitch = end.x + width;
    if (end.height == 0) end.height = end.y + height;
    if ((height > 1 || depth > 1) && (end.x > end.pitch || width > end.pitch - end.x)) return CUDA_ERROR_INVALID_VALUE;
    if (depth > 1 && (end.y > end.height || height > end.height - end.y)) return CUDA_ERROR_INVALID_VALUE;
    if (end.type != CU_MEMORYTYPE_DEVICE) return CUDA_SUCCESS;
    uint64_t first = end.device + ((end.z * end.height + end.y) * end.pitch + end.x);
    uint64_t last = first + ((depth - 1) * end.height + (height - 1)) * end.pitch + width;
    return check_device_range(call, first, last - first);
}

CopyTarget rows_of(const End& end, size_t width, size_t height, size_t depth) {
    auto* base = static_cast<std::byte*>(const_cast<void*>(end.host));
    uint64_t slice = end.pitch * end.height;
    return {base + end.z * slice + end.y * end.pitch + end.x, width, height, end.pitch, depth, slice};
}

CUresult context_token(const Call& call, CUcontext context, uint64_t& token) {
    token = context ? to_token(context) : call.context;
    return call.state.contexts.find(token) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult make_plan(Call& call, End source, End destination, size_t width, size_t height, size_t depth, CopyPlan& plan) {
    plan = {};
    plan.copy.WidthInBytes = width;
    plan.copy.Height = height;
    plan.copy.Depth = depth;
    if (plan.empty()) return CUDA_SUCCESS;
    if (CUresult result = settle_end(call, source, width, height, depth); result != CUDA_SUCCESS) return result;
    if (CUresult result = settle_end(call, destination, width, height, depth); result != CUDA_SUCCESS) return result;
    if (CUresult result = context_token(call, source.context, plan.source_context); result != CUDA_SUCCESS) return result;
    if (CUresult result = context_token(call, destination.context, plan.destination_context); result != CUDA_SUCCESS)
        return result;
    CUDA_MEMCPY3D_PEER& copy = plan.copy;
    copy.srcMemoryType = source.type;
    copy.dstMemoryType = destination.type;
    if (source.type == CU_MEMORYTYPE_HOST) {
        plan.from_host = true;
        plan.host_source = rows_of(source, width, height, depth);
        copy.srcPitch = width;
        copy.srcHeight = height;
    } else {
        copy.srcXInBytes = source.x, copy.srcY = source.y, copy.srcZ = source.z, copy.srcLOD = source.level;
        copy.srcDevice = source.device, copy.srcPitch = source.pitch, copy.srcHeight = source.height;
        if (source.type == CU_MEMORYTYPE_ARRAY) plan.source_array = to_token(source.array);
    }
    if (destination.type == CU_MEMORYTYPE_HOST) {
        plan.to_host = true;
        plan.host_destination = rows_of(destination, width, height, depth);
        copy.dstPitch = width;
        copy.dstHeight = height;
    } else {
        copy.dstXInBytes = destination.x, copy.dstY = destination.y, copy.dstZ = destination.z, copy.dstLOD = destination.level;
        copy.dstDevice = destination.device, copy.dstPitch = destination.pitch, copy.dstHeight = destination.height;
        if (destination.type == CU_MEMORYTYPE_ARRAY) plan.destination_array = to_token(destination.array);
    }
    return CUDA_SUCCESS;
}

template <typename Copy>
End source_of(const Copy& from) {
    End end;
    end.type = from.srcMemoryType, end.host = from.srcHost, end.device = from.srcDevice, end.array = from.srcArray;
    end.x = from.srcXInBytes, end.y = from.srcY, end.pitch = from.srcPitch;
    return end;
}

template <typename Copy>
End destination_of(const Copy& from) {
    End end;
    end.type = from.dstMemoryType, end.host = from.dstHost, end.device = from.dstDevice, end.array = from.dstArray;
    end.x = from.dstXInBytes, end.y = from.dstY, end.pitch = from.dstPitch;
    return end;
}

template <typename Copy>
void add_depth(const Copy& from, End& source, End& destination) {
    source.z = from.srcZ, source.level = from.srcLOD, source.height = from.srcHeight;
    destination.z = from.dstZ, destination.level = from.dstLOD, destination.height = from.dstHeight;
}

/// A copy within the program's own memory, in the order of a stream.
CUresult copy_on_host(Call& call, const CopyPlan& plan, uint64_t stream) {
    if (is_capturing(call, stream)) return WL_REFUSE_CALL("cuMemcpy", "a copy within host memory in a graph");
    if (CUresult result = synchronize_stream(call, stream); result != CUDA_SUCCESS) return result;
    Bytes rows(plan.host_source.total_bytes());
    plan.host_source.gather(rows.data());
    plan.host_destination.write(0, rows);
    return CUDA_SUCCESS;
}

CUresult send_from_host(Call& call, const CopyPlan& plan, uint64_t stream, Timing timing) {
    if (is_capturing(call, stream)) return capture_host_copy(call, plan, stream);
    settle_host_memory(call, plan.host_source.base, plan.host_source.span_bytes());
    BytesView copy = as_bytes(&plan.copy, sizeof plan.copy);
    bool async = timing == Timing::asynchronous || stream != 0;
    Bytes rows;
    BytesView bytes;
    if (plan.host_source.is_linear()) {
        bytes = BytesView(plan.host_source.base, plan.host_source.total_bytes());
    } else {
        rows.resize(plan.host_source.total_bytes());
        plan.host_source.gather(rows.data());
        bytes = rows;
    }
    call.payload_stays =
        timing == Timing::asynchronous && rows.empty() && is_page_locked(call.state, bytes.data(), bytes.size());
    const auto send = !async && copy_may_wait(call) ? gen::request_wlCopyToDevice : gen::issue_wlCopyToDevice;
    return send(call, plan.source_array, plan.destination_array, plan.source_context, plan.destination_context, copy, stream,
                async, bytes);
}

CUresult fetch_to_host(Call& call, const CopyPlan& plan, uint64_t stream, Timing timing) {
    if (is_capturing(call, stream)) return capture_host_copy(call, plan, stream);
    BytesView copy = as_bytes(&plan.copy, sizeof plan.copy);
    const CopyTarget& target = plan.host_destination;
    if (timing == Timing::synchronous) {
        return gen::request_wlCopyFromDevice(call, plan.source_array, plan.destination_array, plan.source_context,
                                             plan.destination_context, copy, stream, stream != 0, target);
    }
    call.copy_to = &target;
    CUresult result = gen::issue_wlCopyFromDeviceAsync(call, plan.source_array, plan.destination_array, plan.source_context,
                                                       plan.destination_context, copy, stream, true, target.total_bytes());
    call.copy_to = nullptr;
    if (result != CUDA_SUCCESS) return result;
    // As with linear copies: CUDA returns from a copy to pageable memory when it is complete.
    if (call.state.host_memory.find(reinterpret_cast<uint64_t>(target.base))) return CUDA_SUCCESS;
    return synchronize_stream(call, stream);
}

CopyPlan linear_plan(const Call& call, size_t size_bytes) {
    CopyPlan plan;
    plan.copy.WidthInBytes = plan.copy.srcPitch = plan.copy.dstPitch = size_bytes;
    plan.copy.Height = plan.copy.srcHeight = plan.copy.dstHeight = 1;
    plan.copy.Depth = 1;
    plan.source_context = plan.destination_context = call.context;
    return plan;
}

}  // namespace

CUresult plan_copy(Call& call, const CUDA_MEMCPY2D& from, CopyPlan& plan) {
    return make_plan(call, source_of(from), destination_of(from), from.WidthInBytes, from.Height, 1, plan);
}

CUresult plan_copy(Call& call, const CUDA_MEMCPY3D& from, CopyPlan& plan) {
    End source = source_of(from), destination = destination_of(from);
    add_depth(from, source, destination);
    return make_plan(call, source, destination, from.WidthInBytes, from.Height, from.Depth, plan);
}

CUresult plan_copy(Call& call, const CUDA_MEMCPY3D_PEER& from, CopyPlan& plan) {
    End source = source_of(from), destination = destination_of(from);
    add_depth(from, source, destination);
    source.context = from.srcContext;
    destination.context = from.dstContext;
    return make_plan(call, source, destination, from.WidthInBytes, from.Height, from.Depth, plan);
}

CUresult run_copy(Call& call, CopyPlan& plan, uint64_t stream, Timing timing) {
    if (plan.empty()) return CUDA_SUCCESS;
    if (plan.from_host && plan.to_host) return copy_on_host(call, plan, stream);
    if (plan.from_host) return send_from_host(call, plan, stream, timing);
    if (plan.to_host) return fetch_to_host(call, plan, stream, timing);
    bool async = timing == Timing::asynchronous || stream != 0;
    return gen::issue_wlCopyOnDevice(call, plan.source_array, plan.destination_array, plan.source_context,
                                     plan.destination_context, as_bytes(&plan.copy, sizeof plan.copy), stream, async);
}

CUresult copy_to_device(Call& call, CUdeviceptr destination, const void* source, size_t size_bytes) {
    if (size_bytes == 0) return CUDA_SUCCESS;
    if (CUresult refused = check_device_range(call, destination, size_bytes); refused != CUDA_SUCCESS) return refused;
    settle_host_memory(call, source, size_bytes);
    if (!copy_may_wait(call)) return gen::issue_cuMemcpyHtoD_v2(call, destination, size_bytes, as_bytes(source, size_bytes));
    const CUresult result = gen::request_cuMemcpyHtoD_v2(call, destination, size_bytes, as_bytes(source, size_bytes));
    if (result == CUDA_SUCCESS) note_default_idle(call);
    return result;
}

CUresult copy_to_device_async(Call& call, CUdeviceptr destination, const void* source, size_t size_bytes, uint64_t stream) {
    if (size_bytes == 0) return CUDA_SUCCESS;
    if (CUresult refused = check_device_range(call, destination, size_bytes); refused != CUDA_SUCCESS) return refused;
    if (is_capturing(call, stream)) {
        CopyPlan plan = linear_plan(call, size_bytes);
        plan.from_host = true;
        plan.host_source = CopyTarget::linear(const_cast<void*>(source), size_bytes);
        plan.copy.srcMemoryType = CU_MEMORYTYPE_HOST;
        plan.copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        plan.copy.dstDevice = destination;
        return capture_host_copy(call, plan, stream);
    }
    settle_host_memory(call, source, size_bytes);
    call.payload_stays = is_page_locked(call.state, source, size_bytes);
    return gen::issue_cuMemcpyHtoDAsync_v2(call, destination, size_bytes, stream, as_bytes(source, size_bytes));
}

CUresult copy_from_device(Call& call, const CopyTarget& target, CUdeviceptr source, size_t size_bytes, uint64_t stream,
                          Timing timing) {
    if (size_bytes == 0) return CUDA_SUCCESS;
    if (CUresult refused = check_device_range(call, source, size_bytes); refused != CUDA_SUCCESS) return refused;
    // To page-locked memory an asynchronous copy is that; to pageable memory CUDA returns when it is complete
    // (CUDA Driver API, API synchronization behavior).
    const bool waits = timing == Timing::synchronous || !is_page_locked(call.state, target.base, 1);
    if (waits && stream <= 1 && !call.state.captures.any()) {
        const CUresult result = read_device(call, target, source, size_bytes);
        if (result == CUDA_SUCCESS && call.number != 0) note_default_idle(call);
        return result;
    }
    if (is_capturing(call, stream)) {
        CopyPlan plan = linear_plan(call, size_bytes);
        plan.to_host = true;
        plan.host_destination = target;
        plan.copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
        plan.copy.srcDevice = source;
        plan.copy.dstMemoryType = CU_MEMORYTYPE_HOST;
        return capture_host_copy(call, plan, stream);
    }
    call.copy_to = &target;
    CUresult result = gen::issue_cuMemcpyDtoHAsync_v2(call, source, size_bytes, stream);
    call.copy_to = nullptr;
    if (result != CUDA_SUCCESS) return result;
    return waits ? synchronize_stream(call, stream) : CUDA_SUCCESS;
}

CUresult copy_any(Call& call, CUdeviceptr destination, CUdeviceptr source, size_t size_bytes, uint64_t stream, Timing timing) {
    if (size_bytes == 0) return CUDA_SUCCESS;
    if (destination == 0 || source == 0) return CUDA_ERROR_INVALID_VALUE;
    bool to_device = side_of(call.state, destination) == Side::device;
    bool from_device = side_of(call.state, source) == Side::device;
    auto* host_source = reinterpret_cast<const void*>(source);
    if (to_device && from_device) {
        if (CUresult refused = check_device_range(call, destination, size_bytes); refused != CUDA_SUCCESS) return refused;
        if (CUresult refused = check_device_range(call, source, size_bytes); refused != CUDA_SUCCESS) return refused;
        return gen::issue_cuMemcpyDtoDAsync_v2(call, destination, source, size_bytes, stream);
    }
    if (to_device) {
        if (timing == Timing::asynchronous || stream != 0)
            return copy_to_device_async(call, destination, host_source, size_bytes, stream);
        return copy_to_device(call, destination, host_source, size_bytes);
    }
    CopyTarget target = CopyTarget::linear(reinterpret_cast<void*>(destination), size_bytes);
    if (from_device) return copy_from_device(call, target, source, size_bytes, stream, timing);
    CopyPlan plan;
    plan.host_source = CopyTarget::linear(const_cast<void*>(host_source), size_bytes);
    plan.host_destination = target;
    return copy_on_host(call, plan, stream);
}

}  // namespace warpline::client
