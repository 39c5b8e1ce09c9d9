// How copies of all shapes travel: what the program describes is brought into one form, and sent in the direction it has.
#include "client/copy/copy_plan.h"

#include "client/call/ahead.h"
#include "client/call/pages_along.h"
#include "client/copy/array_part.h"
#include "client/copy/copies_on_host.h"
#include "client/copy/graph_copies.h"
#include "client/copy/late_copy.h"
#include "client/copy/program_memory.h"
#include "client/gen/copy_calls.gen.h"
#include "client/gen/internal_calls.gen.h"

namespace warpline::client {

namespace {

/// A pitch of zero stands for rows without gaps.
void fill_in_pitch(CopyEnd& end, size_t width, size_t height) {
    if (end.pitch == 0) end.pitch = end.x + width;
    if (end.height == 0) end.height = end.y + height;
}
uint64_t offset_of(const CopyEnd& end) { return (end.z * end.height + end.y) * end.pitch + end.x; }
uint64_t span_of(const CopyEnd& end, size_t width, size_t height, size_t depth) {
    return ((depth - 1) * end.height + (height - 1)) * end.pitch + width;
}

/// Turns unified addresses into host or device ones, and checks that rows fit into their pitch.
CUresult settle_end(Call& call, CopyEnd& end, Use use, size_t width, size_t height, size_t depth) {
    if (end.type == CU_MEMORYTYPE_UNIFIED) {
        if (side_of(call.state, end.device) == Side::device) {
            end.type = CU_MEMORYTYPE_DEVICE;
        } else {
            end.type = CU_MEMORYTYPE_HOST;
            end.host = reinterpret_cast<const void*>(end.device);
        }
    }
    if (end.type == CU_MEMORYTYPE_DEVICE && is_registered_memory(call.state, end.device)) {
        end.type = CU_MEMORYTYPE_HOST;
        end.host = reinterpret_cast<const void*>(end.device);
    }
    use_on_device(call.state, end, use, width, height, depth);
    switch (end.type) {
        case CU_MEMORYTYPE_ARRAY: return check_in_array(call, end.array, {end.x, end.y, end.z, width, height, depth});
        case CU_MEMORYTYPE_HOST:
            if (!end.host) return CUDA_ERROR_INVALID_VALUE;
            break;
        case CU_MEMORYTYPE_DEVICE: break;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    fill_in_pitch(end, width, height);
    if ((height > 1 || depth > 1) && (end.x > end.pitch || width > end.pitch - end.x)) return CUDA_ERROR_INVALID_VALUE;
    if (depth > 1 && (end.y > end.height || height > end.height - end.y)) return CUDA_ERROR_INVALID_VALUE;
    if (end.type != CU_MEMORYTYPE_DEVICE) return CUDA_SUCCESS;
    return check_device_range(call, end.device + offset_of(end), span_of(end, width, height, depth));
}

CopyTarget rows_of(const CopyEnd& end, size_t width, size_t height, size_t depth) {
    auto* base = static_cast<std::byte*>(const_cast<void*>(end.host));
    uint64_t slice = end.pitch * end.height;
    return {base + end.z * slice + end.y * end.pitch + end.x, width, height, end.pitch, depth, slice};
}

CUresult context_token(const Call& call, CUcontext context, uint64_t& token) {
    token = context ? to_token(context) : call.context;
    return call.state.contexts.find(token) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/// Brings one end into the form in which it travels.
CUresult plan_end(Call& call, CopyEnd end, CopyEnd::Which which, CopyPlan& plan) {
    CUDA_MEMCPY3D_PEER& copy = plan.copy;
    PlannedEnd& planned = plan.end(which);
    const Use use = which == CopyEnd::Which::source ? Use::read : Use::write;
    if (CUresult result = settle_end(call, end, use, copy.WidthInBytes, copy.Height, copy.Depth); result != CUDA_SUCCESS)
        return result;
    if (CUresult result = context_token(call, end.context, planned.context); result != CUDA_SUCCESS) return result;
    planned.is_host = end.type == CU_MEMORYTYPE_HOST;
    if (planned.is_host) {
        planned.rows = rows_of(end, copy.WidthInBytes, copy.Height, copy.Depth);
        end = CopyEnd{};
        end.pitch = copy.WidthInBytes;
        end.height = copy.Height;
    } else if (end.type == CU_MEMORYTYPE_ARRAY) {
        planned.array = to_token(end.array);
    }
    end.host = nullptr;
    end.array = nullptr;
    put_end(copy, which, end);
    return CUDA_SUCCESS;
}

CUresult make_plan(Call& call, const CopyEnd& source, const CopyEnd& destination, size_t width, size_t height, size_t depth,
                   CopyPlan& plan) {
    plan = {};
    plan.copy.WidthInBytes = width;
    plan.copy.Height = height;
    plan.copy.Depth = depth;
    if (plan.empty()) return CUDA_SUCCESS;
    const CUresult result = plan_end(call, source, CopyEnd::Which::source, plan);
    return result == CUDA_SUCCESS ? plan_end(call, destination, CopyEnd::Which::destination, plan) : result;
}

CopyEnd host_end(const void* address) {
    CopyEnd end;
    end.host = address;
    return end;
}

CopyEnd device_end(CUdeviceptr address) {
    CopyEnd end;
    end.type = CU_MEMORYTYPE_DEVICE;
    end.device = address;
    return end;
}

/// A copy of memory that the program uses as well: when a synchronous one returns, the program may write to either end.
CUresult settle_shared_copy(Call& call, CUresult result, bool shared, uint64_t stream, Timing timing) {
    if (result != CUDA_SUCCESS || !shared || timing == Timing::asynchronous || is_capturing(call, stream)) return result;
    return with_pages_along(call, [&] { return synchronize_stream(call, stream); });
}

/// copy_late() of a linear copy.
std::optional<CUresult> copy_linear_late(Call& call, CUdeviceptr destination, const void* source, size_t size_bytes,
                                         uint64_t stream, Timing timing) {
    if (!has_to_be_read_late(call, source, size_bytes, stream)) return std::nullopt;
    CopyPlan plan;
    const CUresult planned = make_plan(call, host_end(source), device_end(destination), size_bytes, 1, 1, plan);
    return planned == CUDA_SUCCESS ? copy_late(call, plan, stream, timing) : planned;
}

CUresult send_from_host(Call& call, const CopyPlan& plan, uint64_t stream, Timing timing) {
    if (is_capturing(call, stream)) return capture_host_copy(call, plan, stream);
    if (has_to_be_read_late(call, plan.source.rows.base, plan.source.rows.span_bytes(), stream)) {
        if (const auto late = copy_late(call, plan, stream, timing)) return *late;
    }
    BytesView copy = as_bytes(&plan.copy, sizeof plan.copy);
    const bool settles = plan.copy.dstMemoryType == CU_MEMORYTYPE_DEVICE && is_looked_at(call, plan.copy.dstDevice);
    const bool async = timing == Timing::asynchronous || stream != 0 || settles;
    Bytes rows;
    BytesView bytes;
    if (plan.source.rows.is_linear()) {
        bytes = BytesView(plan.source.rows.base, plan.source.rows.total_bytes());
    } else {
        rows.resize(plan.source.rows.total_bytes());
        plan.source.rows.gather(rows.data());
        bytes = rows;
    }
    call.payload_stays = timing == Timing::asynchronous && call.source != SourceAccess::during_call && rows.empty() &&
                         is_page_locked(call.state, bytes.data(), bytes.size());
    const bool waits = copy_may_wait(call) || is_synchronous(call, plan.copy.dstDevice);
    const auto send = !async && waits ? gen::request_wlCopyToDevice : gen::issue_wlCopyToDevice;
    const CUresult result = send(call, plan.source.array, plan.destination.array, plan.source.context, plan.destination.context,
                                 copy, stream, async, bytes);
    return settle_shared_copy(call, result, settles, stream, timing);
}

CUresult fetch_to_host(Call& call, const CopyPlan& plan, uint64_t stream, Timing timing) {
    if (is_capturing(call, stream)) return capture_host_copy(call, plan, stream);
    BytesView copy = as_bytes(&plan.copy, sizeof plan.copy);
    const CopyTarget& target = plan.destination.rows;
    if (timing == Timing::synchronous) {
        return gen::request_wlCopyFromDevice(call, plan.source.array, plan.destination.array, plan.source.context,
                                             plan.destination.context, copy, stream, stream != 0, target);
    }
    call.copy_to = &target;
    call.copy_context = context_of_work(call, stream);
    call.copy_stream = stream;
    CUresult result = gen::issue_wlCopyFromDeviceAsync(call, plan.source.array, plan.destination.array, plan.source.context,
                                                       plan.destination.context, copy, stream, true, target.total_bytes());
    call.copy_to = nullptr;
    if (result != CUDA_SUCCESS) return result;
    // As with linear copies: CUDA returns from a copy to pageable memory when it is complete.
    if (call.state.host_memory.find(reinterpret_cast<uint64_t>(target.base))) return CUDA_SUCCESS;
    return synchronize_stream(call, stream);
}

/// A synchronous copy there has to be over when it returns.
bool waits_for(const Call& call, uint64_t address) {
    return is_used_here(call.state, address) || is_synchronous(call, address);
}

/// A linear copy that the device makes.
CUresult copy_within_device(Call& call, CUdeviceptr destination, CUdeviceptr source, size_t size_bytes, uint64_t stream,
                            Timing timing) {
    call.stream = stream;
    if (CUresult refused = check_device_range(call, destination, size_bytes); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = check_device_range(call, source, size_bytes); refused != CUDA_SUCCESS) return refused;
    const bool shared = waits_for(call, destination) || waits_for(call, source);
    const CUresult result = gen::issue_cuMemcpyDtoDAsync_v2(call, destination, source, size_bytes, stream);
    return settle_shared_copy(call, result, shared, stream, timing);
}

}  // namespace

void use_on_device(const State& state, CopyEnd& end, Use use, size_t width, size_t height, size_t depth) {
    if (end.type != CU_MEMORYTYPE_HOST || width == 0 || height == 0 || depth == 0) return;
    CopyEnd whole = end;
    fill_in_pitch(whole, width, height);
    const uint64_t first = reinterpret_cast<uint64_t>(end.host) + offset_of(whole);
    const uint64_t there = device_address_of(state, first, span_of(whole, width, height, depth), use);
    if (there == 0) return;
    end.type = CU_MEMORYTYPE_DEVICE;
    end.device = there - offset_of(whole);
}

CUresult plan_copy(Call& call, const CUDA_MEMCPY2D& from, CopyPlan& plan) {
    return make_plan(call, end_of(from, CopyEnd::Which::source), end_of(from, CopyEnd::Which::destination), from.WidthInBytes,
                     from.Height, 1, plan);
}

CUresult plan_copy(Call& call, const CUDA_MEMCPY3D& from, CopyPlan& plan) {
    return make_plan(call, end_of(from, CopyEnd::Which::source), end_of(from, CopyEnd::Which::destination), from.WidthInBytes,
                     from.Height, from.Depth, plan);
}

CUresult plan_copy(Call& call, const CUDA_MEMCPY3D_PEER& from, CopyPlan& plan) {
    CopyEnd source = end_of(from, CopyEnd::Which::source), destination = end_of(from, CopyEnd::Which::destination);
    source.context = from.srcContext;
    destination.context = from.dstContext;
    return make_plan(call, source, destination, from.WidthInBytes, from.Height, from.Depth, plan);
}

/// An end of a planned copy that has become the device's since: it is the device that copies there.
static CUresult leave_to_device(Call& call, CopyPlan& plan, CopyEnd::Which which) {
    PlannedEnd& planned = plan.end(which);
    const CopyTarget rows = planned.rows;
    const auto use = which == CopyEnd::Which::source ? Use::read : Use::write;
    CopyEnd end = device_end(device_address_of(call.state, reinterpret_cast<uint64_t>(rows.base), rows.span_bytes(), use));
    if (end.device == 0) return CUDA_SUCCESS;
    end.context = to_handle<CUcontext>(planned.context);
    end.pitch = rows.pitch_bytes;
    end.height = rows.slices > 1 ? rows.slice_pitch_bytes / rows.pitch_bytes : rows.rows;
    planned = {};
    return plan_end(call, end, which, plan);
}

/// Before the rows of a planned copy are read or written here.
static CUresult begin_uses(Call& call, HostUses& uses, CopyPlan& plan) {
    for (const auto which : {CopyEnd::Which::source, CopyEnd::Which::destination}) {
        if (!plan.end(which).is_host) continue;
        uses.begin(plan.end(which).rows.base);
        if (CUresult refused = leave_to_device(call, plan, which); refused != CUDA_SUCCESS) return refused;
    }
    return CUDA_SUCCESS;
}

/// An end of a copy of rows that is captured into the body of a conditional node: see share_with_body().
static CUresult share_rows_with_body(Call& call, uint64_t graph, CopyPlan& plan, CopyEnd::Which which) {
    const PlannedEnd& planned = plan.end(which);
    if (!planned.is_host) return CUDA_SUCCESS;
    share_with_body(call, graph, planned.rows.base, planned.rows.span_bytes());
    return leave_to_device(call, plan, which);
}

static CUresult share_rows_with_body(Call& call, CopyPlan& plan, uint64_t stream) {
    const uint64_t graph = captured_graph(call, stream);
    if (graph == 0) return CUDA_SUCCESS;
    const CUresult refused = share_rows_with_body(call, graph, plan, CopyEnd::Which::source);
    return refused == CUDA_SUCCESS ? share_rows_with_body(call, graph, plan, CopyEnd::Which::destination) : refused;
}

CUresult run_copy(Call& call, CopyPlan& plan, uint64_t stream, Timing timing) {
    if (plan.empty()) return CUDA_SUCCESS;
    if (CUresult refused = share_rows_with_body(call, plan, stream); refused != CUDA_SUCCESS) return refused;
    if (plan.source.is_host && plan.destination.is_host) return copy_on_host(call, plan, stream);
    HostUses uses(call.state.host_memory);
    if (CUresult refused = begin_uses(call, uses, plan); refused != CUDA_SUCCESS) return refused;
    if (plan.source.is_host) return send_from_host(call, plan, stream, timing);
    if (plan.destination.is_host) return fetch_to_host(call, plan, stream, timing);
    bool async = timing == Timing::asynchronous || stream != 0;
    const CUresult result =
        gen::issue_wlCopyOnDevice(call, plan.source.array, plan.destination.array, plan.source.context,
                                  plan.destination.context, as_bytes(&plan.copy, sizeof plan.copy), stream, async);
    const bool shared = (plan.copy.srcMemoryType == CU_MEMORYTYPE_DEVICE && waits_for(call, plan.copy.srcDevice)) ||
                        (plan.copy.dstMemoryType == CU_MEMORYTYPE_DEVICE && waits_for(call, plan.copy.dstDevice));
    return settle_shared_copy(call, result, shared, stream, timing);
}

CUresult copy_to_device(Call& call, CUdeviceptr destination, const void* source, size_t size_bytes) {
    if (size_bytes == 0) return CUDA_SUCCESS;
    HostUses uses(call.state.host_memory);
    uses.begin(source);
    if (const uint64_t there = device_address_of(call.state, reinterpret_cast<uint64_t>(source), size_bytes, Use::read))
        return copy_within_device(call, destination, there, size_bytes, 0, Timing::synchronous);
    if (is_looked_at(call, destination))
        return copy_to_device_async(call, destination, source, size_bytes, 0, Timing::synchronous);
    call.stream = call.default_stream();
    if (CUresult refused = check_device_range(call, destination, size_bytes); refused != CUDA_SUCCESS) return refused;
    if (const auto late = copy_linear_late(call, destination, source, size_bytes, call.stream, Timing::synchronous))
        return *late;
    if (!copy_may_wait(call) && !is_synchronous(call, destination))
        return gen::issue_cuMemcpyHtoD_v2(call, destination, size_bytes, as_bytes(source, size_bytes));
    const uint64_t records = call.state.records();
    const CUresult result = gen::request_cuMemcpyHtoD_v2(call, destination, size_bytes, as_bytes(source, size_bytes));
    if (result == CUDA_SUCCESS) note_default_idle(call, records);
    return result;
}

CUresult copy_to_device_async(Call& call, CUdeviceptr destination, const void* source, size_t size_bytes, uint64_t stream,
                              Timing timing) {
    if (size_bytes == 0) return CUDA_SUCCESS;
    if (const uint64_t graph = captured_graph(call, stream)) share_with_body(call, graph, source, size_bytes);
    HostUses uses(call.state.host_memory);
    uses.begin(source);
    if (const uint64_t there = device_address_of(call.state, reinterpret_cast<uint64_t>(source), size_bytes, Use::read))
        return copy_within_device(call, destination, there, size_bytes, stream, timing);
    call.stream = stream;
    if (CUresult refused = check_device_range(call, destination, size_bytes); refused != CUDA_SUCCESS) return refused;
    if (is_capturing(call, stream)) {
        CopyPlan plan;
        const CUresult planned = make_plan(call, host_end(source), device_end(destination), size_bytes, 1, 1, plan);
        return planned == CUDA_SUCCESS ? capture_host_copy(call, plan, stream) : planned;
    }
    if (const auto late = copy_linear_late(call, destination, source, size_bytes, stream, timing)) return *late;
    call.payload_stays = call.source != SourceAccess::during_call && is_page_locked(call.state, source, size_bytes);
    const CUresult result =
        gen::issue_cuMemcpyHtoDAsync_v2(call, destination, size_bytes, stream, as_bytes(source, size_bytes));
    return settle_shared_copy(call, result, is_looked_at(call, destination), stream, timing);
}

CUresult copy_from_device(Call& call, const CopyTarget& target, CUdeviceptr source, size_t size_bytes, uint64_t stream,
                          Timing timing) {
    if (size_bytes == 0) return CUDA_SUCCESS;
    if (const uint64_t graph = captured_graph(call, stream)) share_with_body(call, graph, target.base, size_bytes);
    HostUses uses(call.state.host_memory);
    uses.begin(target.base);
    if (const uint64_t there = device_address_of(call.state, reinterpret_cast<uint64_t>(target.base), size_bytes, Use::write))
        return copy_within_device(call, there, source, size_bytes, stream, timing);
    call.stream = stream;
    if (CUresult refused = check_device_range(call, source, size_bytes); refused != CUDA_SUCCESS) return refused;
    // To page-locked memory an asynchronous copy is that; to pageable memory CUDA returns when it is complete
    // (CUDA Driver API, API synchronization behavior).
    const bool waits = timing == Timing::synchronous || !is_page_locked(call.state, target.base, 1);
    if (waits && stream <= 1 && !call.state.captures.any()) {
        const uint64_t records = call.state.records();
        const CUresult result = read_device(call, target, source, size_bytes);
        if (result == CUDA_SUCCESS && call.number != 0) note_default_idle(call, records);
        return result;
    }
    if (is_capturing(call, stream)) {
        CopyPlan plan;
        const CUresult planned = make_plan(call, device_end(source), host_end(target.base), size_bytes, 1, 1, plan);
        return planned == CUDA_SUCCESS ? capture_host_copy(call, plan, stream) : planned;
    }
    call.copy_to = &target;
    call.copy_context = context_of_work(call, stream);
    call.copy_stream = stream;
    CUresult result = gen::issue_cuMemcpyDtoHAsync_v2(call, source, size_bytes, stream);
    call.copy_to = nullptr;
    if (result != CUDA_SUCCESS) return result;
    return waits ? synchronize_stream(call, stream) : CUDA_SUCCESS;
}

CUresult copy_any(Call& call, CUdeviceptr destination, CUdeviceptr source, size_t size_bytes, uint64_t stream, Timing timing) {
    if (size_bytes == 0) return CUDA_SUCCESS;
    if (destination == 0 || source == 0) return CUDA_ERROR_INVALID_VALUE;
    if (const uint64_t graph = captured_graph(call, stream)) {
        share_with_body(call, graph, reinterpret_cast<const void*>(source), size_bytes);
        share_with_body(call, graph, reinterpret_cast<const void*>(destination), size_bytes);
    }
    if (const uint64_t there = device_address_of(call.state, destination, size_bytes, Use::write)) destination = there;
    if (const uint64_t there = device_address_of(call.state, source, size_bytes, Use::read)) source = there;
    bool to_device = side_of(call.state, destination) == Side::device;
    bool from_device = side_of(call.state, source) == Side::device;
    auto* host_source = reinterpret_cast<const void*>(source);
    if (to_device && from_device) return copy_within_device(call, destination, source, size_bytes, stream, timing);
    if (to_device) {
        if (timing == Timing::asynchronous || stream != 0)
            return copy_to_device_async(call, destination, host_source, size_bytes, stream, timing);
        return copy_to_device(call, destination, host_source, size_bytes);
    }
    CopyTarget target = CopyTarget::linear(reinterpret_cast<void*>(destination), size_bytes);
    if (from_device) return copy_from_device(call, target, source, size_bytes, stream, timing);
    CopyPlan plan;
    plan.source.rows = CopyTarget::linear(const_cast<void*>(host_source), size_bytes);
    plan.destination.rows = target;
    return copy_on_host(call, plan, stream);
}

}  // namespace warpline::client
