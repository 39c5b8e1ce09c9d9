// Registered memory, and its copy on the device: what each side has changed goes to the other one.
#include "client/call/mirrored.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "client/call/mapped.h"
#include "client/call/pages.h"
#include "client/gen/internal_calls.gen.h"
#include "client/managed/foreign_write.h"
#include "common/base/differences.h"
#include "common/log/log.h"

namespace warpline::client {

namespace {

/// Addresses in what is written there. Of a word of which some bytes have changed all count.
void note_named_in(const Call& call, const MirroredRange& mirrored, AddressRange part) {
    constexpr uint64_t k_word_mask = sizeof(uint64_t) - 1;
    const uint64_t into_word = (mirrored.host + part.base) & k_word_mask;
    const uint64_t begin = part.base - std::min(part.base, into_word);
    const uint64_t end = std::min(mirrored.size_bytes, part.end() + k_word_mask);
    note_named_memory(call, BytesView(mirrored.twin).subspan(begin, end - begin));
}

}  // namespace

CUresult write_mirrored(const Call& call, MirroredRange& mirrored, uint64_t begin, uint64_t end) {
    const auto* here = reinterpret_cast<const std::byte*>(mirrored.host);
    std::vector<AddressRange> changed;
    if (mirrored.twin.empty()) {
        mirrored.twin.resize(mirrored.size_bytes);
        changed.push_back({0, mirrored.size_bytes});
    } else if (begin < std::min(end, mirrored.size_bytes)) {
        for_each_difference(here + begin, mirrored.twin.data() + begin, std::min(end, mirrored.size_bytes) - begin, 0,
                            [&](uint64_t first, uint64_t last) {
                                changed.push_back({begin + first, last - first});
                            });
    }
    std::vector<uint64_t> ranges;
    Bytes packed;
    const auto send = [&]() -> CUresult {
        if (packed.empty()) return CUDA_SUCCESS;
        Call own{cuda::CallId::wlWritePages, call.thread, call.session, call.state, mirrored.context};
        const CUresult result = gen::issue_wlWritePages(own, ranges, packed);
        SharedPages::instance().counters.written_back_bytes.fetch_add(packed.size(), std::memory_order_relaxed);
        ranges.clear();
        packed.clear();
        return result;
    };
    for (AddressRange part : changed) {
        const AddressRange whole = part;
        mirrored.note_written(part);
        if (mirrored.is_being_read) mirrored.written.push_back({mirrored.host + part.base, part.size_bytes});
        while (part.size_bytes != 0) {
            const uint64_t bytes = std::min(part.size_bytes, k_most_written_bytes - packed.size());
            std::byte* twin = mirrored.twin.data() + part.base;
            // Read once: the program may go on writing.
            std::memcpy(twin, here + part.base, bytes);
            ranges.insert(ranges.end(), {mirrored.device + part.base, bytes});
            packed.insert(packed.end(), twin, twin + bytes);
            part = {part.base + bytes, part.size_bytes - bytes};
            if (packed.size() < k_most_written_bytes / 2 && ranges.size() < k_most_written_ranges) continue;
            if (CUresult result = send(); result != CUDA_SUCCESS) return result;
        }
        note_named_in(call, mirrored, whole);
    }
    return send();
}

CUresult write_all_mirrored(const Call& call) {
    SharedPages& pages = SharedPages::instance();
    MutexLock lock(pages.mutex);
    for (auto& [base, mirrored] : pages.mirrored) {
        if (CUresult result = write_mirrored(call, *mirrored); result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
}

bool take_over(MirroredRange& mirrored, const std::vector<AddressRange>& parts, BytesView bytes,
               const std::vector<AddressRange>& written) {
    std::vector<AddressRange> changed;
    std::vector<const std::byte*> from;
    std::vector<Bytes> own;  // parts that are not as they were read
    for (const AddressRange& part : parts) {
        const std::byte* found = bytes.data();
        bytes = bytes.subspan(part.size_bytes);
        for (const AddressRange& range : written) {
            const AddressRange there{range.base - mirrored.host, range.size_bytes};
            const uint64_t begin = std::max(part.base, there.base), end = std::min(part.end(), there.end());
            if (begin >= end) continue;
            if (own.empty() || own.back().data() != found) found = own.emplace_back(found, found + part.size_bytes).data();
            std::memcpy(own.back().data() + (begin - part.base), mirrored.twin.data() + begin, end - begin);
        }
        for (const AddressRange& piece : mirrored.pieces_of(part)) {
            const std::byte* now = found + (piece.base - part.base);
            const size_t before = changed.size();
            for_each_difference(now, mirrored.twin.data() + piece.base, piece.size_bytes, 0,
                                [&](uint64_t first, uint64_t last) {
                                    changed.push_back({mirrored.host + piece.base + first, last - first});
                                    from.push_back(now + first);
                                });
            mirrored.note_read(piece, changed.size() != before);
        }
    }
    if (changed.empty()) return false;
    for (size_t i = 0; i < changed.size(); ++i) {
        const AddressRange part{changed[i].base - mirrored.host, changed[i].size_bytes};
        std::memcpy(mirrored.twin.data() + part.base, from[i], part.size_bytes);
        mirrored.note_written(part);
    }
    static std::atomic<bool> told{false};
    if (write_over(changed, from) != 0 && !told.exchange(true))
        WL_LOG(error, "client",
               "registered memory at {:#x} cannot be written by this process any more: what kernels write there is lost",
               mirrored.host);
    return true;
}

}  // namespace warpline::client
