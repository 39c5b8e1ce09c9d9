#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"

namespace warpline::server {

/// Work that has an order and comes in steps. A step may give the order free while it still runs; the next step is then taken
/// by another thread.
class OrderedWork {
public:
    virtual ~OrderedWork() = default;
    /// Does the next step. False: there was none left. After the step gave the order free, the object belongs to others and is
    /// not touched any more by the caller.
    virtual bool step() = 0;
};

/// Runs a session's calls in one order. Exactly one thread at a time holds the order ("leads"). A call that has to wait for the
/// device gives the order free and waits on the thread where it is, while another thread goes on with the next call: so no
/// waiting call holds up those of the program's other threads, and a program with one thread never pays for a change of
/// threads.
class Executor {
public:
    struct Options {
        std::string name = "exec";
        /// Calls that may wait at the same time. Each takes a thread; beyond it, later calls wait for one of them.
        size_t max_threads = 1024;
        size_t max_queued = 1u << 16;
    };

    explicit Executor(Options options) : m_options(std::move(options)) {}
    /// stop(). Waits for calls that are still running.
    ~Executor();

    /// Queues work behind all other work. False if the executor is stopped or `max_queued` is reached. @blocks no
    bool push(std::shared_ptr<OrderedWork> work) WL_EXCLUDES(m_mutex);

    /// Called in a step: the calls after it may begin. Does nothing when called again, or by a thread that does not lead.
    void release_order() WL_EXCLUDES(m_mutex);

    /// No further steps; what runs is waited for.
    void stop() WL_EXCLUDES(m_mutex);

private:
    void thread_main() WL_EXCLUDES(m_mutex);
    /// With the mutex held through `lock`, which it opens while a step runs: more than the analysis can follow.
    void lead(MutexLock& lock) WL_NO_THREAD_SAFETY_ANALYSIS;
    void call_next_leader() WL_REQUIRES(m_mutex);

    const Options m_options;
    Mutex m_mutex;
    ConditionVariable m_work_or_order;
    std::deque<std::shared_ptr<OrderedWork>> m_queue WL_GUARDED_BY(m_mutex);  // the front is being worked on
    bool m_led WL_GUARDED_BY(m_mutex) = false;
    bool m_stopping WL_GUARDED_BY(m_mutex) = false;
    size_t m_idle WL_GUARDED_BY(m_mutex) = 0;
    size_t m_wakeups WL_GUARDED_BY(m_mutex) = 0;  // idle threads that were woken and have not come back yet
    std::vector<std::thread> m_threads WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::server
