// The threads that move bytes between a channel and the protocol.
#include "common/net/channel_pump.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include <system_error>
#include <utility>

#include "common/base/run_queue.h"
#include "common/base/scope_guard.h"
#include "common/base/uncancelled.h"
#include "common/log/log.h"
#include "common/log/never_wait.h"

namespace warpline::net {

namespace {
using Clock = std::chrono::steady_clock;

// More than looking once takes, by far less than a thread that has work to do runs before it lets go of the processor.
constexpr std::chrono::microseconds k_others_ran{10};

// Each tick takes a processor from somebody where they are scarce, and empties its caches: of 64 idle programs and their
// workers that is 512 times a second. Heartbeats count silence in looks no further apart than their interval, of a second at
// least.
constexpr int k_scarce = 2;

void name_this_thread(const std::string& name) { (void)::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str()); }
}  // namespace

ChannelPump::ChannelPump(std::unique_ptr<Channel> channel, std::unique_ptr<ChannelUser> user, PumpOptions options)
    : m_channel(std::move(channel)), m_user(std::move(user)), m_options(std::move(options)) {}

ChannelPump::~ChannelPump() {
    stop();
    join();
}

Result<void> ChannelPump::start() {
    // The program's signals are handled by the program's threads.
    sigset_t all, before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    ScopeGuard restore([&] { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); });
    auto watched = m_gate.watch(m_channel->fd());
    if (!watched.ok()) {
        m_user->ended(watched.error(), watched.error().what);  // which also lets a writing thread end
        return watched;
    }
    {
        MutexLock lock(m_read_mutex);
        m_is_read = true;
        m_guest = {};
        m_guest_failed.reset();
        m_heard_bytes = m_channel->wire_bytes_received();
        m_next_tick = Clock::now() + m_options.tick_interval;
    }
    try {
        m_writer = std::thread([this] { write_loop(); });
        m_reader = std::thread([this] { read_loop(); });
    } catch (const std::system_error& e) {
        m_user->ended(Error{Code::io, "no thread"}, e.what());
        return Error{Code::io, "no thread for a connection", static_cast<uint32_t>(e.code().value())};
    }
    return {};
}

void ChannelPump::stop() {
    MutexLock lock(m_channel_mutex);
    m_stopping.store(true);
    m_channel->shutdown();
}

Result<void> ChannelPump::restart(std::unique_ptr<Channel> channel, FunctionRef<Result<void>()> attach) {
    {
        MutexLock lock(m_channel_mutex);
        MutexLock reading(m_read_mutex);
        while (m_guest_waits) m_guest_left.wait(m_read_mutex);  // it has been woken
        MutexLock writing(m_write_mutex);
        // Between the two nobody writes: what is to be sent again must not go to the channel that is lost.
        WL_TRY(attach());
        m_channel = std::move(channel);
        m_unsent_bytes = 0;
        m_unfinished = false;
        m_refused = false;
        m_stopping.store(false);
    }
    {
        MutexLock lock(m_done_mutex);
        m_writer_done = false;
    }
    return start();
}

void ChannelPump::join() {
    MutexLock lock(m_join_mutex);
    if (m_reader.joinable()) m_reader.join();
    if (m_writer.joinable()) m_writer.join();
}

// --- reading ---

void ChannelPump::read_loop() {
    name_this_thread(m_options.name + "-rd");
    const log::NeverWait never_wait;  // the heartbeat depends on it
    auto result = read_until_end();
    Error error = result.error();
    std::string explanation = m_channel->explain();
    if (explanation.empty() || m_refused) explanation = error.what;
    if (m_stopping.load()) error = Error{Code::shutting_down, "the connection was closed"};
    finish(error, std::move(explanation));
}

Result<void> ChannelPump::read_until_end() {
    for (;;) {
        MutexLock lock(m_read_mutex);
        Clock::time_point now = Clock::now();
        if (m_guest != std::thread::id() && now < m_next_tick) {
            m_gate.reader_declines();
            const Clock::time_point until = m_next_tick;
            lock.unlock();
            m_gate.wait(until);
            continue;
        }
        auto read = m_guest_failed
                        ? Result<void>(*m_guest_failed)
                        : read_available([&]() WL_NO_THREAD_SAFETY_ANALYSIS { return m_guest != std::thread::id(); });
        now = Clock::now();
        if (read.ok() && now >= m_next_tick) {
            read = m_user->tick(m_channel->path());
            const uint64_t unsent_bytes = m_user->unsent_bytes();
            if (std::exchange(m_unsent_bytes, unsent_bytes) != unsent_bytes) m_channel->bound_unsent(unsent_bytes);
            m_next_tick = now + m_options.tick_interval * (processors_were_scarce() ? k_scarce : 1);
        }
        if (!read.ok()) m_is_read = false;
        const Clock::time_point until = m_next_tick;
        lock.unlock();
        m_gate.wake_guest();
        if (!read.ok()) return read;
        m_gate.wait(until);
    }
}

/// Hands on what has come, until nothing more has, or it is enough, or the clock is to be looked at.
Result<void> ChannelPump::read_available(FunctionRef<bool()> enough) {
    m_channel->expect_input();
    do {
        const size_t count = WL_TRY(m_channel->read_some(m_user->space()));
        const uint64_t heard_bytes = m_channel->wire_bytes_received();
        if (count == 0 && heard_bytes == m_heard_bytes) return {};
        m_heard_bytes = heard_bytes;
        auto taken = m_user->received(count);
        if (!taken.ok()) {
            m_refused = true;
            return taken;
        }
        if (m_user->flush_due()) flush();
        // What is in our hands no socket tells of any more.
    } while (!m_channel->drained() || (!enough() && Clock::now() < m_next_tick));
    return {};
}

