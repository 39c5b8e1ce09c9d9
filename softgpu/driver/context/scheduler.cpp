// Queues, the order between them, and the threads that execute work.
#include "softgpu/driver/context/scheduler.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <system_error>
#include <thread>

#include "common/base/scope_guard.h"
#include "common/log/log.h"

namespace warpline::softgpu::driver {

namespace {

/// The most threads that execute work at the same time. Work that blocks (host functions, waits on values) holds one each.
constexpr size_t k_max_threads = 512;
/// How long a thread without work stays.
constexpr auto k_idle_time = std::chrono::seconds(5);

}  // namespace

void Fence::wait() const {
    while (m_done.load(std::memory_order_acquire) == 0) m_done.wait(0, std::memory_order_acquire);
}

Scheduler& Scheduler::instance() {
    static auto* scheduler = new Scheduler;  // leaked on purpose: calls come after static destructors
    return *scheduler;
}

FencePtr Scheduler::done_fence() {
    auto fence = std::make_shared<Fence>();
    fence->m_finished_at = std::chrono::steady_clock::now();
    fence->m_done.store(1, std::memory_order_release);
    return fence;
}

QueuePtr Scheduler::create_queue(const std::shared_ptr<QueueGroup>& group, QueueKind kind, int priority, uint64_t scope) {
    auto queue = std::make_shared<Queue>(group, kind, priority, scope);
    MutexLock lock(m_mutex);
    group->m_queues.push_back(queue);
    return queue;
}

void Scheduler::retire(const QueuePtr& queue) {
    MutexLock lock(m_mutex);
    std::erase(queue->m_group->m_queues, queue);
    auto& orphans = queue->m_group->m_orphans;
    std::erase_if(orphans, [](const FencePtr& fence) { return fence->done(); });
    if (queue->m_last != nullptr && !queue->m_last->done()) orphans.push_back(queue->m_last);
}

void Scheduler::collect_order(Queue& queue, std::vector<FencePtr>& after) {
    if (queue.m_kind == QueueKind::non_blocking) return;
    auto add = [&after](const FencePtr& fence) {
        if (fence != nullptr && !fence->done()) after.push_back(fence);
    };
    bool legacy = queue.m_kind == QueueKind::legacy;
    for (const QueuePtr& other : queue.m_group->m_queues) {
        if (other.get() == &queue || other->m_kind == QueueKind::non_blocking || other->m_scope != queue.m_scope) continue;
        if (legacy || other->m_kind == QueueKind::legacy) add(other->m_last);
    }
    if (!legacy) return;
    for (const FencePtr& fence : queue.m_group->m_orphans) add(fence);
}

void Scheduler::arm(Work& work, std::span<const FencePtr> after) {
    for (const FencePtr& fence : after) {
        if (fence == nullptr || fence->done()) continue;
        fence->m_waiters.push_back(&work);
        ++work.pending;
    }
}

FencePtr Scheduler::submit(const QueuePtr& queue, std::function<void()> run, std::span<const FencePtr> after) {
    auto work = std::make_unique<Work>();
    work->run = std::move(run);
    work->queue = queue;
    work->priority = queue->m_priority;
    FencePtr fence = work->fence;
    std::vector<FencePtr> order;
    MutexLock lock(m_mutex);
    collect_order(*queue, order);
    arm(*work, order);
    arm(*work, after);
    queue->m_last = fence;
    queue->m_items.push_back(std::move(work));
    advance(*queue);
    settle();
    return fence;
}

void Scheduler::mark(const QueuePtr& queue) {
    {
        std::vector<FencePtr> order;
        MutexLock lock(m_mutex);
        collect_order(*queue, order);
        if (order.empty() && queue->m_items.empty() && !queue->m_busy) return;
    }
    submit(queue, nullptr);
}

void Scheduler::submit_and_wait(const QueuePtr& queue, std::function<void()> run) {
    std::vector<FencePtr> order;
    {
        MutexLock lock(m_mutex);
        collect_order(*queue, order);
        if (order.empty() && queue->m_items.empty() && !queue->m_busy) {
            auto fence = std::make_shared<Fence>();
            queue->m_busy = true;
            queue->m_running = queue->m_last = fence;
            lock.unlock();
            run();
            run = nullptr;
            lock.lock();
            queue->m_busy = false;
            finish(*fence);
            advance(*queue);
            settle();
            return;
        }
    }
    submit(queue, std::move(run))->wait();
}

bool Scheduler::has_room(const QueuePtr& queue, size_t limit) {
    MutexLock lock(m_mutex);
    return queue->pieces() < limit;
}

void Scheduler::wait_for_room(const QueuePtr& queue, size_t limit) {
    for (;;) {
        FencePtr next;
        {
            MutexLock lock(m_mutex);
            if (queue->pieces() < limit) return;
            next = queue->m_busy ? queue->m_running : queue->m_items.front()->fence;
        }
        next->wait();
    }
}

FencePtr Scheduler::submit_free(std::function<void()> run, std::span<const FencePtr> after, int priority) {
    auto* work = new Work;
    work->run = std::move(run);
    work->priority = priority;
    FencePtr fence = work->fence;
    MutexLock lock(m_mutex);
    arm(*work, after);
    if (work->pending == 0) m_unblocked.push_back(work);
    settle();
    return fence;
}

FencePtr Scheduler::submit_record(QueueGroup& group, std::function<void()> run, std::span<const FencePtr> after, int priority) {
    FencePtr fence = submit_free(std::move(run), after, priority);
    MutexLock lock(m_mutex);
    std::erase_if(group.m_records, [](const FencePtr& record) { return record->done(); });
    group.m_records.push_back(fence);
    return fence;
}

std::vector<FencePtr> Scheduler::pending(const QueuePtr& queue) {
    std::vector<FencePtr> fences;
    MutexLock lock(m_mutex);
    if (queue->m_kind == QueueKind::legacy) collect_order(*queue, fences);
    if (queue->m_last != nullptr && !queue->m_last->done()) fences.push_back(queue->m_last);
    return fences;
}

std::vector<FencePtr> Scheduler::pending(QueueGroup& group) {
    std::vector<FencePtr> fences;
    MutexLock lock(m_mutex);
    for (const QueuePtr& queue : group.m_queues) {
        if (queue->m_last != nullptr && !queue->m_last->done()) fences.push_back(queue->m_last);
    }
    for (const auto* others : {&group.m_orphans, &group.m_records}) {
        for (const FencePtr& fence : *others) {
            if (!fence->done()) fences.push_back(fence);
        }
    }
    return fences;
}

/// Ends the markers at the head of a queue and makes the first real work ready, if nothing holds it up.
void Scheduler::advance(Queue& queue) {
    while (!queue.m_busy && !queue.m_items.empty() && queue.m_items.front()->pending == 0) {
        std::unique_ptr<Work> work = std::move(queue.m_items.front());
        queue.m_items.pop_front();
        if (!work->run) {
            finish(*work->fence);
            continue;
        }
        queue.m_busy = true;
        queue.m_running = work->fence;
        make_ready(work.release());
    }
}

void Scheduler::finish(Fence& fence) {
    fence.m_finished_at = std::chrono::steady_clock::now();
    for (Work* work : fence.m_waiters) {
        if (--work->pending != 0) continue;
        if (work->queue != nullptr) {
            m_to_advance.push_back(work->queue);
        } else {
            m_unblocked.push_back(work);
        }
    }
    fence.m_waiters.clear();
    fence.m_done.store(1, std::memory_order_release);
    fence.m_done.notify_all();
}

/// Follows the consequences of what has ended, iteratively: chains may be long.
void Scheduler::settle() {
    while (!m_to_advance.empty() || !m_unblocked.empty()) {
        if (!m_to_advance.empty()) {
            QueuePtr queue = std::move(m_to_advance.back());
            m_to_advance.pop_back();
            advance(*queue);
            continue;
        }
        Work* work = m_unblocked.back();
        m_unblocked.pop_back();
        if (work->run) {
            make_ready(work);
        } else {
            finish(*work->fence);
            delete work;
        }
    }
}

void Scheduler::make_ready(Work* work) {
    m_ready[work->priority].push_back(work);
    ++m_ready_count;
    if (m_ready_count > m_idle) {
        spawn();
    } else if (!m_taker || m_ready_count > 1) {
        m_ready_changed.notify_one();
    }
}

void Scheduler::spawn() {
    if (m_threads >= k_max_threads) return;
    // The pool's threads must not be chosen to run the program's signal handlers.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    ScopeGuard restore([&before] { pthread_sigmask(SIG_SETMASK, &before, nullptr); });
    try {
        std::thread([this] { work_loop(); }).detach();
        ++m_threads;
    } catch (const std::system_error& error) {
        // Ready work stays in its list for the threads that there are.
        if (m_threads == 0) WL_LOG(error, "softgpu", "no thread to execute work on: {}", error.what());
    }
}

Work* Scheduler::next_ready() {
    auto first = m_ready.begin();
    while (first != m_ready.end() && first->second.empty()) first = m_ready.erase(first);
    if (first == m_ready.end()) return nullptr;
    Work* work = first->second.front();
    first->second.pop_front();
    --m_ready_count;
    return work;
}

void Scheduler::work_loop() {
    pthread_setname_np(pthread_self(), "softgpu-stream");
    MutexLock lock(m_mutex);
    ++m_idle;
    for (;;) {
        Work* next = next_ready();
        if (next == nullptr) {
            bool in_time = m_ready_changed.wait_until(m_mutex, std::chrono::steady_clock::now() + k_idle_time);
            if (in_time || m_ready_count != 0) continue;
            break;
        }
        std::unique_ptr<Work> work(next);
        --m_idle;
        lock.unlock();
        work->run();
        work->run = nullptr;  // what the work refers to ends before anyone is told that it has ended
        lock.lock();
        ++m_idle;
        m_taker = true;
        QueuePtr queue = work->queue;
        if (queue != nullptr) queue->m_busy = false;
        finish(*work->fence);
        if (queue != nullptr) advance(*queue);
        settle();
        m_taker = false;
    }
    --m_idle;
    --m_threads;
}

}  // namespace warpline::softgpu::driver
