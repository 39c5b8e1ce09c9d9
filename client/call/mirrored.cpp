// Registered memory, and its copy on the device: what each side has changed goes to the other one.
#include "client/call/mirrored.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "client/call/mapped.h"
#include "client/call/pages.h"
#include "client/gen/internal_calls.gen.h"
#include "client/managed/faults.h"
#include "client/managed/foreign_access.h"
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

/// What the program has there now. @returns what could be read of it
BytesView read_program(const MirroredRange& mirrored, AddressRange part, std::byte* into) {
    const uint64_t read = read_as_far({mirrored.host + part.base, part.size_bytes}, into);
    static std::atomic<bool> told{false};
    if (read < part.size_bytes && !told.exchange(true))
        WL_LOG(warn, "client",
               "registered memory at {:#x} cannot be read by this process any more: kernels find there what was there before",
               mirrored.host);
    return {into, read};
}

/// Packs what has changed for the device.
class WriteBack {
public:
    WriteBack(const Call& call, MirroredRange& mirrored) : m_call(call), m_mirrored(mirrored) {}

    /// @param bytes  what the program has there
    CUresult add(AddressRange part, const std::byte* bytes) {
        m_mirrored.note_written(part);
        if (m_mirrored.is_being_read) m_mirrored.written.push_back({m_mirrored.host + part.base, part.size_bytes});
        std::memcpy(m_mirrored.twin.data() + part.base, bytes, part.size_bytes);
        const uint64_t address = m_mirrored.device + part.base;
        if (!m_ranges.empty() && m_ranges[m_ranges.size() - 2] + m_ranges.back() == address)
            m_ranges.back() += part.size_bytes;
        else
            m_ranges.insert(m_ranges.end(), {address, part.size_bytes});
        m_packed.insert(m_packed.end(), bytes, bytes + part.size_bytes);
        note_named_in(m_call, m_mirrored, part);
        const bool has_room = m_packed.size() < k_most_written_bytes / 2 && m_ranges.size() < k_most_written_ranges;
        return has_room ? CUDA_SUCCESS : send();
    }
    CUresult send() {
        if (m_packed.empty()) return CUDA_SUCCESS;
        Call own{cuda::CallId::wlWritePages, m_call.thread, m_call.session, m_call.state, m_mirrored.context};
        const CUresult result = gen::issue_wlWritePages(own, m_ranges, m_packed);
        SharedPages::instance().counters.written_back_bytes.fetch_add(m_packed.size(), std::memory_order_relaxed);
        m_ranges.clear();
        m_packed.clear();
        return result;
    }

private:
    const Call& m_call;
    MirroredRange& m_mirrored;
    std::vector<uint64_t> m_ranges;
    Bytes m_packed;
};

}  // namespace

CUresult write_mirrored(const Call& call, MirroredRange& mirrored, uint64_t begin, uint64_t end) {
    // Read once, a piece at a time: the program may go on writing.
    constexpr uint64_t k_piece_bytes = 64 << 10;
    static_assert(k_piece_bytes <= k_most_written_bytes / 2);
    const bool is_first = mirrored.twin.empty();
    if (is_first) {
        mirrored.twin.resize(mirrored.size_bytes);
        begin = 0;
        end = mirrored.size_bytes;
    }
    end = std::min(end, mirrored.size_bytes);
    Bytes now;
    WriteBack back(call, mirrored);
    for (uint64_t at = begin; at < end; at += k_piece_bytes) {
        const AddressRange piece{at, std::min(k_piece_bytes, end - at)};
        const std::byte* const twin = mirrored.twin.data() + at;
        if (!is_first && faults::is_same(reinterpret_cast<const std::byte*>(mirrored.host + at), twin, piece.size_bytes))
            continue;
        now.resize(k_piece_bytes);
        const BytesView found = read_program(mirrored, piece, now.data());
        CUresult result = CUDA_SUCCESS;
        const auto add = [&](uint64_t first, uint64_t last) {
            if (result == CUDA_SUCCESS) result = back.add({at + first, last - first}, found.data() + first);
        };
        if (is_first)
            add(0, found.size());
        else
            for_each_change(found.data(), twin, found.size(), mirrored.host + at, add);
        if (result != CUDA_SUCCESS) return result;
    }
    return back.send();
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
            for_each_change(now, mirrored.twin.data() + piece.base, piece.size_bytes, mirrored.host + piece.base,
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
