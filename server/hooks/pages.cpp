// Pages of memory that the client's program and the device share (docs/host-memory.md): written and read beside all streams.
#include <vector>

#include "server/gen/internal_calls.gen.h"
#include "server/hooks/common.h"
#include "server/session/regions.h"

namespace warpline::server {

namespace {

/// More than any client of ours names at once.
constexpr uint64_t k_most_page_ranges = 4096, k_most_page_bytes = 64ull << 20;

/// The session's memory, and how much of it. @errors CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY
CUresult check_pages(ServerCall& call, const std::vector<uint64_t>& ranges, Access access, uint64_t& total_bytes) {
    if (ranges.size() % 2 != 0 || ranges.size() > 2 * k_most_page_ranges) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < ranges.size(); i += 2) {
        const uint64_t bytes = ranges[i + 1];
        if (bytes > k_most_page_bytes || (total_bytes += bytes) > k_most_page_bytes) return CUDA_ERROR_INVALID_VALUE;
        WL_CUDA(check_region(call, Region{ranges[i], bytes}, access));
    }
    return CUDA_SUCCESS;
}

/// A stream that waits for no other one, and that no other one waits for.
CUresult stream_of_pages(ServerCall& call, CUstream& stream) {
    return call.session().streams().of_thread(Streams::k_pages_thread, call.scope(), stream);
}

}  // namespace

CUresult hook_server_wlWritePages(ServerCall& call, const WlWritePagesArgs& args) {
    const auto copy = WL_DRIVER(call, cuMemcpyHtoDAsync_v2);
    const auto wait = WL_DRIVER(call, cuStreamSynchronize);
    uint64_t total_bytes = 0;
    WL_CUDA(check_pages(call, args.ranges, Access::write, total_bytes));
    if (call.payload_bytes() != total_bytes) return CUDA_ERROR_INVALID_VALUE;
    CUstream stream = nullptr;
    WL_CUDA(stream_of_pages(call, stream));
    const auto payload = call.whole_payload();
    if (!payload.ok()) return result_of(payload.error());
    uint64_t offset = 0;
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < args.ranges.size() && result == CUDA_SUCCESS; i += 2) {
        result = copy(args.ranges[i], payload->data() + offset, args.ranges[i + 1], stream);
        offset += args.ranges[i + 1];
    }
    // The next call may be the launch that reads them.
    const CUresult waited = wait(stream);
    return result != CUDA_SUCCESS ? result : waited;
}

CUresult hook_server_wlReadPages(ServerCall& call, const WlReadPagesArgs& args) {
    const auto copy = WL_DRIVER(call, cuMemcpyDtoHAsync_v2);
    const auto wait = WL_DRIVER(call, cuStreamSynchronize);
    uint64_t total_bytes = 0;
    WL_CUDA(check_pages(call, args.ranges, Access::read, total_bytes));
    if (total_bytes == 0 || !call.reserve_reply_payload(total_bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    CUstream stream = nullptr;
    WL_CUDA(stream_of_pages(call, stream));
    const std::vector<uint64_t> ranges(args.ranges.begin(), args.ranges.end());
    call.release_order();
    uint64_t offset = 0;
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < ranges.size() && result == CUDA_SUCCESS; i += 2) {
        result = copy(call.reply_payload().data() + offset, ranges[i], ranges[i + 1], stream);
        offset += ranges[i + 1];
    }
    const CUresult waited = wait(stream);
    if (result == CUDA_SUCCESS) result = waited;
    if (result != CUDA_SUCCESS) call.drop_reply_payload();
    return result;
}

}  // namespace warpline::server
