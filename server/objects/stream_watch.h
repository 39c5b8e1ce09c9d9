#pragma once

// Learning that a stream has come to a point.

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "server/driver/driver.h"
#include "server/driver/look_first.h"

namespace warpline::server {

/// Tells when streams have come to where they are now, by events of the driver's. Host functions would tell it too, but not in
/// a context that has failed (cuda.h, cuLaunchHostFunc), and each of them stops its stream until the host has answered.
///
/// A stream's points are reached one after the other. A point that is urgent is waited for by a thread of ours, which sleeps in
/// the driver; others are found out about when somebody asks (collect), as every reply does.
///
/// @thread  any
class StreamWatch {
public:
    /// Told once: CUDA_SUCCESS, or why the stream will never get there. Runs without locks, on a thread that has the stream's
    /// context current or in collect(); may wait for the client to take data, not for the device.
    using Done = std::function<void(CUresult)>;
    enum class Urgency : uint8_t { soon, whenever };

    StreamWatch(const Driver& driver, LookFirst& look_first) : m_driver(driver), m_look_first(look_first) {}
    ~StreamWatch();
    StreamWatch(const StreamWatch&) = delete;
    StreamWatch& operator=(const StreamWatch&) = delete;

    /// Watches what the stream has been given so far. Its context must be current, and it must not be capturing.
    /// @errors the driver's; `done` is not told then
    CUresult add(CUstream stream, Urgency urgency, Done done) WL_EXCLUDES(m_mutex);

    /// A point of a stream that somebody waits for himself: an event of ours, as long as one lives.
    using Mark = std::shared_ptr<void>;
    /// Marks where the stream is now. Context and captures as for add(). @blocks no
    CUresult mark(CUstream stream, Mark& mark) WL_EXCLUDES(m_pool_mutex);
    /// In a wait of the driver's that holds up no other call (DB-50). @blocks until the stream has come to the mark
    CUresult wait(const Mark& mark);
    /// Also where the context has failed. @blocks no
    bool is_reached(const Mark& mark) const;
    /// Until it has come to where it is now.
    CUresult wait(CUstream stream);

    /// Tells of every point that has been reached. When it returns, nothing of that is still being told. @blocks while `done`
    /// does
    void collect() WL_EXCLUDES(m_mutex);
    /// The same for a host function, which may not call the driver: another thread does. @blocks likewise
    void collect_for_host_function() WL_EXCLUDES(m_mutex);

    /// While one of these lives, every point is urgent: somebody waits for what they set free.
    class Hurry {
    public:
        explicit Hurry(StreamWatch& watch) : m_watch(watch) { m_watch.hurry(1); }
        ~Hurry() { m_watch.hurry(-1); }
        Hurry(const Hurry&) = delete;
        Hurry& operator=(const Hurry&) = delete;

    private:
        StreamWatch& m_watch;
    };

    /// A context is about to end: waits until its streams have come to all their points, and gives up its events.
    /// @blocks until the streams are there
    void end_context(CUcontext context) WL_EXCLUDES(m_mutex);

    /// Nobody is interested any more: waits end, and nothing is told.
    void close() WL_EXCLUDES(m_mutex);

private:
    struct Point {
        std::shared_ptr<void> event;
        Done done;
        bool urgent = false;
    };
    using PointPtr = std::shared_ptr<Point>;
    struct Lane {
        CUcontext context = nullptr;
        std::deque<PointPtr> points;  // in the stream's order
        bool told = false;            // somebody tells of the first one
        bool watched = false;         // a thread is there for it, or called
    };
    using LaneKey = std::pair<CUcontext, CUstream>;

    bool has_events() const;
    std::shared_ptr<void> take_event(CUcontext context, CUresult& result) WL_EXCLUDES(m_pool_mutex);
    CUresult mark(CUcontext context, CUstream stream, Mark& mark) WL_EXCLUDES(m_pool_mutex);
    void hurry(int change) WL_EXCLUDES(m_mutex);
    bool wants_thread(const Lane& lane) const WL_REQUIRES(m_mutex);
    void call_thread(const LaneKey& key, Lane& lane) WL_REQUIRES(m_mutex);
    /// Tells of the lane's first point, if it still is this one.
    void tell(MutexLock& lock, Lane& lane, const PointPtr& point, CUresult result) WL_NO_THREAD_SAFETY_ANALYSIS;
    void thread_main();
    void watch_lane(MutexLock& lock, const LaneKey& key) WL_NO_THREAD_SAFETY_ANALYSIS;
    void collector_main();

    const Driver& m_driver;
    LookFirst& m_look_first;
    std::atomic<size_t> m_count{0};  // of points; written under the mutex, read without it by collect()
    Mutex m_mutex;                   // never held while the driver is called
    ConditionVariable m_changed;
    std::map<LaneKey, Lane> m_lanes WL_GUARDED_BY(m_mutex);  // never erased: as many as streams
    std::deque<LaneKey> m_calling WL_GUARDED_BY(m_mutex);    // lanes that want a thread
    size_t m_idle WL_GUARDED_BY(m_mutex) = 0;
    int m_hurry WL_GUARDED_BY(m_mutex) = 0;
    uint64_t m_wanted WL_GUARDED_BY(m_mutex) = 0;  // collections that host functions asked for
    uint64_t m_collected WL_GUARDED_BY(m_mutex) = 0;
    bool m_closed WL_GUARDED_BY(m_mutex) = false;
    std::vector<std::thread> m_threads WL_GUARDED_BY(m_mutex);
    std::thread m_collector WL_GUARDED_BY(m_mutex);

    Mutex m_pool_mutex;
    struct Pool {
        uint64_t generation = 0;  // of the context: its handle can come again
        std::vector<CUevent> spare;
    };
    std::map<CUcontext, Pool> m_pools WL_GUARDED_BY(m_pool_mutex);
};

}  // namespace warpline::server
