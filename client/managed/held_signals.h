// Signals that come to a thread of the program while it is in a call: their handlers run behind it, or where it waits.
#pragma once

#include <signal.h>

#include <atomic>
#include <cstdint>

#include "client/managed/signal_actions.h"

namespace warpline::client::held_signals {

/// Of one thread. Written by it and by handlers that interrupt it.
struct Thread {
    std::atomic<unsigned> calls{0};          ///< that it is in; 0: handlers may run
    std::atomic<uint64_t> held{0};           ///< signals that have come meanwhile, and are blocked: bit n - 1 for n
    std::atomic<void (*)(void*)> interrupt;  ///< ends its sleep; null: it does not sleep. @thread in signal handlers
    void* interrupted = nullptr;             ///< argument of that
};
/// In the block of memory that every thread has from its beginning: handlers look at it, and each call.
extern thread_local constinit Thread t_thread __attribute__((tls_model("initial-exec")));

/// Lets the handlers run of what was held.
void deliver();

/// The program's handlers do not run in this thread in between: one that touches memory that program and device share waits
/// for other threads of ours, which may want a lock that this thread has.
class Hold {
public:
    Hold() { t_thread.calls.store(t_thread.calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
    ~Hold() {
        const unsigned calls = t_thread.calls.load(std::memory_order_relaxed);
        // A handler has left the call behind, with siglongjmp().
        if (calls == 0) [[unlikely]]
            return;
        t_thread.calls.store(calls - 1, std::memory_order_relaxed);
        if (calls == 1 && t_thread.held.load(std::memory_order_relaxed) != 0) [[unlikely]]
            deliver();
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
};

/// They do here, where the thread has no lock: what was held first.
class Open {
public:
    Open() : m_calls(t_thread.calls.load(std::memory_order_relaxed)) {
        t_thread.calls.store(0, std::memory_order_relaxed);
        if (t_thread.held.load(std::memory_order_relaxed) != 0) [[unlikely]]
            deliver();
    }
    ~Open() { t_thread.calls.store(m_calls, std::memory_order_relaxed); }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;

private:
    const unsigned m_calls;
};

/// Around a sleep with locks or duties, which a signal ends: `interrupt(argument)` is called for each that is held.
class Interruptible {
public:
    Interruptible(void (*interrupt)(void*), void* argument) {
        t_thread.interrupted = argument;
        t_thread.interrupt.store(interrupt, std::memory_order_release);
    }
    ~Interruptible() { t_thread.interrupt.store(nullptr, std::memory_order_relaxed); }
    Interruptible(const Interruptible&) = delete;
    Interruptible& operator=(const Interruptible&) = delete;
};
inline bool any() { return t_thread.held.load(std::memory_order_relaxed) != 0; }

/// True of signals whose handlers can wait.
bool may_hold(int signal);
/// True of what make_ours() has made. @thread any, also in signal handlers
bool is_ours(const struct sigaction& action);
/// What the program installs, as it goes to the kernel: with the handler that asks whether to hold the signal. False: it stays
/// as it is. @thread any, also in signal handlers
bool make_ours(int signal, struct sigaction& action);
/// What the kernel has said of a signal, as the program is to be told. @param before  what the program had installed
void tell_of_program(int signal, const signal_actions::Action& before, struct sigaction& told);

}  // namespace warpline::client::held_signals
