#include "server/session/executor.h"

#include <pthread.h>

#include "common/log/log.h"

namespace warpline::server {

namespace {

/// The executor that this thread leads at the moment.
thread_local const Executor* t_leads = nullptr;

}  // namespace

Executor::~Executor() { stop(); }

bool Executor::push(std::shared_ptr<OrderedWork> work) {
    MutexLock lock(m_mutex);
    if (m_stopping || m_queue.size() >= m_options.max_queued) return false;
    m_queue.push_back(std::move(work));
    if (!m_led) call_next_leader();
    return true;
}

void Executor::release_order() {
    if (t_leads != this) return;
    MutexLock lock(m_mutex);
    t_leads = nullptr;
    m_led = false;
    // The front may be finished without our knowing; then its next leader finds out.
    if (!m_queue.empty()) call_next_leader();
}

/// Sees to it that somebody takes the order: a thread that sleeps, or a new one.
void Executor::call_next_leader() {
    if (m_stopping) return;
    if (m_idle > m_wakeups) {
        ++m_wakeups;
        m_work_or_order.notify_one();
        return;
    }
    if (m_wakeups > 0 || m_threads.size() >= m_options.max_threads) return;  // one is on its way, or comes back some time
    m_threads.emplace_back([this] { thread_main(); });
}

void Executor::thread_main() {
    pthread_setname_np(pthread_self(), m_options.name.substr(0, 15).c_str());
    MutexLock lock(m_mutex);
    while (!m_stopping) {
        if (!m_led && !m_queue.empty()) {
            lead(lock);
            continue;
        }
        ++m_idle;
        m_work_or_order.wait(m_mutex);
        --m_idle;
        if (m_wakeups > 0) --m_wakeups;
    }
}

void Executor::lead(MutexLock& lock) {
    m_led = true;
    t_leads = this;
    while (!m_stopping && !m_queue.empty()) {
        const std::shared_ptr<OrderedWork> work = m_queue.front();
        lock.unlock();
        const bool more = work->step();
        lock.lock();
        if (t_leads != this) return;  // the step gave the order free: `work` is another thread's now
        if (!more) m_queue.pop_front();
    }
    t_leads = nullptr;
    m_led = false;
}

void Executor::stop() {
    std::vector<std::thread> threads;
    {
        MutexLock lock(m_mutex);
        m_stopping = true;
        threads.swap(m_threads);
    }
    m_work_or_order.notify_all();
    for (std::thread& thread : threads) thread.join();
}

}  // namespace warpline::server
