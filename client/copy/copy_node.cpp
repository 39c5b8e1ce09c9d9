// How a copy node's parameters travel.
#include "client/copy/copy_node.h"

#include "client/copy/program_memory.h"

namespace warpline::client {

namespace {

/// Where an end of a copy begins and how far apart its rows and layers are: descriptions say the same in several ways.
struct Rows {
    uint64_t first = 0, row_pitch = 0, slice_pitch = 0;
    CUarray array = nullptr;
    size_t x = 0, y = 0, z = 0;
    bool operator==(const Rows&) const = default;
};

Rows rows_of(const CUDA_MEMCPY3D& copy, CopyEnd::Which which) {
    const CopyEnd end = end_of(copy, which);
    Rows rows;
    if (end.type == CU_MEMORYTYPE_ARRAY) {
        rows.array = end.array;
        rows.x = end.x, rows.y = end.y, rows.z = end.z;
        return rows;
    }
    const uint64_t pitch = end.pitch != 0 ? end.pitch : copy.WidthInBytes;
    const uint64_t slice = pitch * (end.height != 0 ? end.height : copy.Height);
    rows.first = end.type == CU_MEMORYTYPE_HOST ? reinterpret_cast<uint64_t>(end.host) : end.device;
    rows.first += end.x + end.y * pitch + end.z * slice;
    if (copy.Height > 1) rows.row_pitch = pitch;
    if (copy.Depth > 1) rows.slice_pitch = slice;
    return rows;
}

}  // namespace

bool is_same_copy(const CUDA_MEMCPY3D& a, const CUDA_MEMCPY3D& b) {
    constexpr auto k_from = CopyEnd::Which::source, k_to = CopyEnd::Which::destination;
    return a.WidthInBytes == b.WidthInBytes && a.Height == b.Height && a.Depth == b.Depth &&
           rows_of(a, k_from) == rows_of(b, k_from) && rows_of(a, k_to) == rows_of(b, k_to);
}

CUresult CopyNode::settle(Call& call, CopyEnd::Which which, uint64_t graph, uint64_t& token) {
    CopyEnd end = end_of(copy, which);
    if (end.type == CU_MEMORYTYPE_UNIFIED) {
        end.type = side_of(call.state, end.device) == Side::device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        if (end.type == CU_MEMORYTYPE_HOST) end.host = reinterpret_cast<const void*>(end.device);
    }
    const Use use = which == CopyEnd::Which::source ? Use::read : Use::write;
    if (end.type == CU_MEMORYTYPE_HOST) share_with_body(call, graph, end.host, 1);
    use_on_device(call.state, end, use, copy.WidthInBytes, copy.Height, copy.Depth);
    put_end(copy, which, end);
    if (end.type != CU_MEMORYTYPE_ARRAY)
        return end.type == CU_MEMORYTYPE_DEVICE || end.type == CU_MEMORYTYPE_HOST ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    token = to_token(end.array);
    return check_handle<HandleKind::array>(call, token, false);
}

CUresult CopyNode::read(Call& call, const CUDA_MEMCPY3D& from, uint64_t graph) {
    copy = from;
    CUresult refused = settle(call, CopyEnd::Which::source, graph, source_array);
    if (refused == CUDA_SUCCESS) refused = settle(call, CopyEnd::Which::destination, graph, destination_array);
    if (refused != CUDA_SUCCESS) return refused;
    if (copy.srcMemoryType == CU_MEMORYTYPE_HOST || copy.dstMemoryType == CU_MEMORYTYPE_HOST) {
        CopyPlan plan;
        if (refused = plan_copy(call, copy, plan); refused != CUDA_SUCCESS) return refused;
        if (plan.empty()) return CUDA_ERROR_INVALID_VALUE;
        if (plan.source.is_host && plan.destination.is_host) {
            on_host = std::move(plan);
            return CUDA_SUCCESS;
        }
        const auto which = plan.source.is_host ? CopyEnd::Which::source : CopyEnd::Which::destination;
        host = HostEndOfCopy(end_of(copy, which), plan);
    }
    // Only the server's own handles and addresses travel.
    for (auto which : {CopyEnd::Which::source, CopyEnd::Which::destination}) {
        CopyEnd end = end_of(copy, which);
        end.host = nullptr;
        end.array = nullptr;
        put_end(copy, which, end);
    }
    host.tell_rows(copy);
    return CUDA_SUCCESS;
}

}  // namespace warpline::client
