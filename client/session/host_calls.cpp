// The threads on which the program's functions run, and its memory is read.
#include "client/session/host_calls.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "client/managed/signal_mask.h"
#include "client/state/gates.h"

namespace warpline::client {

namespace {
thread_local bool t_is_callback_thread = false;
}  // namespace

HostCalls::~HostCalls() { join(); }

void HostCalls::join() {
    stop();
    std::thread functions, reads;
    {
        MutexLock lock(m_mutex);
        functions = std::move(m_of_functions.thread);
        reads = std::move(m_of_reads.thread);
    }
    for (std::thread* thread : {&functions, &reads}) {
        if (thread->joinable()) thread->join();
    }
}

uint64_t HostCalls::add(Function function, Life life) {
    MutexLock lock(m_mutex);
    uint64_t id = m_next_id++;
    m_functions.emplace(id, Entry{.function = std::make_shared<Function>(std::move(function)), .life = life});
    if (life == Life::once) m_pending.fetch_add(1, std::memory_order_acq_rel);
    return id;
}

uint64_t HostCalls::add_read(AddressRange memory, uint64_t bytes, Function function) {
    MutexLock lock(m_mutex);
    if (bytes > k_most_read_bytes - m_read_bytes) return 0;
    m_read_bytes += bytes;
    const uint64_t id = m_next_id++;
    m_functions.emplace(id, Entry{.function = std::make_shared<Function>(std::move(function)),
                                  .life = Life::read,
                                  .memory = memory,
                                  .read_bytes = bytes});
    return id;
}

std::vector<uint64_t> HostCalls::contexts_reading(AddressRange memory) {
    std::vector<uint64_t> contexts;
    const auto add = [&](const Entry& entry) {
        if (entry.life == Life::read && meet(entry.memory, memory)) contexts.push_back(entry.place.context);
    };
    MutexLock lock(m_mutex);
    if (m_read_bytes == 0) return contexts;
    if (m_of_reads.running) add(*m_of_reads.running);
    for (const auto& [id, entry] : m_functions) add(entry);
    std::sort(contexts.begin(), contexts.end());
    contexts.erase(std::unique(contexts.begin(), contexts.end()), contexts.end());
    return contexts;
}

/// What is not going to run any more.
HostCalls::Entries::iterator HostCalls::erase(Entries::iterator entry) {
    if (entry->second.life == Life::once) m_pending.fetch_sub(1, std::memory_order_acq_rel);
    m_read_bytes -= entry->second.read_bytes;
    return m_functions.erase(entry);
}

void HostCalls::forget(uint64_t id) {
    MutexLock lock(m_mutex);
    if (const auto it = m_functions.find(id); it != m_functions.end()) erase(it);
}

bool HostCalls::request(uint64_t id, CUresult status) {
    MutexLock lock(m_mutex);
    if (m_of_functions.requests.size() + m_of_reads.requests.size() >= k_max_requests) return false;
    if (!m_stopping) enqueue(id, status);
    return true;
}

void HostCalls::post(Function function) {
    MutexLock lock(m_mutex);
    if (m_stopping) return;
    const uint64_t id = m_next_id++;
    m_functions.emplace(id, Entry{.function = std::make_shared<Function>(std::move(function)), .life = Life::own});
    enqueue(id, CUDA_SUCCESS);
}

void HostCalls::enqueue(uint64_t id, CUresult status) {
    const auto found = m_functions.find(id);
    const What what = found != m_functions.end() && found->second.life == Life::read ? What::reads : What::functions;
    Worker& mine = worker(what);
    mine.requests.emplace_back(id, status);
    if (!mine.thread.joinable()) {
        // The thread inherits the signal mask: the program's signals are not for us, but for what its functions do themselves.
        sigset_t all, old;
        sigfillset(&all);
        for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, signal_mask::k_note}) sigdelset(&all, own);
        ::pthread_sigmask(SIG_SETMASK, &all, &old);
        mine.thread = std::thread([this, what] { run(what); });
        m_threads.fetch_add(1, std::memory_order_release);
        if (what == What::functions) m_has_thread.store(true, std::memory_order_release);
        ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
    }
    m_changed.notify_all();
}

