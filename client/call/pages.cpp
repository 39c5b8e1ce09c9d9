// Handing pages over to the device, and writing back what the program has changed in them.
#include "client/call/pages.h"

#include <algorithm>
#include <cstring>

#include "client/call/mapped.h"
#include "client/call/mirrored.h"
#include "client/gen/internal_calls.gen.h"
#include "client/managed/faults.h"
#include "client/managed/system_calls.h"
#include "client/session/session.h"
#include "common/log/log.h"

namespace warpline::client {

namespace {

/// Calls after which kernels run that may use any memory. What copies and fills use they name (give_pages).
constexpr bool lets_kernels_run(cuda::CallId id) {
    switch (id) {
        case cuda::CallId::cuLaunchKernel:
        case cuda::CallId::cuLaunchKernelEx:
        case cuda::CallId::cuLaunchCooperativeKernel:
        case cuda::CallId::cuGraphLaunch:
        case cuda::CallId::cuStreamWaitValue32_v2:
        case cuda::CallId::cuStreamWaitValue64_v2:
        case cuda::CallId::cuStreamWriteValue32_v2:
        case cuda::CallId::cuStreamWriteValue64_v2:
        case cuda::CallId::cuStreamBatchMemOp_v2: return true;
        default: return false;
    }
}

/// Copies and fills.
constexpr bool uses_named_memory(cuda::CallId id) {
    switch (id) {
        case cuda::CallId::cuMemcpyHtoD_v2:
        case cuda::CallId::cuMemcpyHtoDAsync_v2:
        case cuda::CallId::cuMemcpyDtoD_v2:
        case cuda::CallId::cuMemcpyDtoDAsync_v2:
        case cuda::CallId::cuMemcpyPeer:
        case cuda::CallId::cuMemcpyPeerAsync:
        case cuda::CallId::cuMemsetD8Async:
        case cuda::CallId::cuMemsetD16Async:
        case cuda::CallId::cuMemsetD32Async:
        case cuda::CallId::cuMemsetD2D8Async:
        case cuda::CallId::cuMemsetD2D16Async:
        case cuda::CallId::cuMemsetD2D32Async:
        case cuda::CallId::cuMemcpyDtoH_v2:
        case cuda::CallId::cuMemcpyDtoHAsync_v2:
        case cuda::CallId::wlCopyToDevice:
        case cuda::CallId::wlCopyToDeviceLate:
        case cuda::CallId::wlCopyFromDevice:
        case cuda::CallId::wlCopyFromDeviceAsync:
        case cuda::CallId::wlCopyOnDevice: return true;
        default: return false;
    }
}

/// True if the call gives work to the stream that memory is attached to, or may.
bool may_work_on(const Call& call, const Attachment& attached) {
    return call.stream == Call::k_unknown_stream || call.stream == attached.stream;
}

/// A call of ours on behalf of the program's.
Call own_call(const Call& call, uint64_t context) {
    Call own{call.id, call.thread, call.session, call.state, context};
    return own;
}

/// Calls after which kernels run that were launched before, and wait for it.
constexpr bool lets_others_go_on(cuda::CallId id) {
    return id == cuda::CallId::cuStreamWriteValue32_v2 || id == cuda::CallId::cuStreamWriteValue64_v2 ||
           id == cuda::CallId::cuStreamBatchMemOp_v2;
}

/// What is written with one message.
struct Batch {
    std::vector<uint64_t> ranges;  // address and bytes, in turn
    std::vector<AddressRange> pieces;
    uint64_t bytes = 0;
};

CUresult send_batch(const Call& call, const SharedRegion& shared, const Batch& batch) {
    if (batch.bytes == 0) return CUDA_SUCCESS;
    Call own = own_call(call, shared.context);
    Bytes packed;
    BytesView payload;
    if (batch.pieces.size() == 1) {
        payload = BytesView(shared.region->at(batch.pieces[0].base), batch.bytes);
    } else {
        packed.reserve(batch.bytes);
        for (const AddressRange& piece : batch.pieces) {
            const BytesView bytes(shared.region->at(piece.base), piece.size_bytes);
            packed.insert(packed.end(), bytes.begin(), bytes.end());
        }
        payload = packed;
    }
    return gen::issue_wlWritePages(own, batch.ranges, payload);
}

/// Addresses in what is written there. Of a word of which some bytes have changed all count.
void note_named_in(const Call& call, const SharedRegion& shared, AddressRange written) {
    constexpr uint64_t k_word_mask = sizeof(uint64_t) - 1;
    const uint64_t begin = written.base & ~k_word_mask, end = (written.end() + k_word_mask) & ~k_word_mask;
    note_named_memory(call, BytesView(shared.region->at(begin), end - begin));
}
}  // namespace

std::vector<AttachedPiece> attached_pieces(const State& state, const SharedRegion& shared, AddressRange range) {
    std::vector<AttachedPiece> pieces;
    const auto add = [&](uint64_t begin, uint64_t end, uint64_t stream, bool host_only) {
        begin = std::max(begin, range.base);
        end = std::min(end, range.end());
        if (begin < end) pieces.push_back({{begin, end - begin}, stream, host_only});
    };
    uint64_t at = range.base;
    for (const Attachment& attached : shared.attached) {
        const Stream* stream = state.streams.find(attached.stream);
        // With the stream what was said ends, and what held from the beginning holds again.
        const bool holds = attached.stream == 0 || (stream && !stream->detached.load());
        add(at, attached.range.base, 0, shared.host_only);
        add(attached.range.base, attached.range.end(), holds ? attached.stream : 0,
            holds ? attached.host_only : shared.host_only);
        at = std::max(at, attached.range.end());
    }
    add(at, range.end(), 0, shared.host_only);
    return pieces;
}

CUresult write_to_device(const Call& call, const SharedRegion& shared, const std::vector<AddressRange>& ranges) {
    Batch batch;
    for (AddressRange range : ranges) {
        note_named_in(call, shared, range);
        while (range.size_bytes != 0) {
            if (batch.bytes == k_most_written_bytes || batch.pieces.size() == k_most_written_ranges) {
                if (CUresult result = send_batch(call, shared, batch); result != CUDA_SUCCESS) return result;
                batch = {};
            }
            const uint64_t bytes = std::min(range.size_bytes, k_most_written_bytes - batch.bytes);
            batch.ranges.insert(batch.ranges.end(), {range.base, bytes});
            batch.pieces.push_back({range.base, bytes});
            batch.bytes += bytes;
            SharedPages::instance().counters.written_back_bytes.fetch_add(bytes, std::memory_order_relaxed);
            range = {range.base + bytes, range.size_bytes - bytes};
        }
    }
    return send_batch(call, shared, batch);
}

namespace {

/// What work of the call's stream may use of a region. @param any  set if the program had some of it
CUresult give_region(const Call& call, SharedRegion& shared, bool& any) {
    for (const AttachedPiece& piece : attached_pieces(call.state, shared, shared.region->range())) {
        // A program promises that other streams do not use it.
        const bool other = piece.stream != 0 && call.stream != Call::k_unknown_stream && call.stream != piece.stream;
        if (piece.host_only || other) continue;
        // What is being fetched in this moment is out of date as well.
        shared.region->outdate();
        if (!shared.region->any_valid_here()) continue;
        any = true;
        const auto changed = shared.region->hand_over(piece.range);
        if (CUresult result = write_to_device(call, shared, changed); result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
}

/// Page-locked memory whose address the device was given becomes the device's, with what is there, and what that names in turn.
/// A thread that finds nothing named any more finds all of it there. What copies have yet to use is left for the next launch
/// by a call that they may be waiting for themselves.
CUresult give_named_memory(const Call& call, bool& any) {
    HostMemory& host = call.state.host_memory;
    SharedPages& pages = SharedPages::instance();
    std::vector<uint64_t> left;
    while (host.any_named()) {
        std::vector<HostMemory::Named> all = host.named();
        std::erase_if(all, [&](const HostMemory::Named& named) { return std::ranges::find(left, named.base) != left.end(); });
        if (all.empty()) break;
        for (const HostMemory::Named named : all) {
            if (lets_others_go_on(call.id) && is_being_copied(call, named.base)) {
                left.push_back(named.base);
                continue;
            }
            map_named_memory(call, named.base);
            MutexLock lock(pages.mutex);
            SharedRegion* shared = pages.find(named.base);
            const CUresult result = shared ? give_region(call, *shared, any) : CUDA_SUCCESS;
            host.forget_named(named);
            if (result != CUDA_SUCCESS) return result;
        }
    }
    return CUDA_SUCCESS;
}

}  // namespace

CUresult give_pages_before(const Call& call) {
    if (!lets_kernels_run(call.id)) return CUDA_SUCCESS;
    SharedPages& pages = SharedPages::instance();
    faults::install();
    system_calls::attend();
    bool any = false;
    {
        MutexLock lock(pages.mutex);
        ++pages.launching;
        pages.note_busy(call.context);
        for (auto& [base, shared] : pages.regions) {
            if (CUresult result = give_region(call, shared, any); result != CUDA_SUCCESS) return result;
        }
        for (auto& [base, shared] : pages.regions) {
            for (Attachment& attached : shared.attached) attached.given += may_work_on(call, attached);
        }
        for (auto& [base, mirrored] : pages.mirrored) {
            if (CUresult result = write_mirrored(call, *mirrored); result != CUDA_SUCCESS) return result;
        }
    }
    const CUresult result = give_named_memory(call, any);
    if (!any) return result;
    MutexLock lock(pages.mutex);
    pages.window_bytes = SharedPages::k_first_window;
    pages.counters.hand_overs.fetch_add(1, std::memory_order_relaxed);
    return result;
}

namespace {

/// What the program has fetched of it since it was given, and before the call was queued, is of the time before.
void give_again(const Call& call, SharedPages& pages) WL_REQUIRES(pages.mutex) {
    for (const auto& [base, size_bytes] : call.thread.given) {
        SharedRegion* shared = pages.find(base);
        if (!shared) continue;
        const auto changed = shared->region->hand_over({base, size_bytes}, true);
        // Its result is that of a lost session, which the call has as well.
        (void)write_to_device(call, *shared, changed);
    }
    call.thread.given.clear();
    // What is being fetched in this moment may be, too.
    for (auto& [base, shared] : pages.regions) shared.region->outdate();
}

/// The same for a launch and what is attached to its stream. (Elsewhere nothing is taken from beside a launch.)
void give_attached_again(const Call& call, SharedPages& pages) WL_REQUIRES(pages.mutex) {
    for (auto& [base, shared] : pages.regions) {
        for (Attachment& attached : shared.attached) {
            if (!may_work_on(call, attached)) continue;
            ++attached.given;
            if (attached.host_only || !shared.region->any_valid_here()) continue;
            const auto changed = shared.region->hand_over(attached.range);
            (void)write_to_device(call, shared, changed);
        }
    }
}

}  // namespace

void pages_given(const Call& call) {
    if (!lets_kernels_run(call.id) && !uses_named_memory(call.id)) return;
    SharedPages& pages = SharedPages::instance();
    MutexLock lock(pages.mutex);
    pages.given.note(call.known_stream(), call.number);
    if (lets_kernels_run(call.id)) {
        if (pages.launching != 0) --pages.launching;
        // No access will tell the thread that answers them that there is something to read from now on.
        if (!pages.mirrored.empty()) faults::wake();
        if (SharedPages::any_attached()) give_attached_again(call, pages);
    }
    if (uses_named_memory(call.id)) give_again(call, pages);
}

CUresult give_pages(const Call& call, uint64_t address, uint64_t size_bytes) {
    SharedPages& pages = SharedPages::instance();
    system_calls::attend();
    MutexLock lock(pages.mutex);
    SharedRegion* shared = pages.find(address);
    pages.note_busy(call.context);
    for (auto& [base, mirrored] : pages.mirrored) {
        const uint64_t offset = address - mirrored->device;
        if (offset >= mirrored->size_bytes) continue;
        if (CUresult result = write_mirrored(call, *mirrored, offset, offset + size_bytes); result != CUDA_SUCCESS)
            return result;
    }
    if (!shared || size_bytes == 0) return CUDA_SUCCESS;
    if (call.known_stream()) shared->let_work_use({address, size_bytes}, call.known_stream());
    const AddressRange named{address, size_bytes};
    for (Attachment& attached : shared->attached) attached.given += may_work_on(call, attached) || meet(attached.range, named);
    shared->was_copied = true;
    constexpr size_t k_most_given = 8;
    if (call.thread.given.size() == k_most_given) call.thread.given.erase(call.thread.given.begin());
    call.thread.given.emplace_back(address, size_bytes);
    const auto changed = shared->region->hand_over({address, size_bytes}, true);
    return write_to_device(call, *shared, changed);
}

void note_function_called(Session& session) { session.note_told(0); }

uint64_t pages_before_function(const Call& call, std::optional<uint64_t> stream) {
    SharedPages& pages = SharedPages::instance();
    const uint64_t written = pages.counters.written_back_bytes.load(std::memory_order_relaxed);
    bool mirrored = false;
    {
        MutexLock lock(pages.mutex);
        pages.function = {pages.function.number + 1, call.context, stream, true};
        mirrored = !pages.mirrored.empty();
    }
    // What was fetched beside the kernels before it is out of date.
    (void)refresh_pages(call);
    if (mirrored) faults::recall(Wish::mirrored);
    return written;
}

void pages_after_function(const Call& call, uint64_t written_before) {
    SharedPages& pages = SharedPages::instance();
    (void)take_back_from_function(call);
    (void)write_all_mirrored(call);
    if (pages.counters.written_back_bytes.load(std::memory_order_relaxed) == written_before) return;
    // Calls are made in their order, but the end of a function is no call, and would overtake what it has written.
    Call own = own_call(call, call.context);
    (void)gen::request_wlWritePages(own, {}, {});
}

}  // namespace warpline::client
