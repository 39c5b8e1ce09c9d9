// Pages of memory that the client's program and the device share (docs/host-memory.md): written and read beside all streams.
#include "server/hooks/pages.h"

#include <cstring>
#include <span>
#include <vector>

#include "common/base/fingerprint.h"
#include "server/gen/internal_calls.gen.h"
#include "server/hooks/waits.h"
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

/// Copies what check_pages() has found in order, and waits for that.
CUresult read_pages(ServerCall& call, const std::vector<uint64_t>& ranges, CUstream stream, std::byte* out) {
    const auto copy = WL_DRIVER(call, cuMemcpyDtoHAsync_v2);
    const auto wait = WL_DRIVER(call, cuStreamSynchronize);
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < ranges.size() && result == CUDA_SUCCESS; i += 2) {
        result = copy(out, ranges[i], ranges[i + 1], stream);
        out += ranges[i + 1];
    }
    const CUresult waited = wait(stream);
    return result != CUDA_SUCCESS ? result : waited;
}

/// Reads until two readings are the same: so it was in the moment between them. What goes on changing is as the last but one
/// found it.
/// @param at_once  set: there were two such readings
CUresult read_at_once(ServerCall& call, const std::vector<uint64_t>& ranges, CUstream stream, std::span<std::byte> out,
                      bool& at_once) {
    constexpr int k_most_readings = 4;
    WL_CUDA(read_pages(call, ranges, stream, out.data()));
    Bytes again(out.size());
    for (int i = 1; i < k_most_readings; ++i) {
        WL_CUDA(read_pages(call, ranges, stream, again.data()));
        at_once = std::memcmp(out.data(), again.data(), out.size()) == 0;
        if (at_once) break;
        if (i + 1 < k_most_readings) std::memcpy(out.data(), again.data(), out.size());
    }
    return CUDA_SUCCESS;
}

/// Which of what the client has seen is still so. What cannot be read any more is not.
CUresult find_unchanged(ServerCall& call, const std::vector<uint64_t>& seen, CUstream stream,
                        std::vector<uint64_t>& unchanged) {
    constexpr uint64_t k_most_at_once = 1 << 20;  // what lies side by side is copied together
    Bytes bytes;
    for (size_t i = 0, end = 0; i < seen.size(); i = end) {
        std::vector<uint64_t> range{seen[i], 0};
        for (end = i; end < seen.size() && seen[end] == range[0] + range[1]; end += 3) {
            if (end != i && range[1] + seen[end + 1] > k_most_at_once) break;
            range[1] += seen[end + 1];
        }
        bytes.resize(range[1]);
        WL_CUDA(read_pages(call, range, stream, bytes.data()));
        BytesView left(bytes);
        for (size_t one = i; one < end; one += 3) {
            if (fingerprint(left.first(seen[one + 1])) == seen[one + 2]) unchanged.push_back(one / 3);
            left = left.subspan(seen[one + 1]);
        }
    }
    return CUDA_SUCCESS;
}

CUresult check_seen(ServerCall& call, const std::vector<uint64_t>& seen) {
    std::vector<uint64_t> ranges;
    uint64_t bytes = 0;
    if (seen.size() % 3 != 0) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < seen.size(); i += 3) ranges.insert(ranges.end(), {seen[i], seen[i + 1]});
    return check_pages(call, ranges, Access::read, bytes);
}

CUresult wait_for_work(ServerCall& call, const WlWaitPagesArgs& args) {
    if (args.hEvent != 0) {
        const auto event = WL_FIND(call, CUevent, event, args.hEvent);
        return wait_for_event(call, event);
    }
    const auto stream = WL_FIND(call, CUstream, stream, args.hStream);
    return wait_for_stream(call, stream);
}

}  // namespace

void PagesAlong::prepare() {
    if (m_ranges.empty()) return;
    uint64_t bytes = 0;
    const CUresult checked = check_pages(m_call, m_ranges, Access::read, bytes);
    if (checked == CUDA_SUCCESS && stream_of_pages(m_call, m_stream) == CUDA_SUCCESS) m_bytes = bytes;
}

bool PagesAlong::read(std::byte* out) {
    if (m_bytes == 0) return false;
    uint64_t bytes = 0;
    const FreedMemory::Reading reading(m_call.session().freed());
    // Meanwhile they may have been freed.
    if (check_pages(m_call, m_ranges, Access::read, bytes) != CUDA_SUCCESS) return false;
    return read_pages(m_call, m_ranges, m_stream, out) == CUDA_SUCCESS;
}

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

CUresult hook_server_wlReadPages(ServerCall& call, const WlReadPagesArgs& args, WlReadPagesValues& values) {
    uint64_t total_bytes = 0;
    const FreedMemory::Reading reading(call.session().freed());
    WL_CUDA(check_pages(call, args.ranges, Access::read, total_bytes));
    const std::vector<uint64_t> seen(args.seen.begin(), args.seen.end());
    WL_CUDA(check_seen(call, seen));
    if (total_bytes == 0 && seen.empty()) return CUDA_ERROR_INVALID_VALUE;
    if (total_bytes != 0 && !call.reserve_reply_payload(total_bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    CUstream stream = nullptr;
    WL_CUDA(stream_of_pages(call, stream));
    const std::vector<uint64_t> ranges(args.ranges.begin(), args.ranges.end());
    call.release_order();
    CUresult result = CUDA_SUCCESS;
    if (args.atOnce)
        result = read_at_once(call, ranges, stream, call.reply_payload(), values.atOnce);
    else
        result = read_pages(call, ranges, stream, call.reply_payload().data());
    if (result == CUDA_SUCCESS) result = find_unchanged(call, seen, stream, values.unchanged);
    if (result != CUDA_SUCCESS) call.drop_reply_payload();
    return result;
}

CUresult hook_server_wlWaitBesideCaptures(ServerCall& call, const WlWaitBesideCapturesArgs&,
                                          WlWaitBesideCapturesValues& values) {
    FreedMemory& streams = call.session().freed();
    return streams.wait_beside_captures(
        call.scope(), [&] { call.release_order(); }, values.whole);
}

CUresult hook_server_wlWaitPages(ServerCall& call, const WlWaitPagesArgs& args) {
    PagesAlong pages(call, args.ranges);
    pages.prepare();
    if (pages.bytes() != 0 && !call.reserve_reply_payload(pages.bytes())) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = wait_for_work(call, args);
    if (result != CUDA_SUCCESS || !pages.read(call.reply_payload().data())) call.drop_reply_payload();
    return result;
}

}  // namespace warpline::server
