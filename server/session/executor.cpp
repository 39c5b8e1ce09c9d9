// One order, many threads: who leads, who is called next, and who is overtaken.
#include "server/session/executor.h"

#include <pthread.h>

#include <utility>

#include "common/base/run_queue.h"
#include "common/log/log.h"

namespace warpline::server {

namespace {

/// The executor that this thread leads, or led until its step was overtaken; and as which leader.
struct Lead {
    const Executor* executor = nullptr;
    uint64_t number = 0;
    bool may_be_overtaken = false;  // since the step that runs has said so
};
thread_local Lead t_lead;

/// So many turns without a leader send the watch to sleep: a session that works pays for no change of threads.
constexpr unsigned k_turns_to_sleep = 100;
/// Where all processors are busy a turn is so many times as long: the watches of many sessions take them from who works.
constexpr unsigned k_scarce = 4;

}  // namespace

Executor::~Executor() { stop(); }

bool Executor::push(std::shared_ptr<OrderedWork> work) {
    MutexLock lock(m_mutex);
    if (m_stopping || m_queue.size() >= m_options.max_queued) return false;
    m_queue.push_back(std::move(work));
    if (m_leader == 0) call_next_leader();
    return true;
}

void Executor::resume(std::vector<std::shared_ptr<OrderedWork>> works) {
    if (works.empty()) return;
    MutexLock lock(m_mutex);
    for (auto& work : works) m_resumed.push_back(std::move(work));
    m_leader_called.store(true, std::memory_order_release);
    if (m_leader == 0) call_next_leader();
}

void Executor::release_order() {
    if (t_lead.executor != this) return;
    {
        MutexLock lock(m_mutex);
        if (m_leader != std::exchange(t_lead, {}).number) return;
        give_order_free();
    }
    if (m_options.source) m_options.source->end_reading();
}

bool Executor::retake_order() {
    MutexLock lock(m_mutex);
    if (m_stopping || m_leader != 0 || has_work()) return false;
    m_leader = ++m_last_leader;
    return true;
}

void Executor::return_order() {
    MutexLock lock(m_mutex);
    m_leader = 0;
    if (has_work()) call_next_leader();
}

void Executor::give_order_free() {
    if (m_current_is_front && m_current->is_last_step()) m_queue.pop_front();
    m_leader = 0;
    m_current.reset();
    m_may_be_overtaken.store(0, std::memory_order_relaxed);
    if (has_work()) call_next_leader();
}

void Executor::allow_overtaking() {
    if (t_lead.executor != this) return;
    t_lead.may_be_overtaken = true;
    m_may_be_overtaken.store(t_lead.number, std::memory_order_release);
}

void Executor::be_overtaken() {
    if (t_lead.executor != this) return;
    {
        MutexLock lock(m_mutex);
        if (m_leader != std::exchange(t_lead, {}).number) return;
        overtake();
    }
    if (m_options.source) m_options.source->end_reading();
}

/// Sees to it that somebody takes the order: a thread that sleeps, or a new one.
void Executor::call_next_leader() {
    if (m_stopping) return;
    if (m_idle > m_wakeups) {
        ++m_wakeups;
        if (m_reads && !m_reader_called.exchange(true)) {
            m_options.source->wake_reader();
        } else {
            m_work_or_order.notify_one();
        }
        return;
    }
    if (m_wakeups > 0 || m_threads.size() >= m_options.max_threads) return;  // one is on its way, or comes back some time
    m_threads.emplace_back([this] { thread_main(); });
    if (!m_watch.joinable()) m_watch = std::thread([this] { watch(); });
}

void Executor::thread_main() {
    pthread_setname_np(pthread_self(), m_options.name.substr(0, 15).c_str());
    MutexLock lock(m_mutex);
    bool may_keep_others_from_reading = false;
    while (!m_stopping) {
        if (m_leader == 0 && has_work()) {
            lead(lock);
            may_keep_others_from_reading = true;
            continue;
        }
        if (m_reads && may_keep_others_from_reading) {
            // This thread may have begun to read with a reply, and will sleep now: then the one that tries to read cannot.
            lock.unlock();
            m_options.source->end_reading();
            lock.lock();
            may_keep_others_from_reading = false;
            continue;
        }
        ++m_idle;
        if (!read(lock)) m_work_or_order.wait(m_mutex);
        --m_idle;
        if (m_wakeups > 0) --m_wakeups;
    }
}

/// Waits for work by reading what comes. False: that is not this thread's to do, and nobody has called it.
bool Executor::read(MutexLock& lock) {
    WorkSource* const source = m_options.source;
    if (source == nullptr || m_reads) return false;
    m_reads = true;
    m_reader_called.store(false);
    const auto called = [this] { return m_reader_called.load(); };
    lock.unlock();
    // A thread that has not stopped reading while it worked goes on.
    const bool has_read = source->read_until(called) || (source->begin_reading() && source->read_until(called));
    lock.lock();
    m_reads = false;
    return has_read || m_stopping || m_reader_called.load();
}

void Executor::lead(MutexLock& lock) {
    const uint64_t me = ++m_last_leader;
    m_leader = me;
    t_lead = {this, me};
    if (m_watch_sleeps) m_watch_changed.notify_one();
    while (!m_stopping && has_work()) {
        if (m_options.turn != nullptr && m_options.turn->is_over()) await_turn(lock);
        const bool resumed = !m_resumed.empty();
        const std::shared_ptr<OrderedWork> work = resumed ? m_resumed.front() : m_queue.front();
        if (resumed) m_resumed.pop_front();
        m_current = work;
        m_current_is_front = !resumed;
        m_leader_called.store(false, std::memory_order_relaxed);
        lock.unlock();
        const Ran ran = run(*work, me);
        lock.lock();
        if (ran == Ran::until_others_lead) {
            // The step gave the order free, or was overtaken: `work` is another thread's now.
            t_lead = {};
            auto at_end = m_at_end.extract(me);
            if (!at_end || !at_end.mapped()) return;
            lock.unlock();
            at_end.mapped()();
            lock.lock();
            return;
        }
        if (!resumed && ran == Ran::to_its_end) m_queue.pop_front();
    }
    t_lead = {};
    m_leader = 0;
    m_current.reset();
}

/// The leader waits until the session has its turn again. Somebody else reads meanwhile.
void Executor::await_turn(MutexLock& lock) {
    m_awaits_turn = true;
    lock.unlock();
    if (m_options.source != nullptr) m_options.source->end_reading();
    m_options.turn->await();
    lock.lock();
    m_awaits_turn = false;
    if (m_watch_sleeps) m_watch_changed.notify_one();
}

/// Does step after step, until there is none left, or somebody calls.
Executor::Ran Executor::run(OrderedWork& work, uint64_t leader) {
    for (;;) {
        m_steps.store(m_steps.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        const bool more = work.step();
        if (!still_leads(leader)) return Ran::until_others_lead;
        if (!more) return Ran::to_its_end;
        if (m_leader_called.load(std::memory_order_acquire)) return Ran::until_called;
    }
}

/// False if the step that this thread has just ended gave the order away, or was overtaken.
bool Executor::still_leads(uint64_t leader) {
    if (t_lead.executor != this) return false;
    if (!std::exchange(t_lead.may_be_overtaken, false)) return true;
    uint64_t said = leader;
    return m_may_be_overtaken.compare_exchange_strong(said, 0, std::memory_order_acq_rel);
}

void Executor::watch() {
    pthread_setname_np(pthread_self(), "exec-watch");
    MutexLock lock(m_mutex);
    unsigned idle_turns = 0;
    while (!m_stopping) {
        bool takes_long = false;
        const bool somebody_led = watch_steps(takes_long);
        if (takes_long && m_options.source) {
            // What the step waits for may be what nobody reads meanwhile.
            lock.unlock();
            m_options.source->end_reading();
            lock.lock();
        }
        if (somebody_led && !m_awaits_turn) {
            idle_turns = 0;
        } else if (m_awaits_turn || ++idle_turns > k_turns_to_sleep) {
            m_watch_sleeps = true;
            while (!m_stopping && (m_leader == 0 || m_awaits_turn)) m_watch_changed.wait(m_mutex);
            m_watch_sleeps = false;
            idle_turns = 0;
        }
    }
}

/// Looks at what is being done for one turn, and overtakes it if it is the same at its end, and may be. False if nobody led.
bool Executor::watch_steps(bool& takes_long) {
    const uint64_t leader = m_leader;
    const uint64_t steps = m_steps.load(std::memory_order_relaxed);
    const auto end = std::chrono::steady_clock::now() + m_options.overtake_after * (processors_were_scarce() ? k_scarce : 1);
    while (!m_stopping && m_watch_changed.wait_until(m_mutex, end)) {
    }
    if (m_stopping || leader == 0) return leader != 0;
    takes_long = m_leader == leader && m_steps.load(std::memory_order_relaxed) == steps;
    uint64_t said = leader;
    // From here on the step's end is not the leader's.
    if (takes_long && m_may_be_overtaken.compare_exchange_strong(said, 0, std::memory_order_acq_rel)) overtake();
    return true;
}

void Executor::overtake() {
    m_at_end[m_leader] = m_current->overtaken();
    give_order_free();
}

void Executor::stop() {
    std::vector<std::thread> threads;
    std::thread watch;
    {
        MutexLock lock(m_mutex);
        m_stopping = true;
        m_leader_called.store(true, std::memory_order_release);
        threads.swap(m_threads);
        watch.swap(m_watch);
        m_reader_called.store(true);
    }
    if (m_options.turn != nullptr) m_options.turn->wait_no_more();
    if (m_options.source) m_options.source->wake_reader();
    m_work_or_order.notify_all();
    m_watch_changed.notify_all();
    for (std::thread& thread : threads) thread.join();
    if (watch.joinable()) watch.join();
}

}  // namespace warpline::server
