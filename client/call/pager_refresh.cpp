// Memory that both sides use at the same time: what each sees of the other one's.
#include <algorithm>
#include <cstring>
#include <utility>

#include "client/call/mirrored.h"
#include "client/call/pager.h"
#include "client/gen/internal_calls.gen.h"
#include "client/managed/foreign_write.h"
#include "client/session/session.h"
#include "common/base/differences.h"
#include "common/log/log.h"

namespace warpline::client {

namespace {

/// All registered memory is looked through. Where that is much, it is done for a fifth of the time at most.
constexpr uint64_t k_much_mirrored = 256ull << 10;
constexpr int k_mirror_pause = 4;
/// With one question: the device's copy of so many parts is looked through on the server.
constexpr size_t k_most_asked = 1024;

}  // namespace

/// A reading of registered memory on its way.
struct Pager::Reading {
    std::shared_ptr<MirroredRange> of;
    std::vector<AddressRange> parts;  ///< offsets and bytes, each no more than a question may read
    std::vector<MirroredRange::Asked> asked;
    Bytes bytes;  ///< of the parts that have been read, one behind the other
};

CUresult Pager::read_parts(Reading& reading) {
    const auto& [of, parts, asked, bytes] = reading;
    SharedPages::Counters& counters = SharedPages::instance().counters;
    for (size_t next = 0, next_asked = 0; next < parts.size() || next_asked < asked.size();) {
        std::vector<uint64_t> ranges, seen;
        uint64_t size = 0;
        for (; next < parts.size() && size + parts[next].size_bytes <= k_most_read_bytes; ++next) {
            ranges.insert(ranges.end(), {of->device + parts[next].base, parts[next].size_bytes});
            size += parts[next].size_bytes;
        }
        const size_t first_asked = next_asked;
        for (; next_asked < asked.size() && next_asked - first_asked < k_most_asked; ++next_asked) {
            const auto& [part, fingerprint] = asked[next_asked];
            seen.insert(seen.end(), {of->device + part.base, part.size_bytes, fingerprint});
        }
        const size_t before = bytes.size();
        reading.bytes.resize(before + size);
        Call own = call_in(of->context);
        gen::WlReadPagesValues said;
        const auto target = CopyTarget::linear(reading.bytes.data() + before, size);
        const CUresult result = gen::request_wlReadPages(own, ranges, false, seen, target, said);
        if (result != CUDA_SUCCESS) return result;
        counters.fetches.fetch_add(1, std::memory_order_relaxed);
        counters.fetched_bytes.fetch_add(size, std::memory_order_relaxed);
        std::vector<bool> is_changed(next_asked - first_asked, true);
        for (const uint64_t place : said.unchanged)
            if (place < is_changed.size()) is_changed[place] = false;
        for (size_t i = 0; i < is_changed.size(); ++i)
            if (is_changed[i]) reading.parts.push_back(asked[first_asked + i].part);
    }
    return CUDA_SUCCESS;
}

/// What the device has changed of the program's own memory: these bytes are written there, and no others.
void Pager::read_mirrored() {
    SharedPages& pages = SharedPages::instance();
    std::vector<Reading> all;
    uint64_t work = 0;
    bool busy = false;
    {
        MutexLock lock(pages.mutex);
        // Of one moment: what the device is given behind it has another number.
        busy = is_device_busy(pages, *m_session, *m_state);
        work = m_session->last_work();
        for (const auto& [base, mirrored] : pages.mirrored) {
            if (mirrored->read_only) mirrored->read_work = work;
            if (mirrored->twin.empty() || mirrored->read_work == work) continue;
            mirrored->is_being_read = true;
            mirrored->written.clear();
            Reading& reading = all.emplace_back();
            reading.of = mirrored;
            mirrored->plan(reading.parts, reading.asked);
        }
    }
    for (Reading& reading : all) {
        const CUresult result = read_parts(reading);
        MutexLock lock(pages.mutex);
        MirroredRange& mirrored = *reading.of;
        mirrored.is_being_read = false;
        const auto still = pages.mirrored.find(mirrored.host);
        // It may have been unregistered meanwhile.
        if (result != CUDA_SUCCESS || still == pages.mirrored.end() || still->second != reading.of) continue;
        // What another thread's launch has written meanwhile: whether that is in what was read is not to be told.
        const std::vector<AddressRange> written = std::exchange(mirrored.written, {});
        take_over(mirrored, reading, written);
        if (!busy && written.empty()) mirrored.read_work = work;
    }
}

void Pager::take_over(MirroredRange& mirrored, Reading& reading, const std::vector<AddressRange>& written) {
    std::vector<AddressRange> changed;
    std::vector<const std::byte*> from;
    std::byte* bytes = reading.bytes.data();
    for (const AddressRange& part : reading.parts) {
        for (const AddressRange& range : written) {
            const AddressRange there{range.base - mirrored.host, range.size_bytes};
            const uint64_t begin = std::max(part.base, there.base), end = std::min(part.end(), there.end());
            if (begin < end) std::memcpy(bytes + (begin - part.base), mirrored.twin.data() + begin, end - begin);
        }
        for (const AddressRange& piece : mirrored.pieces_of(part)) {
            const std::byte* found = bytes + (piece.base - part.base);
            const size_t before = changed.size();
            for_each_difference(found, mirrored.twin.data() + piece.base, piece.size_bytes, 0,
                                [&](uint64_t first, uint64_t last) {
                                    changed.push_back({mirrored.host + piece.base + first, last - first});
                                    from.push_back(found + first);
                                });
            mirrored.note_read(piece, changed.size() != before);
        }
        bytes += part.size_bytes;
    }
    if (changed.empty()) return;
    m_pace.note_change();
    for (size_t i = 0; i < changed.size(); ++i) {
        const AddressRange part{changed[i].base - mirrored.host, changed[i].size_bytes};
        std::memcpy(mirrored.twin.data() + part.base, from[i], part.size_bytes);
        mirrored.note_written(part);
    }
    if (write_over(changed, from) == 0 || m_told_unwritable) return;
    m_told_unwritable = true;
    WL_LOG(error, "client",
           "registered memory at {:#x} cannot be written by this process any more: what kernels write there is lost",
           mirrored.host);
}

/// Both sides see what the other one writes, at the next access.
void Pager::refresh() {
    const auto now = PageClock::now();
    if (now - m_refreshed < m_pace.pause()) return;
    m_refreshed = now;
    const auto& written = SharedPages::instance().counters.written_back_bytes;
    const uint64_t written_before = written.load(std::memory_order_relaxed);
    refresh_now(now);
    if (written.load(std::memory_order_relaxed) != written_before) m_pace.note_change();
    m_pace.end_turn();
}

void Pager::refresh_now(PageClock::time_point now) {
    uint64_t mirrored_bytes = 0;
    {
        SharedPages& pages = SharedPages::instance();
        MutexLock lock(pages.mutex);
        for (const auto& [base, mirrored] : pages.mirrored) mirrored_bytes += mirrored->size_bytes;
    }
    if (mirrored_bytes != 0 && now >= m_mirror_again && is_busy()) {
        (void)write_all_mirrored(call_in(0));
        read_mirrored();
        if (mirrored_bytes > k_much_mirrored) {
            const auto done = PageClock::now();
            m_mirror_again = done + k_mirror_pause * (done - now);
        }
    }
    {
        SharedPages& pages = SharedPages::instance();
        MutexLock lock(pages.mutex);
        const auto is_busy_region = [](const auto& item) { return item.second.region->has_busy_units(); };
        if (std::none_of(pages.regions.begin(), pages.regions.end(), is_busy_region)) return;
    }
    (void)refresh_pages_in_time(call_in(0));
}

}  // namespace warpline::client
