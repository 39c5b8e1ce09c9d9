// Events behind the work, and the thread that waits for the urgent ones.
#include "server/objects/stream_watch.h"

#include <pthread.h>

#include "server/objects/contexts.h"

namespace warpline::server {

namespace {

/// Streams that have an urgent point at the same time; more than that wait for a thread.
constexpr size_t k_max_threads = 256;

}  // namespace

StreamWatch::~StreamWatch() {
    close();
    std::vector<std::thread> threads;
    {
        MutexLock lock(m_mutex);
        threads.swap(m_threads);
        if (m_collector.joinable()) threads.push_back(std::move(m_collector));
    }
    for (std::thread& thread : threads) thread.join();
    MutexLock lock(m_mutex);
    m_lanes.clear();
}

/// An event that goes back into the pool when nobody uses it any more.
std::shared_ptr<void> StreamWatch::take_event(CUcontext context, CUresult& result) {
    CUevent event = nullptr;
    uint64_t generation = 0;
    {
        MutexLock lock(m_pool_mutex);
        Pool& pool = m_pools[context];
        generation = pool.generation;
        if (!pool.spare.empty()) {
            event = pool.spare.back();
            pool.spare.pop_back();
        }
    }
    result = CUDA_SUCCESS;
    if (event == nullptr) result = m_driver->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
    if (result != CUDA_SUCCESS) return nullptr;
    return {event, [this, context, generation](void* given_back) {
                MutexLock lock(m_pool_mutex);
                Pool& pool = m_pools[context];
                // Events end with their context.
                if (pool.generation == generation) pool.spare.push_back(static_cast<CUevent>(given_back));
            }};
}

bool StreamWatch::has_events() const {
    return m_driver->cuEventCreate != nullptr && m_driver->cuEventRecord != nullptr && m_driver->cuEventQuery != nullptr &&
           m_driver->cuEventSynchronize != nullptr;
}

CUresult StreamWatch::mark(CUcontext context, CUstream stream, Mark& mark) {
    CUresult result = CUDA_SUCCESS;
    mark = take_event(context, result);
    return result == CUDA_SUCCESS ? m_driver->cuEventRecord(static_cast<CUevent>(mark.get()), stream) : result;
}

CUresult StreamWatch::mark(CUstream stream, Mark& mark) {
    return has_events() ? this->mark(Contexts::current_base(m_driver), stream, mark) : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult StreamWatch::wait(const Mark& mark) {
    const auto event = static_cast<CUevent>(mark.get());
    const CUresult looked = m_look_first.look([&] { return m_driver->cuEventQuery(event); });
    return looked != CUDA_ERROR_NOT_READY ? looked : m_driver->cuEventSynchronize(event);
}

bool StreamWatch::is_reached(const Mark& mark) const {
    return m_driver->cuEventQuery(static_cast<CUevent>(mark.get())) != CUDA_ERROR_NOT_READY;
}

CUresult StreamWatch::wait(CUstream stream) {
    Mark here;
    const CUresult result = mark(stream, here);
    return result == CUDA_SUCCESS ? wait(here) : result;
}

CUresult StreamWatch::add(CUstream stream, Urgency urgency, Done done) {
    if (!has_events()) return CUDA_ERROR_NOT_SUPPORTED;
    CUcontext current = nullptr;
    if (m_driver->cuCtxGetCurrent != nullptr) m_driver->cuCtxGetCurrent(&current);
    // Events, and what waits for them, are the primary context's, also where what a green one was converted to is current.
    const CUcontext context = Contexts::current_base(m_driver);
    Mark event;
    if (const CUresult result = mark(context, stream, event); result != CUDA_SUCCESS) return result;
    auto point = std::make_shared<Point>(Point{std::move(event), std::move(done), urgency == Urgency::soon});
    // That has a default stream of its own, for which its name stands.
    const bool own_default = context != current && (stream == nullptr || stream == CU_STREAM_LEGACY);
    const LaneKey key{context, own_default ? reinterpret_cast<CUstream>(current) : stream};
    MutexLock lock(m_mutex);
    Lane& lane = m_lanes[key];
    lane.context = context;
    lane.points.push_back(std::move(point));
    m_count.fetch_add(1, std::memory_order_release);
    if (wants_thread(lane)) call_thread(key, lane);
    return CUDA_SUCCESS;
}

bool StreamWatch::wants_thread(const Lane& lane) const {
    if (lane.watched || m_closed) return false;
    if (m_hurry > 0) return !lane.points.empty();
    for (const PointPtr& point : lane.points) {
        if (point->urgent) return true;
    }
    return false;
}

void StreamWatch::call_thread(const LaneKey& key, Lane& lane) {
    lane.watched = true;
    m_calling.push_back(key);
    if (m_calling.size() > m_idle && m_threads.size() < k_max_threads) m_threads.emplace_back([this] { thread_main(); });
    m_changed.notify_all();
}

void StreamWatch::hurry(int change) {
    MutexLock lock(m_mutex);
    m_hurry += change;
    for (auto& [key, lane] : m_lanes) {
        if (wants_thread(lane)) call_thread(key, lane);
    }
}

void StreamWatch::tell(MutexLock& lock, Lane& lane, const PointPtr& point, CUresult result) {
    while (lane.told && !m_closed) m_changed.wait(m_mutex);
    if (m_closed || lane.points.empty() || lane.points.front() != point) return;
    lane.told = true;
    lock.unlock();
    point->done(result);
    point->done = nullptr;
    lock.lock();
    lane.points.pop_front();
    lane.told = false;
    m_count.fetch_sub(1, std::memory_order_release);
    m_changed.notify_all();
}

void StreamWatch::thread_main() {
    pthread_setname_np(pthread_self(), "streams");
    MutexLock lock(m_mutex);
    while (!m_closed) {
        if (m_calling.empty()) {
            ++m_idle;
            m_changed.wait(m_mutex);
            --m_idle;
            continue;
        }
        const LaneKey key = m_calling.front();
        m_calling.pop_front();
        watch_lane(lock, key);
    }
}

void StreamWatch::watch_lane(MutexLock& lock, const LaneKey& key) {
    Lane& lane = m_lanes[key];
    for (lane.watched = false; wants_thread(lane); lane.watched = false) {
        lane.watched = true;
        const PointPtr point = lane.points.front();
        lock.unlock();
        if (m_driver->cuCtxSetCurrent != nullptr) m_driver->cuCtxSetCurrent(key.first);
        const CUresult result = m_driver->cuEventSynchronize(static_cast<CUevent>(point->event.get()));
        lock.lock();
        tell(lock, lane, point, result);
    }
    m_changed.notify_all();  // end_context
    if (!lane.points.empty() || m_driver->cuCtxSetCurrent == nullptr) return;
    // An idle thread keeps no context current that may end meanwhile.
    lock.unlock();
    m_driver->cuCtxSetCurrent(nullptr);
    lock.lock();
}

void StreamWatch::collect() {
    if (m_count.load(std::memory_order_acquire) == 0) return;
    CUcontext current = nullptr;
    if (m_driver->cuCtxGetCurrent != nullptr) m_driver->cuCtxGetCurrent(&current);
    const bool borrows = current == nullptr && m_driver->cuCtxSetCurrent != nullptr;  // a thread without a context of its own
    MutexLock lock(m_mutex);
    for (auto& [key, lane] : m_lanes) {
        while (!m_closed && !lane.points.empty()) {
            const PointPtr point = lane.points.front();
            lock.unlock();
            if (borrows) m_driver->cuCtxSetCurrent(key.first);
            const CUresult result = m_driver->cuEventQuery(static_cast<CUevent>(point->event.get()));
            if (borrows) m_driver->cuCtxSetCurrent(nullptr);
            lock.lock();
            if (result == CUDA_ERROR_NOT_READY) break;
            tell(lock, lane, point, result);
        }
    }
}

void StreamWatch::collect_for_host_function() {
    if (m_count.load(std::memory_order_acquire) == 0) return;
    MutexLock lock(m_mutex);
    if (m_closed) return;
    if (!m_collector.joinable()) m_collector = std::thread([this] { collector_main(); });
    const uint64_t mine = ++m_wanted;
    m_changed.notify_all();
    while (m_collected < mine && !m_closed) m_changed.wait(m_mutex);
}

void StreamWatch::collector_main() {
    pthread_setname_np(pthread_self(), "collector");
    MutexLock lock(m_mutex);
    while (!m_closed) {
        if (m_wanted == m_collected) {
            m_changed.wait(m_mutex);
            continue;
        }
        const uint64_t until = m_wanted;
        lock.unlock();
        collect();
        lock.lock();
        m_collected = until;
        m_changed.notify_all();
    }
}

void StreamWatch::end_context(CUcontext context) {
    {
        const Hurry hurry(*this);
        MutexLock lock(m_mutex);
        for (auto& [key, lane] : m_lanes) {
            while (key.first == context && (!lane.points.empty() || lane.watched) && !m_closed) m_changed.wait(m_mutex);
        }
    }
    MutexLock lock(m_pool_mutex);
    Pool& pool = m_pools[context];
    pool.spare.clear();
    ++pool.generation;
}

void StreamWatch::close() {
    MutexLock lock(m_mutex);
    m_closed = true;
    m_changed.notify_all();
}

}  // namespace warpline::server