bool ChannelPump::begin_reading() {
    if (!m_options.guests || !m_read_mutex.try_lock()) return false;
    const bool begins = m_is_read && m_guest == std::thread::id() && !m_guest_failed;
    if (begins) {
        m_guest = std::this_thread::get_id();
        m_gate.guest_comes();
    }
    m_read_mutex.unlock();
    return begins;
}

bool ChannelPump::read_until(FunctionRef<bool()> enough, const Looking& looking) {
    const log::NeverWait never_wait;
    const Uncancelled uncancelled;
    MutexLock lock(m_read_mutex);
    if (!is_read_by_caller()) return false;
    m_guest_waits = true;
    ScopeGuard leave([&]() WL_NO_THREAD_SAFETY_ANALYSIS {  // under the lock: the analysis does not follow the call
        m_guest_waits = false;
        m_guest_left.notify_all();
    });
    if (looking.at_most.count() > 0 && look(lock, enough, looking)) return true;
    while (is_read_by_caller()) {
        lock.unlock();
        const bool is_enough = m_gate.wait_as_guest(enough);
        lock.lock();
        if (is_enough) return is_read_by_caller();
        if (!read_as_guest(enough)) return false;
    }
    return false;
}

/// False: it reads no more.
bool ChannelPump::read_as_guest(FunctionRef<bool()> enough) {
    if (!is_read_by_caller()) return false;
    const auto read = read_available(enough);
    if (read.ok()) return true;
    // How a connection ends is the reading thread's business.
    m_guest_failed = read.error();
    m_guest = {};
    m_gate.wake_reader();
    return false;
}

/// Looks for a while, with the mutex held through `lock`, which it opens in between. True: it is enough, and still the guest's.
bool ChannelPump::look(MutexLock& lock, FunctionRef<bool()> enough, const Looking& looking) {
    if (looking.adapts && (processors_are_scarce() || !m_look_again.worth_it())) return false;
    Clock::time_point now = Clock::now();
    const auto until = now + looking.at_most;
    bool found = enough();
    while (!found && read_as_guest(enough) && !(found = enough()) && now < until) {
        lock.unlock();
        if (looking.yields) std::this_thread::yield();
        lock.lock();
        // Others have work for this processor.
        if (looking.adapts && Clock::now() - now > k_others_ran) break;
        now = Clock::now();
    }
    found ? m_look_again.found() : m_look_again.missed();
    return found && is_read_by_caller();
}

void ChannelPump::end_reading() {
    MutexLock lock(m_read_mutex);
    if (m_guest_waits || m_guest == std::thread::id()) return;
    m_guest = {};
    if (m_is_read) m_gate.guest_leaves(!m_channel->emptied());
}

void ChannelPump::finish(const Error& error, std::string explanation) {
    if (m_refused && !m_stopping.load()) {
        m_user->refuse(error, explanation);
        auto deadline = Clock::now() + m_options.goodbye_timeout;
        MutexLock lock(m_done_mutex);
        while (!m_writer_done && m_done.wait_until(m_done_mutex, deadline)) {
        }
        lock.unlock();
        m_channel->discard_input(deadline);
    }
    m_channel->shutdown();
    WL_LOG(debug, "net", "{}: connection to {} ends: {}", m_options.name, m_channel->peer_address(), explanation);
    m_user->ended(error, explanation);
}

// --- writing ---

// Writes one burst. False if there was nothing. With do_not_wait, m_unfinished tells whether the writing thread has to go on.
Result<bool> ChannelPump::write_burst(Mode mode) {
    if (m_unfinished) {
        if (mode == Mode::do_not_wait) return false;
        WL_TRY(m_channel->finish_write());
        m_unfinished = false;
    }
    m_views.clear();
    if (!m_user->take_output(m_views)) return false;
    // Whatever becomes of the bytes, their owner gets them back.
    ScopeGuard give_back([&]() WL_NO_THREAD_SAFETY_ANALYSIS {  // under the lock: the analysis does not follow the call
        m_views.clear();
        m_user->output_sent();
    });
    if (mode == Mode::wait) {
        WL_TRY(m_channel->write(m_views, [this] { m_user->between_pieces(); }));
    } else {
        m_unfinished = !WL_TRY(m_channel->write_some(m_views));
    }
    return true;
}

void ChannelPump::write_loop() {
    name_this_thread(m_options.name + "-wr");
    // It may look for output every 50 us: the kernel would add as much again.
    (void)::prctl(PR_SET_TIMERSLACK, 5000UL, 0UL, 0UL, 0UL);
    bool failed = false;
    while (!failed && m_user->wait_for_output()) {
        MutexLock lock(m_write_mutex);
        auto written = write_burst(Mode::wait);
        failed = !written.ok();
    }
    if (failed) {
        m_channel->shutdown();  // the reading thread finds out and ends the connection
    } else {
        MutexLock lock(m_write_mutex);
        if (!m_unfinished || m_channel->finish_write().ok()) m_channel->send_end();
    }
    MutexLock lock(m_done_mutex);
    m_writer_done = true;
    m_done.notify_all();
}

void ChannelPump::flush() {
    if (!m_user->may_flush() || !m_write_mutex.try_lock()) {
        m_user->wake_writer();
        return;
    }
    const Uncancelled uncancelled;
    auto written = write_burst(Mode::do_not_wait);
    bool unfinished = m_unfinished;
    if (!written.ok()) m_channel->shutdown();
    m_write_mutex.unlock();
    if (unfinished) m_user->wake_writer();
}

}  // namespace warpline::net
