// Memory that both sides use at the same time: what each sees of the other one's.
#include <algorithm>
#include <cstring>
#include <utility>

#include "client/call/mirrored.h"
#include "client/call/pager.h"
#include "client/gen/internal_calls.gen.h"
#include "client/session/session.h"
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
    CUresult result = CUDA_SUCCESS;
};

/// What is read of all registered memory of a context: in as few questions as it goes into.
class Pager::MirroredQuestions {
public:
    MirroredQuestions(std::vector<Reading>& all, uint64_t context) {
        for (Reading& reading : all) {
            if (reading.of->context != context) continue;
            for (const AddressRange& part : reading.parts) m_parts.push_back({&reading, part});
            for (const auto& asked : reading.asked) m_asked.push_back({&reading, asked});
        }
    }
    bool done() const { return m_next == m_parts.size() && m_next_asked == m_asked.size(); }

    CUresult ask(Call call) {
        const size_t first = m_next, first_asked = m_next_asked;
        std::vector<uint64_t> ranges, seen;
        uint64_t size = 0;
        for (; m_next < m_parts.size() && m_next - first < k_most_asked; ++m_next) {
            const auto& [reading, part] = m_parts[m_next];
            if (size + part.size_bytes > k_most_read_bytes) break;
            ranges.insert(ranges.end(), {reading->of->device + part.base, part.size_bytes});
            size += part.size_bytes;
        }
        for (; m_next_asked < m_asked.size() && m_next_asked - first_asked < k_most_asked; ++m_next_asked) {
            const auto& [reading, asked] = m_asked[m_next_asked];
            seen.insert(seen.end(), {reading->of->device + asked.part.base, asked.part.size_bytes, asked.fingerprint});
        }
        Bytes bytes(size);
        gen::WlReadPagesValues said;
        const CUresult result =
            gen::request_wlReadPages(call, ranges, false, seen, CopyTarget::linear(bytes.data(), size), said);
        if (result != CUDA_SUCCESS) return result;
        SharedPages::Counters& counters = SharedPages::instance().counters;
        counters.fetches.fetch_add(1, std::memory_order_relaxed);
        counters.fetched_bytes.fetch_add(size, std::memory_order_relaxed);
        give_out(first, bytes);
        add_changed(first_asked, said.unchanged);
        return CUDA_SUCCESS;
    }

private:
    void give_out(size_t first, const Bytes& bytes) {
        auto at = bytes.begin();
        for (size_t i = first; i < m_next; ++i) {
            const auto& [reading, part] = m_parts[i];
            const auto end = at + static_cast<ptrdiff_t>(part.size_bytes);
            reading->bytes.insert(reading->bytes.end(), at, end);
            at = end;
        }
    }

    /// @param unchanged  of those that were asked about, by their places: the others are read, too
    void add_changed(size_t first_asked, const std::vector<uint64_t>& unchanged) {
        std::vector<bool> is_changed(m_next_asked - first_asked, true);
        for (const uint64_t place : unchanged)
            if (place < is_changed.size()) is_changed[place] = false;
        for (size_t i = 0; i < is_changed.size(); ++i) {
            if (!is_changed[i]) continue;
            const auto& [reading, asked] = m_asked[first_asked + i];
            reading->parts.push_back(asked.part);
            m_parts.push_back({reading, asked.part});
        }
    }

    struct Part {
        Reading* of;
        AddressRange part;  ///< as Reading has it
    };
    struct Asked {
        Reading* of;
        MirroredRange::Asked asked;
    };
    std::vector<Part> m_parts;
    std::vector<Asked> m_asked;
    size_t m_next = 0, m_next_asked = 0;
};

void Pager::read_parts(std::vector<Reading>& all) {
    std::vector<uint64_t> contexts;
    for (const Reading& reading : all) contexts.push_back(reading.of->context);
    std::sort(contexts.begin(), contexts.end());
    contexts.erase(std::unique(contexts.begin(), contexts.end()), contexts.end());
    for (const uint64_t context : contexts) {
        MirroredQuestions questions(all, context);
        CUresult result = CUDA_SUCCESS;
        while (result == CUDA_SUCCESS && !questions.done()) result = questions.ask(call_in(context));
        for (Reading& reading : all)
            if (reading.of->context == context) reading.result = result;
    }
}

/// What the device has changed of the program's own memory: these bytes are written there, and no others.
void Pager::read_mirrored() {
    while (!read_mirrored_once()) {
    }
}

/// @returns false: some of it was unregistered meanwhile, and with that all of the question refused
bool Pager::read_mirrored_once() {
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
    if (all.empty()) return true;
    read_parts(all);
    bool any_gone = false, any_failed = false;
    MutexLock lock(pages.mutex);
    for (Reading& reading : all) {
        MirroredRange& mirrored = *reading.of;
        mirrored.is_being_read = false;
        const auto still = pages.mirrored.find(mirrored.host);
        const bool is_gone = still == pages.mirrored.end() || still->second != reading.of;
        any_gone = any_gone || is_gone;
        any_failed = any_failed || reading.result != CUDA_SUCCESS;
        if (is_gone || reading.result != CUDA_SUCCESS) continue;
        // What another thread's launch has written meanwhile: whether that is in what was read is not to be told.
        const std::vector<AddressRange> written = std::exchange(mirrored.written, {});
        if (take_over(mirrored, reading.parts, reading.bytes, written)) m_pace.note_change();
        if (!busy && written.empty()) mirrored.read_work = work;
    }
    return !(any_gone && any_failed);
}

/// Both sides see what the other one writes, at the next access.
void Pager::refresh() {
    const auto now = PageClock::now();
    // What has just been launched has done nothing yet, and has often ended before the first look: a wait brings it then.
    if (!std::exchange(m_looks, true)) m_refreshed = now;
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
    const uint64_t work = m_session->last_work();
    bool is_last_look = false;
    auto seen = PageClock::time_point::min();
    {
        SharedPages& pages = SharedPages::instance();
        MutexLock lock(pages.mutex);
        for (const auto& [base, mirrored] : pages.mirrored) mirrored_bytes += mirrored->size_bytes;
        if (pages.mirrored_seen) seen = *pages.mirrored_seen + m_pace.pause();
        is_last_look = !is_device_busy(pages, *m_session, *m_state);
    }
    const bool is_due = now >= std::max(seen, m_mirror_again) && m_last_look != work;
    if (mirrored_bytes != 0 && is_due && is_busy()) {
        (void)write_all_mirrored(call_in(0));
        read_mirrored();
        if (is_last_look) m_last_look = work;
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
