// The thread on which the program's functions run.
#include "client/session/host_calls.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "client/managed/signal_mask.h"

namespace warpline::client {

namespace {
thread_local bool t_is_callback_thread = false;
}  // namespace

HostCalls::~HostCalls() { join(); }

void HostCalls::join() {
    stop();
    std::thread thread;
    {
        MutexLock lock(m_mutex);
        thread = std::move(m_thread);
    }
    if (thread.joinable()) thread.join();
}

uint64_t HostCalls::add(Function function, Life life) {
    MutexLock lock(m_mutex);
    uint64_t id = m_next_id++;
    m_functions.emplace(id, Entry{.function = std::make_shared<Function>(std::move(function)), .life = life});
    if (life == Life::once) m_pending.fetch_add(1, std::memory_order_acq_rel);
    return id;
}

void HostCalls::forget(uint64_t id) {
    MutexLock lock(m_mutex);
    auto it = m_functions.find(id);
    if (it == m_functions.end()) return;
    if (it->second.life == Life::once) m_pending.fetch_sub(1, std::memory_order_acq_rel);
    m_functions.erase(it);
}

bool HostCalls::request(uint64_t id, CUresult status) {
    MutexLock lock(m_mutex);
    if (m_requests.size() >= k_max_requests) return false;
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
    m_requests.emplace_back(id, status);
    if (!m_thread.joinable()) {
        // The thread inherits the signal mask: the program's signals are not for us, but for what its functions do themselves.
        sigset_t all, old;
        sigfillset(&all);
        for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, signal_mask::k_note}) sigdelset(&all, own);
        ::pthread_sigmask(SIG_SETMASK, &all, &old);
        m_thread = std::thread([this] { run(); });
        m_has_thread.store(true, std::memory_order_release);
        ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
    }
    m_changed.notify_all();
}

void HostCalls::run() {
    ::pthread_setname_np(::pthread_self(), "wl-callbacks");
    t_is_callback_thread = true;
    m_thread_number.store(static_cast<pid_t>(::syscall(SYS_gettid)), std::memory_order_release);
    MutexLock lock(m_mutex);
    for (;;) {
        while (m_requests.empty() && !m_stopping) m_changed.wait(m_mutex);
        if (m_stopping) return;
        auto [id, status] = m_requests.front();
        m_requests.pop_front();
        auto it = m_functions.find(id);
        std::shared_ptr<Function> function = it == m_functions.end() ? nullptr : it->second.function;
        const bool once = function && it->second.life == Life::once;
        const bool own = function && it->second.life == Life::own;
        if (once) m_running = it->second;
        if (once || own) m_functions.erase(it);
        lock.unlock();
        if (function) (*function)(status);
        // Before the server knows: who has waited for the stream then must not find it pending.
        if (once) m_pending.fetch_sub(1, std::memory_order_acq_rel);
        // The server waits for every number that it asks for, known or not.
        if (!own) m_done(id);
        function.reset();
        lock.lock();
        m_running.reset();
    }
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
    constexpr uint64_t k_special = 2;  // default streams, for which others wait
    if (entry.life != Life::once) return false;
    const bool is_apart = entry.number >= joined && entry.place.stream > k_special && stream > k_special;
    return !is_apart || entry.place.stream == stream;
}

bool HostCalls::may_precede(uint64_t stream, uint64_t joined) {
    MutexLock lock(m_mutex);
    if (m_running && precedes(*m_running, stream, joined)) return true;
    return std::any_of(m_functions.begin(), m_functions.end(),
                       [&](const auto& one) { return precedes(one.second, stream, joined); });
}

void HostCalls::failed(uint64_t context, uint64_t last_number) {
    MutexLock lock(m_mutex);
    for (auto it = m_functions.begin(); it != m_functions.end();) {
        const Entry& entry = it->second;
        const bool over = entry.number != 0 && entry.number <= last_number && entry.place.context == context;
        if (entry.life != Life::once || !over) {
            ++it;
            continue;
        }
        it = m_functions.erase(it);
        m_pending.fetch_sub(1, std::memory_order_acq_rel);
    }
}

bool HostCalls::in_callback() { return t_is_callback_thread; }

void HostCalls::stop() {
    MutexLock lock(m_mutex);
    m_stopping = true;
    m_requests.clear();
    m_changed.notify_all();
}

}  // namespace warpline::client
