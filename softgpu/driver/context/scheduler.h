// Who executes what streams are given, when. Knows no CUDA object: queues, work, fences.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "common/base/mutex.h"

namespace warpline::softgpu::driver {

struct Work;
class Scheduler;

/// The end of a piece of work. Shared by the work, by what waits for it and by events that were recorded there.
class Fence {
public:
    bool done() const { return m_done.load(std::memory_order_acquire) != 0; }
    /// Blocks the calling thread until done.
    void wait() const;
    /// When it was done; only valid then.
    std::chrono::steady_clock::time_point finished_at() const { return m_finished_at; }

private:
    friend class Scheduler;
    std::atomic<uint32_t> m_done{0};  // released in Scheduler::finish, acquired in done() and wait()
    std::chrono::steady_clock::time_point m_finished_at;
    std::vector<Work*> m_waiters;  // guarded by the scheduler's mutex
};
using FencePtr = std::shared_ptr<Fence>;

class Queue;

/// A piece of work. Guarded by the scheduler's mutex until it runs.
struct Work {
    std::function<void()> run;
    FencePtr fence = std::make_shared<Fence>();
    std::shared_ptr<Queue> queue;  // null for free work
    uint32_t pending = 0;          // fences that it still waits for
    int priority = 0;
};

/// How a queue relates to the legacy default stream of its context, or of its green context.
enum class QueueKind : uint8_t { legacy, blocking, non_blocking };

/// The queues of one context. Among those of one scope legacy default streams order work.
class QueueGroup {
private:
    friend class Scheduler;
    // Guarded by the scheduler's mutex.
    std::vector<std::shared_ptr<Queue>> m_queues;  // until retired
    std::vector<FencePtr> m_orphans;               // last work of queues that were retired with work outstanding
    std::vector<FencePtr> m_records;               // work of no queue that who waits for the group waits for
};

/// Work that is executed in the order in which it was submitted: a stream. All fields but the priority
/// are guarded by the scheduler's mutex.
class Queue {
public:
    Queue(std::shared_ptr<QueueGroup> group, QueueKind kind, int priority, uint64_t scope)
        : m_group(std::move(group)), m_kind(kind), m_priority(priority), m_scope(scope) {}
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;

    /// Of what is submitted from now on.
    void set_priority(int priority) { m_priority.store(priority); }

private:
    friend class Scheduler;
    /// Of work that has not ended.
    size_t pieces() const { return m_items.size() + (m_busy ? 1 : 0); }

    const std::shared_ptr<QueueGroup> m_group;  // shared: outlives the context as long as work is queued
    const QueueKind m_kind;
    std::atomic<int> m_priority;
    const uint64_t m_scope;
    std::deque<std::unique_ptr<Work>> m_items;
    bool m_busy = false;  // its first item is ready or running
    FencePtr m_running;   // of that item, while busy
    FencePtr m_last;
};
using QueuePtr = std::shared_ptr<Queue>;

/// Executes work on a pool of threads that grows while all of them are busy (host functions and waits may block) and shrinks
/// when idle. One per process, never destroyed, because calls come after static destructors have run.
class Scheduler {
public:
    static Scheduler& instance();

    /// @param scope  whose legacy default stream it has to do with: 0 for the context itself, or the id of a green context
    std::shared_ptr<Queue> create_queue(const std::shared_ptr<QueueGroup>& group, QueueKind kind, int priority,
                                        uint64_t scope = 0);
    /// The queue takes no more work; what it has is executed, and goes on to count for the legacy default stream.
    void retire(const std::shared_ptr<Queue>& queue);

    /// Appends work to a queue: it runs after what the queue was given before, after `after`, and in the order that the legacy
    /// default stream demands. Empty `run`: a marker that ends as soon as it is reached.
    ///
    /// @thread any; does not block
    FencePtr submit(const QueuePtr& queue, std::function<void()> run, std::span<const FencePtr> after = {});

    /// Appends a marker that ends as soon as it is reached, for which nobody will wait: costs nothing if nothing is before it.
    void mark(const QueuePtr& queue);

    /// As submit, but returns when the work has ended; runs it on the calling thread if nothing is before it.
    void submit_and_wait(const QueuePtr& queue, std::function<void()> run);

    /// True if a queue has fewer than `limit` pieces of work that have not ended.
    bool has_room(const QueuePtr& queue, size_t limit);
    /// Blocks until it has.
    void wait_for_room(const QueuePtr& queue, size_t limit);

    /// Work that belongs to no queue: runs after `after`. Lower priority numbers run first.
    FencePtr submit_free(std::function<void()> run, std::span<const FencePtr> after, int priority);
    /// The record of an event behind all that a group was given: whoever waits for the group waits for it as well.
    FencePtr submit_record(QueueGroup& group, std::function<void()> run, std::span<const FencePtr> after, int priority);

    /// What has to end until everything that the queue was given has ended; for a legacy queue that is the work of all
    /// blocking queues of its group as well. Done fences are left out.
    std::vector<FencePtr> pending(const QueuePtr& queue);
    /// The same for every queue of a group.
    std::vector<FencePtr> pending(QueueGroup& group);

    /// A fence that is done.
    static FencePtr done_fence();

private:
    Scheduler() = default;
    void collect_order(Queue& queue, std::vector<FencePtr>& after) WL_REQUIRES(m_mutex);
    void arm(Work& work, std::span<const FencePtr> after) WL_REQUIRES(m_mutex);
    void advance(Queue& queue) WL_REQUIRES(m_mutex);
    void make_ready(Work* work) WL_REQUIRES(m_mutex);
    void finish(Fence& fence) WL_REQUIRES(m_mutex);
    void settle() WL_REQUIRES(m_mutex);
    void spawn() WL_REQUIRES(m_mutex);
    void work_loop();
    Work* next_ready() WL_REQUIRES(m_mutex);

    Mutex m_mutex;
    ConditionVariable m_ready_changed;
    std::map<int, std::deque<Work*>> m_ready WL_GUARDED_BY(m_mutex);  // by priority; owned by these lists
    size_t m_ready_count WL_GUARDED_BY(m_mutex) = 0;
    size_t m_idle WL_GUARDED_BY(m_mutex) = 0;  // threads that take ready work without being created
    size_t m_threads WL_GUARDED_BY(m_mutex) = 0;
    bool m_taker WL_GUARDED_BY(m_mutex) = false;  // the thread that holds the mutex takes ready work next
    std::vector<std::shared_ptr<Queue>> m_to_advance WL_GUARDED_BY(m_mutex);
    std::vector<Work*> m_unblocked WL_GUARDED_BY(m_mutex);  // free work whose last dependency has ended
};

}  // namespace warpline::softgpu::driver
