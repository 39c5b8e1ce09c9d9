// What clients ask along with a wait, because their programs will probably ask it next.
#include <bit>
#include <vector>

#include "server/gen/internal_calls.gen.h"
#include "server/hooks/host_transfer.h"
#include "server/hooks/pages.h"
#include "server/hooks/reach.h"
#include "server/hooks/waits.h"
#include "server/session/regions.h"

namespace warpline::server {

namespace {

/// More than any client of ours asks for at once.
constexpr uint64_t k_max_ranges = 64, k_max_pairs = 64, k_max_bytes = 1 << 20;

/// The waits of wlReadAhead.
enum class After : uint32_t { nothing, context, default_stream };

CUresult wait_for(ServerCall& call, After after) {
    switch (after) {
        case After::nothing: return CUDA_SUCCESS;
        case After::context: return wait_for_context(call);
        case After::default_stream: return wait_for_stream(call, nullptr);
    }
    return CUDA_ERROR_INVALID_VALUE;
}

/// The order, taken again behind a wait, while nobody else wants it: nothing is freed or destroyed meanwhile.
class OrderAgain {
public:
    explicit OrderAgain(Executor& executor) : m_executor(executor), m_has(executor.retake_order()) {}
    ~OrderAgain() {
        if (m_has) m_executor.return_order();
    }
    OrderAgain(const OrderAgain&) = delete;
    OrderAgain& operator=(const OrderAgain&) = delete;

    explicit operator bool() const { return m_has; }

private:
    Executor& m_executor;
    const bool m_has;
};

bool are_pairs(const std::vector<uint64_t>& events) { return events.size() % 2 == 0 && events.size() <= 2 * k_max_pairs; }

CUresult elapsed(ServerCall& call, uint64_t start_token, uint64_t end_token, float& milliseconds) {
    const auto ask = WL_DRIVER(call, cuEventElapsedTime_v2);
    const auto start = WL_FIND(call, CUevent, event, start_token);
    const auto end = WL_FIND(call, CUevent, event, end_token);
    return ask(&milliseconds, start, end);
}

/// With the order.
void answer_times(ServerCall& call, const std::vector<uint64_t>& events, std::vector<uint64_t>& times) {
    for (size_t i = 0; i < events.size(); i += 2) {
        float milliseconds = 0;
        const uint64_t result = elapsed(call, events[i], events[i + 1], milliseconds);
        times.push_back(result << 32 | std::bit_cast<uint32_t>(milliseconds));
    }
}

bool are_ranges(const std::vector<uint64_t>& ranges, uint64_t& total_bytes) {
    if (ranges.size() % 2 != 0 || ranges.size() > 2 * k_max_ranges) return false;
    for (size_t i = 1; i < ranges.size(); i += 2) {
        if (ranges[i] > k_max_bytes || (total_bytes += ranges[i]) > k_max_bytes) return false;
    }
    return true;
}

/// The ranges of a call, copied one after another into the payload of its reply.
class Ranges {
public:
    Ranges(ServerCall& call, const std::vector<uint64_t>& ranges) : m_call(call), m_ranges(ranges) {}

    uint32_t read() const { return m_read; }
    uint64_t bytes() const { return m_bytes; }
    bool has_next() const { return 2 * m_read < m_ranges.size(); }

    /// cuMemcpyDtoH of the next one. @param has_order  the caller has it
    CUresult read_next(bool has_order) {
        const uint64_t address = m_ranges[2 * m_read], bytes = m_ranges[2 * m_read + 1];
        WL_CUDA(check_region(m_call, Region{address, bytes}, Access::read));
        const MutableBytesView out = m_call.reply_payload().subspan(m_bytes, bytes);
        const bool at_once = has_order && waits_for_nothing(m_call, address, bytes);
        WL_CUDA(wait_in_reach(m_call, address, [&]() -> CUresult {
            if (at_once) return WL_DRIVER(m_call, cuMemcpyDtoH_v2)(out.data(), address, bytes);
            const auto copy = WL_DRIVER(m_call, cuMemcpyDtoHAsync_v2);
            return fetch_from_device(m_call, nullptr, out,
                                     [&](void* staging) { return copy(staging, address, bytes, nullptr); });
        }));
        ++m_read;
        m_bytes += bytes;
        return CUDA_SUCCESS;
    }

private:
    ServerCall& m_call;
    const std::vector<uint64_t>& m_ranges;
    uint32_t m_read = 0;
    uint64_t m_bytes = 0;
};

}  // namespace

CUresult hook_server_wlReadAhead(ServerCall& call, const WlReadAheadArgs& args, WlReadAheadValues& values) {
    const auto after = static_cast<After>(args.after);
    const auto is_busy = WL_DRIVER(call, cuStreamQuery);
    uint64_t total_bytes = 0;
    if (!are_pairs(args.events) || !are_ranges(args.ranges, total_bytes)) return CUDA_ERROR_INVALID_VALUE;
    PagesAlong pages(call, args.pages);
    pages.prepare();
    total_bytes += pages.bytes();
    if (total_bytes != 0 && !call.reserve_reply_payload(total_bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    Ranges ranges(call, args.ranges);
    if (after == After::nothing && !ranges.has_next()) return CUDA_ERROR_INVALID_VALUE;
    // What the client waits for. Of the rest it is enough that it does not come.
    const bool at_once = after == After::nothing && waits_for_nothing(call, args.ranges[0], args.ranges[1]);
    CUresult result = at_once ? ranges.read_next(true) : CUDA_SUCCESS;
    call.release_order();
    if (!at_once) result = after == After::nothing ? ranges.read_next(false) : wait_for(call, after);
    if (const OrderAgain order(call.session().executor()); order && result == CUDA_SUCCESS) {
        const bool quiet = !ranges.has_next() || is_busy(nullptr) == CUDA_SUCCESS;
        while (quiet && ranges.has_next() && ranges.read_next(true) == CUDA_SUCCESS) {
        }
        answer_times(call, args.events, values.times);
    }
    values.pagesRead = result == CUDA_SUCCESS && total_bytes != 0 && pages.read(call.reply_payload().data() + ranges.bytes());
    call.cut_reply_payload(ranges.bytes() + (values.pagesRead ? pages.bytes() : 0));
    values.read = ranges.read();
    return result;
}

CUresult hook_server_wlEventTimes(ServerCall& call, const WlEventTimesArgs& args, WlEventTimesValues& values) {
    if (!are_pairs(args.events)) return CUDA_ERROR_INVALID_VALUE;
    if (args.hEvent != 0) {
        const auto event = WL_FIND(call, CUevent, event, args.hEvent);
        WL_CUDA(wait_for_event(call, event));
    } else {
        const auto stream = WL_FIND(call, CUstream, stream, args.hStream);
        WL_CUDA(wait_for_stream(call, stream));
    }
    if (const OrderAgain order(call.session().executor()); order) answer_times(call, args.events, values.times);
    return CUDA_SUCCESS;
}

}  // namespace warpline::server
