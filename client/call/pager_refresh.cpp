// Memory that both sides use at the same time: what each sees of the other one's.
#include <algorithm>
#include <cstring>
#include <utility>

#include "client/call/pager.h"
#include "client/gen/internal_calls.gen.h"
#include "client/managed/foreign_write.h"
#include "client/session/session.h"
#include "common/log/log.h"

namespace warpline::client {

namespace {

/// Registered memory travels whole. Where that is much, it is done for a fifth of the time at most.
constexpr uint64_t k_much_mirrored = 256ull << 10;
constexpr int k_mirror_pause = 4;

}  // namespace

CUresult Pager::read_bytes(uint64_t context, uint64_t address, Bytes& bytes) {
    SharedPages::Counters& counters = SharedPages::instance().counters;
    for (uint64_t offset = 0; offset < bytes.size();) {
        const uint64_t size = std::min<uint64_t>(k_most_read_bytes, bytes.size() - offset);
        const std::vector<uint64_t> asked{address + offset, size};
        Call own = call_in(context);
        gen::WlReadPagesValues said;
        const auto target = CopyTarget::linear(bytes.data() + offset, size);
        const CUresult result = gen::request_wlReadPages(own, asked, false, {}, target, said);
        if (result != CUDA_SUCCESS) return result;
        counters.fetches.fetch_add(1, std::memory_order_relaxed);
        counters.fetched_bytes.fetch_add(size, std::memory_order_relaxed);
        offset += size;
    }
    return CUDA_SUCCESS;
}

/// What the device has changed of the program's own memory: these bytes are written there, and no others.
void Pager::read_mirrored() {
    SharedPages& pages = SharedPages::instance();
    std::vector<std::shared_ptr<MirroredRange>> all;
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
            all.push_back(mirrored);
        }
    }
    for (const auto& mirrored : all) {
        Bytes bytes(mirrored->size_bytes);
        const CUresult result = read_bytes(mirrored->context, mirrored->device, bytes);
        MutexLock lock(pages.mutex);
        mirrored->is_being_read = false;
        const auto still = pages.mirrored.find(mirrored->host);
        // It may have been unregistered meanwhile.
        if (result != CUDA_SUCCESS || still == pages.mirrored.end() || still->second != mirrored) continue;
        // What another thread's launch has written meanwhile: whether that is in what was read is not to be told.
        const bool was_written = !mirrored->written.empty();
        for (const AddressRange& range : std::exchange(mirrored->written, {})) {
            const uint64_t offset = range.base - mirrored->host;
            std::memcpy(bytes.data() + offset, mirrored->twin.data() + offset, range.size_bytes);
        }
        take_over(*mirrored, bytes);
        mirrored->twin = std::move(bytes);
        if (!busy && !was_written) mirrored->read_work = work;
    }
}

void Pager::take_over(const MirroredRange& mirrored, const Bytes& bytes) {
    std::vector<AddressRange> changed;
    std::vector<const std::byte*> from;
    for (uint64_t i = 0; i < bytes.size();) {
        if (bytes[i] == mirrored.twin[i]) {
            ++i;
            continue;
        }
        const uint64_t begin = i;
        while (i < bytes.size() && bytes[i] != mirrored.twin[i]) ++i;
        changed.push_back({mirrored.host + begin, i - begin});
        from.push_back(bytes.data() + begin);
    }
    if (changed.empty()) return;
    m_pace.note_change();
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