void HostCalls::run(What what) {
    if (what == What::functions) {
        ::pthread_setname_np(::pthread_self(), "wl-callbacks");
        t_is_callback_thread = true;
        m_thread_number.store(static_cast<pid_t>(::syscall(SYS_gettid)), std::memory_order_release);
    } else {
        ::pthread_setname_np(::pthread_self(), "wl-reads");
    }
    MutexLock lock(m_mutex);
    Worker& mine = worker(what);
    for (;;) {
        while (mine.requests.empty() && !m_stopping) m_changed.wait(m_mutex);
        if (m_stopping) return;
        run_one(lock, mine);
    }
}

void HostCalls::run_one(MutexLock& lock, Worker& mine) {
    const auto [id, status] = mine.requests.front();
    mine.requests.pop_front();
    const auto it = m_functions.find(id);
    std::shared_ptr<Function> function = it == m_functions.end() ? nullptr : it->second.function;
    const Life life = function ? it->second.life : Life::persistent;
    if (life == Life::once || life == Life::read) mine.running = it->second;
    if (life != Life::persistent) m_functions.erase(it);
    lock.unlock();
    if (function) (*function)(status);
    // Before the server knows: who has waited for the stream then must not find it pending.
    if (life == Life::once) m_pending.fetch_sub(1, std::memory_order_acq_rel);
    if (life == Life::read) {
        lock.lock();
        m_read_bytes -= std::exchange(mine.running, std::nullopt)->read_bytes;
        lock.unlock();
    }
    // The server waits for every number that it asks for, known or not.
    if (life != Life::own) m_done(id);
    function.reset();
    lock.lock();
    mine.running.reset();
}

void HostCalls::sent(uint64_t id, Place place, uint64_t number) {
    MutexLock lock(m_mutex);
    // It may have run already.
    const auto it = m_functions.find(id);
    if (it == m_functions.end()) return;
    it->second.place = place;
    it->second.number = number;
}

bool HostCalls::precedes(const Entry& entry, uint64_t stream, uint64_t joined) {
    return entry.life == Life::once && may_come_behind(stream, entry.place.stream, entry.number, joined);
}

bool HostCalls::may_precede(uint64_t stream, uint64_t joined) {
    MutexLock lock(m_mutex);
    const auto& running = m_of_functions.running;
    if (running && precedes(*running, stream, joined)) return true;
    return std::any_of(m_functions.begin(), m_functions.end(),
                       [&](const auto& one) { return precedes(one.second, stream, joined); });
}

bool HostCalls::any_before(uint64_t number) {
    if (idle()) return false;
    const auto is_before = [number](const Entry& entry) { return entry.life == Life::once && entry.number <= number; };
    MutexLock lock(m_mutex);
    const auto& running = m_of_functions.running;
    return (running && is_before(*running)) ||
           std::any_of(m_functions.begin(), m_functions.end(), [&](const auto& one) { return is_before(one.second); });
}

void HostCalls::failed(uint64_t context, uint64_t last_number) {
    MutexLock lock(m_mutex);
    for (auto it = m_functions.begin(); it != m_functions.end();) {
        const Entry& entry = it->second;
        const bool over = entry.number != 0 && entry.number <= last_number && entry.place.context == context;
        const bool waits = entry.life == Life::once || entry.life == Life::read;
        it = waits && over ? erase(it) : std::next(it);
    }
}

void HostCalls::refused(uint64_t number) {
    MutexLock lock(m_mutex);
    for (auto it = m_functions.begin(); it != m_functions.end();) {
        const bool waits = it->second.life == Life::once || it->second.life == Life::read;
        it = waits && it->second.number == number ? erase(it) : std::next(it);
    }
}

bool HostCalls::in_callback() { return t_is_callback_thread; }

void HostCalls::stop() {
    MutexLock lock(m_mutex);
    m_stopping = true;
    for (Worker* worker : {&m_of_functions, &m_of_reads}) worker->requests.clear();
    m_changed.notify_all();
}

}  // namespace warpline::client
