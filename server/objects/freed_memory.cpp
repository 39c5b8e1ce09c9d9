// Keeps freed device memory until nothing uses it, and unmaps it then.
#include "server/objects/freed_memory.h"

#include <pthread.h>

#include <algorithm>
#include <memory>

#include "common/log/log.h"
#include "cuda/abi/error_names.h"
#include "server/objects/handle_table.h"
#include "server/objects/streams.h"

namespace warpline::server {

FreedMemory::~FreedMemory() {
    close();
    std::thread reaper;
    {
        MutexLock lock(m_mutex);
        reaper.swap(m_reaper);
    }
    if (reaper.joinable()) reaper.join();
}

bool FreedMemory::captures(CUstream stream) const {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (m_driver->cuStreamIsCapturing == nullptr) return false;
    const CUresult result = m_driver->cuStreamIsCapturing(stream, &status);
    // The legacy stream, which may not be asked for anything while another one is captured.
    if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return true;
    return result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/// Makes a context current as long as it lives, unless it is already.
class FreedMemory::InContext {
public:
    InContext(const Driver& driver, CUcontext context) : m_driver(driver) {
        if (context == nullptr || driver->cuCtxGetCurrent == nullptr || driver->cuCtxSetCurrent == nullptr) return;
        driver->cuCtxGetCurrent(&m_before);
        m_other = context != m_before;
        if (m_other) driver->cuCtxSetCurrent(context);
    }
    ~InContext() {
        if (m_other) m_driver->cuCtxSetCurrent(m_before);
    }
    InContext(const InContext&) = delete;
    InContext& operator=(const InContext&) = delete;

private:
    const Driver& m_driver;
    CUcontext m_before = nullptr;
    bool m_other = false;
};

bool FreedMemory::watch(uint64_t call, const Place& place) {
    const CUstream stream = place.stream;
    const InContext named(m_driver, place.context);
    if (captures(stream)) return false;
    // A mark would make it busy: to another thread of the program, which has waited for it and asks, without a reason.
    if (!any_capture() && rests(stream)) return true;
    {
        MutexLock lock(m_mutex);
        const auto found = m_frees.find(call);
        if (found == m_frees.end()) return true;
        ++found->second.waiting;
    }
    // In a context that has failed nothing runs any more that could use the memory.
    const auto done = [this, call](CUresult) { reached(call); };
    if (m_watch.add(stream, StreamWatch::Urgency::whenever, done) != CUDA_SUCCESS) reached(call);
    return true;
}

std::vector<FreedMemory::Place> FreedMemory::places_of(uint64_t context, CUcontext handle) {
    std::vector<Place> places;
    const auto add_streams = [&](const std::vector<CUstream>& streams) {
        for (const CUstream stream : streams) places.push_back({nullptr, stream});
    };
    add_streams(m_streams.of_context(context));
    for (const uint64_t made : m_handles.values_of(HandleKind::stream, context))
        places.push_back({nullptr, reinterpret_cast<CUstream>(made)});
    // What its green contexts were converted to has default streams of its own.
    for (const auto& [green, value] : m_handles.owned(HandleKind::green_context, context)) {
        for (const auto& [token, converted] : m_handles.owned(HandleKind::context, green)) {
            add_streams(m_streams.of_context(token));
            if (m_streams.default_used(token)) places.push_back({reinterpret_cast<CUcontext>(converted), nullptr});
        }
    }
    // An event in the legacy stream waits for all other streams, and they for it: nothing to do to a program without need.
    if (m_streams.default_used(context)) places.push_back({handle, nullptr});
    return places;
}

void FreedMemory::add(uint64_t call, uint64_t context, uint64_t address, uint64_t bytes) {
    // What an earlier free could not watch, because of a capture in another context.
    capture_ended(nullptr);
    Free free{context, Contexts::current_base(m_driver), 1, {}, address, bytes};
    const std::vector<Place> places = places_of(context, free.handle);
    const Place own_default = {free.handle, nullptr};
    {
        MutexLock lock(m_mutex);
        m_newest = std::max(m_newest, call);
        m_frees.emplace(call, std::move(free));
    }
    std::vector<Place> held;
    for (const Place& place : places) {
        if (!watch(call, place)) held.push_back(place);
    }
    const bool default_used = !places.empty() && places.back() == own_default;
    if (default_used && (held.empty() || held.back() != own_default)) m_streams.default_is_watched(context);
    {
        MutexLock lock(m_mutex);
        if (const auto found = m_frees.find(call); found != m_frees.end()) found->second.held = std::move(held);
    }
    reached(call);
}

CUresult FreedMemory::unmap(uint64_t call, uint64_t context, uint64_t address, uint64_t bytes) {
    DeviceMemory::Retired what = DeviceMemory::Retired::nothing;
    const CUresult result = m_memory.retire(address, bytes, what);
    if (what == DeviceMemory::Retired::allocated && all_rest(context)) return free_now(call, address, bytes);
    add(call, context, address, what != DeviceMemory::Retired::nothing ? bytes : 0);
    return result;
}

bool FreedMemory::all_rest(uint64_t context) {
    if (any_capture()) return false;
    const std::vector<Place> places = places_of(context, Contexts::current_base(m_driver));
    return std::all_of(places.begin(), places.end(), [this](const Place& place) {
        const InContext named(m_driver, place.context);
        return !captures(place.stream) && rests(place.stream);
    });
}

bool FreedMemory::rests(CUstream stream) const {
    return m_driver->cuStreamQuery != nullptr && m_driver->cuStreamQuery(stream) == CUDA_SUCCESS;
}

CUresult FreedMemory::free_now(uint64_t call, uint64_t address, uint64_t bytes) {
    {
        MutexLock lock(m_mutex);
        m_newest = std::max(m_newest, call);
        m_frees[call].waiting = 1;
        while (!m_closed && somebody_reads_since_before(call)) m_changed.wait(m_mutex);
    }
    const CUresult result = m_memory.unmap_retired(address, bytes);
    reached(call);
    return result;
}

bool FreedMemory::somebody_reads_since_before(uint64_t call) const { return !m_reading.empty() && *m_reading.begin() < call; }

void FreedMemory::reached(uint64_t call) {
    MutexLock lock(m_mutex);
    const auto found = m_frees.find(call);
    if (found == m_frees.end()) return;
    --found->second.waiting;
    reap();
}

/// What is over is forgotten, or handed to the reaper.
void FreedMemory::reap() {
    const auto is_over = [](const Free& free) { return free.waiting == 0 && free.held.empty() && free.bytes == 0; };
    while (!m_frees.empty() && is_over(m_frees.begin()->second)) m_frees.erase(m_frees.begin());
    const bool work = std::any_of(m_frees.begin(), m_frees.end(),
                                  [](const auto& item) { return item.second.waiting == 0 && item.second.held.empty(); });
    if (work && !m_closed && !m_reaper.joinable()) m_reaper = std::thread([this] { reaper_main(); });
    m_changed.notify_all();
}

bool FreedMemory::may_unmap() const {
    if (m_frees.empty() || !m_capturing.empty()) return false;
    const auto& [call, free] = *m_frees.begin();
    return free.waiting == 0 && free.held.empty() && !somebody_reads_since_before(call);
}

uint64_t FreedMemory::begin_reading() {
    MutexLock lock(m_mutex);
    return *m_reading.insert(m_newest);
}

void FreedMemory::end_reading(uint64_t since) {
    MutexLock lock(m_mutex);
    m_reading.erase(m_reading.find(since));
    if (!m_frees.empty()) m_changed.notify_all();
}

void FreedMemory::reaper_main() {
    pthread_setname_np(pthread_self(), "reaper");
    MutexLock lock(m_mutex);
    while (!m_closed) {
        // In the order of the frees: so the end of a stream, which is one of them, comes before what later ones free.
        if (!may_unmap()) {
            m_changed.wait(m_mutex);
            continue;
        }
        const auto ready = m_frees.begin();
        const uint64_t call = ready->first;
        const Free free = ready->second;
        m_unmapping = true;
        lock.unlock();
        if (m_driver->cuCtxSetCurrent != nullptr) m_driver->cuCtxSetCurrent(free.handle);
        const CUresult result = m_memory.unmap_retired(free.address, free.bytes);
        if (m_driver->cuCtxSetCurrent != nullptr) m_driver->cuCtxSetCurrent(nullptr);
        if (result != CUDA_SUCCESS)
            WL_LOG(debug, "memory", "unmapping {} bytes: {}", free.bytes, cuda::abi::error_name_for_log(result));
        lock.lock();
        m_unmapping = false;
        m_frees.erase(call);
        reap();
    }
}

void FreedMemory::capture_begins(CUstream stream) {
    MutexLock lock(m_mutex);
    m_capturing.insert(stream);
    while (m_unmapping && !m_closed) m_changed.wait(m_mutex);
}

void FreedMemory::capture_ended(CUstream stream) {
    std::vector<std::pair<uint64_t, Place>> held;
    const CUcontext current = Contexts::current_base(m_driver);
    {
        MutexLock lock(m_mutex);
        m_capturing.erase(stream);
        for (const auto& [call, free] : m_frees) {
            if (free.handle != current) continue;  // its streams cannot be given an event from here
            for (const Place& one : free.held) held.emplace_back(call, one);
        }
        m_changed.notify_all();
    }
    // Others that took part in the capture are free again, too.
    for (const auto& [call, one] : held) {
        if (!watch(call, one)) continue;
        MutexLock lock(m_mutex);
        if (const auto found = m_frees.find(call); found != m_frees.end()) std::erase(found->second.held, one);
        reap();
    }
}

bool FreedMemory::any_capture() const {
    MutexLock lock(m_mutex);
    return !m_capturing.empty();
}

CUresult FreedMemory::wait_beside_captures(uint64_t context, FunctionRef<void()> before_waiting, bool& whole) {
    struct Points {
        size_t left = 0;
        CUresult result = CUDA_SUCCESS;
    };
    const auto points = std::make_shared<Points>();  // under our mutex
    const auto reached_one = [this, points](CUresult result) {
        MutexLock lock(m_mutex);
        if (result != CUDA_SUCCESS) points->result = result;
        if (--points->left == 0) m_changed.notify_all();
    };
    whole = true;
    // In order: no capture begins while the streams' points are set.
    for (const Place& place : places_of(context, Contexts::current_base(m_driver))) {
        const InContext named(m_driver, place.context);
        if (captures(place.stream)) {
            whole = false;
            continue;
        }
        {
            MutexLock lock(m_mutex);
            ++points->left;
        }
        const CUresult watched = m_watch.add(place.stream, StreamWatch::Urgency::soon, reached_one);
        if (watched != CUDA_SUCCESS) reached_one(watched);
    }
    before_waiting();
    MutexLock lock(m_mutex);
    while (points->left != 0 && !m_closed) m_changed.wait(m_mutex);
    return m_closed ? CUDA_ERROR_DEINITIALIZED : points->result;
}

void FreedMemory::context_ended(uint64_t context) {
    MutexLock lock(m_mutex);
    for (auto& [call, free] : m_frees) {
        if (free.context != context) continue;
        free.held.clear();
        free.handle = nullptr;
    }
    reap();
}

uint64_t FreedMemory::through() const {
    MutexLock lock(m_mutex);
    // Frees come in their order, however many calls of other kinds overtake one another.
    return m_frees.empty() ? m_newest : m_frees.begin()->first - 1;
}

bool FreedMemory::can_end(const Free& free) const { return free.held.empty() && (free.bytes == 0 || m_capturing.empty()); }

bool FreedMemory::any_before(uint64_t call) const {
    MutexLock lock(m_mutex);
    // They end in their order.
    return !m_frees.empty() && m_frees.begin()->first < call && can_end(m_frees.begin()->second);
}

bool FreedMemory::wait_before(uint64_t call) {
    if (!any_before(call)) return false;
    const StreamWatch::Hurry hurry(m_watch);
    MutexLock lock(m_mutex);
    while (!m_closed && !m_frees.empty() && m_frees.begin()->first < call && can_end(m_frees.begin()->second))
        m_changed.wait(m_mutex);
    return true;
}

CUresult FreedMemory::allocate_behind(uint64_t call, FunctionRef<CUresult(MemoryLedger::Refusal)> allocate,
                                      FunctionRef<void()> before_waiting) {
    using Refusal = MemoryLedger::Refusal;
    // Asked first: what ends while memory is looked for was not there yet.
    const bool frees_pending = any_before(call);
    const CUresult result = allocate(frees_pending ? Refusal::quiet : Refusal::told);
    if (result != CUDA_ERROR_OUT_OF_MEMORY || !frees_pending) return result;
    before_waiting();
    wait_before(call);
    return allocate(Refusal::told);
}

void FreedMemory::close() {
    MutexLock lock(m_mutex);
    m_closed = true;
    m_changed.notify_all();
}

}  // namespace warpline::server
