// The threads that execute a session's calls in order.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "common/base/mutex.h"
#include "server/control/turn.h"
#include "server/objects/work_source.h"

namespace warpline::server {

/// Work that has an order and comes in steps. A step may give the order free while it still runs; the next step is then taken
/// by another thread.
class OrderedWork {
public:
    virtual ~OrderedWork() = default;
    /// Does the next step. False: none is left. After the step gave the order free, or was overtaken, the object belongs
    /// to others and is not touched any more by the caller.
    virtual bool step() = 0;
    /// True if no step comes after the one that runs. @thread the one that runs it, or that lets it be overtaken
    virtual bool is_last_step() const { return false; }
    /// The step that runs is being overtaken, before the next one begins.
    /// @return what is to be called once it has ended; may be empty
    /// @thread a thread of the executor's, which does not run the step; must not wait
    virtual std::function<void()> overtaken() { return {}; }
};

/// Runs a session's calls in one order. Between the steps of one piece of work the mutex is not taken: a leader looks only
/// whether somebody has called it. Exactly one thread at a time holds the order ("leads"). A call that has to wait for the
/// device gives the order free and waits on the thread where it is, while another thread goes on with the next call: so no
/// waiting call holds up those of the program's other threads, and a program with one thread never pays for a change of
/// threads.
///
/// Whether some calls wait is the driver's affair: a launch, when its queue is full; the load of an image. They say that they
/// may be overtaken, which costs nothing, and if one of them has not returned after a while, another thread leads.
class Executor {
public:
    struct Options {
        std::string name = "exec";
        /// Calls that may wait at the same time. Each takes a thread; beyond it, later calls wait for one of them.
        size_t max_threads = 1024;
        size_t max_queued = 1u << 16;
        /// A step that may be overtaken is, after one to two times this; four times as late where all processors are busy.
        std::chrono::milliseconds overtake_after{10};
        WorkSource* source = nullptr;  ///< a thread without work reads there
        Turn* turn = nullptr;          ///< null: it is always this executor's
    };

    explicit Executor(Options options) : m_options(std::move(options)) {}
    /// stop(). Waits for calls that are still running.
    ~Executor();

    /// Queues work behind all other work. False if the executor is stopped or `max_queued` is reached. @blocks no
    bool push(std::shared_ptr<OrderedWork> work) WL_EXCLUDES(m_mutex);

    /// Queues work of one step each before what has not begun: work whose turn had come already. @blocks no @thread any
    void resume(std::vector<std::shared_ptr<OrderedWork>> works) WL_EXCLUDES(m_mutex);

    /// Called in a step: the calls after it may begin. Does nothing when called again, or by a thread that does not lead.
    void release_order() WL_EXCLUDES(m_mutex);

    /// Called in a step, once: if it takes long from here on, the calls after it may begin meanwhile.
    void allow_overtaking();
    /// The same for a step that will wait for certain: it is overtaken at once.
    void be_overtaken() WL_EXCLUDES(m_mutex);

    /// Takes the order again after it was given free, if nobody leads and nothing is to be done: then no other step begins
    /// until return_order(). False: it is somebody else's. @blocks no
    bool retake_order() WL_EXCLUDES(m_mutex);
    void return_order() WL_EXCLUDES(m_mutex);

    /// No further steps; what runs is waited for.
    void stop() WL_EXCLUDES(m_mutex);

private:
    void thread_main() WL_EXCLUDES(m_mutex);
    /// With the mutex held through `lock`, which it opens while a step runs: more than the analysis can follow.
    void lead(MutexLock& lock) WL_NO_THREAD_SAFETY_ANALYSIS;
    /// How a leader comes back from a piece of work.
    enum class Ran : uint8_t { to_its_end, until_called, until_others_lead };
    void await_turn(MutexLock& lock) WL_NO_THREAD_SAFETY_ANALYSIS;
    Ran run(OrderedWork& work, uint64_t leader) WL_EXCLUDES(m_mutex);
    bool still_leads(uint64_t leader);
    bool read(MutexLock& lock) WL_NO_THREAD_SAFETY_ANALYSIS;
    void call_next_leader() WL_REQUIRES(m_mutex);
    void give_order_free() WL_REQUIRES(m_mutex);
    bool has_work() const WL_REQUIRES(m_mutex) { return !m_resumed.empty() || !m_queue.empty(); }
    void watch() WL_EXCLUDES(m_mutex);
    bool watch_steps(bool& takes_long) WL_REQUIRES(m_mutex);
    void overtake() WL_REQUIRES(m_mutex);

    const Options m_options;
    Mutex m_mutex;
    ConditionVariable m_work_or_order;
    std::deque<std::shared_ptr<OrderedWork>> m_queue WL_GUARDED_BY(m_mutex);    // the front is being worked on
    std::deque<std::shared_ptr<OrderedWork>> m_resumed WL_GUARDED_BY(m_mutex);  // comes first
    bool m_stopping WL_GUARDED_BY(m_mutex) = false;
    size_t m_idle WL_GUARDED_BY(m_mutex) = 0;
    size_t m_wakeups WL_GUARDED_BY(m_mutex) = 0;  // idle threads that were woken and have not come back yet
    std::vector<std::thread> m_threads WL_GUARDED_BY(m_mutex);
    bool m_reads WL_GUARDED_BY(m_mutex) = false;  // one of the idle threads does
    std::atomic<bool> m_reader_called{false};     // it is to come back

    // Who leads: a number that each leader gets anew; 0: nobody.
    uint64_t m_leader WL_GUARDED_BY(m_mutex) = 0;
    uint64_t m_last_leader WL_GUARDED_BY(m_mutex) = 0;
    std::atomic<uint64_t> m_steps{0};          // the leader's; the watch reads it
    std::atomic<bool> m_leader_called{false};  // to come back after the step; set under the mutex, acquired by the leader
    std::shared_ptr<OrderedWork> m_current WL_GUARDED_BY(m_mutex);                        // what the leader is at
    bool m_current_is_front WL_GUARDED_BY(m_mutex) = false;                               // of m_queue
    std::unordered_map<uint64_t, std::function<void()>> m_at_end WL_GUARDED_BY(m_mutex);  // by leaders that were overtaken
    // The leader whose step says so, until it ends, or the watch takes it: whoever exchanges it first has the step's end. Each
    // acquires what the other one released.
    std::atomic<uint64_t> m_may_be_overtaken{0};

    // The thread that overtakes. It sleeps while nobody leads for long.
    std::thread m_watch WL_GUARDED_BY(m_mutex);
    ConditionVariable m_watch_changed;
    bool m_watch_sleeps WL_GUARDED_BY(m_mutex) = false;
    bool m_awaits_turn WL_GUARDED_BY(m_mutex) = false;  // the leader does
};

}  // namespace warpline::server
