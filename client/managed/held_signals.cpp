// Holding signals back, and the handler that does. Everything that handlers call is a system call or an atomic.
#include "client/managed/held_signals.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>

#include "client/managed/signal_actions.h"
#include "client/managed/signal_mask.h"

namespace warpline::client::held_signals {

thread_local constinit Thread t_thread;

namespace {

using signal_actions::Action;

/// The signal comes again once it is not blocked any more, with all that is said of it. False: it cannot be kept.
bool hold(int signal, siginfo_t* info, void* context) {
    const sigset_t set = signal_mask::only(signal);
    // Also of handlers that may be interrupted by their own signal.
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    if (::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), ::syscall(SYS_gettid), signal, info) != 0) return false;
    sigaddset(&static_cast<ucontext_t*>(context)->uc_sigmask, signal);
    t_thread.held.fetch_or(signal_mask::bit_of(signal), std::memory_order_relaxed);
    if (auto* const interrupt = t_thread.interrupt.load(std::memory_order_acquire)) interrupt(t_thread.interrupted);
    return true;
}

void handle(int signal, siginfo_t* info, void* context) {
    const int error = errno;
    if (t_thread.calls.load(std::memory_order_relaxed) != 0 && hold(signal, info, context)) {
        errno = error;
        return;
    }
    uint32_t number = 0;
    const Action action = signal_actions::of(signal).newest(number);
    if ((action.flags & SA_RESETHAND) != 0) {
        struct sigaction standard {};
        standard.sa_handler = SIG_DFL;
        if (signal_actions::of(signal).replace(number, Action{})) ::sigaction(signal, &standard, nullptr);
    }
    errno = error;
    // Ignored, or what is standard, from this moment on: it has come too early.
    if (!action.is(SIG_DFL) && !action.is(SIG_IGN))
        reinterpret_cast<signal_actions::Handler>(action.handler)(signal, info, context);
}

}  // namespace

void deliver() {
    const int error = errno;
    const sigset_t set = signal_actions::set_of(t_thread.held.exchange(0, std::memory_order_relaxed));
    ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    errno = error;
}

bool may_hold(int signal) {
    switch (signal) {
        // What an instruction does comes with that; and how a process ends is not put off.
        case SIGSEGV:
        case SIGBUS:
        case SIGFPE:
        case SIGILL:
        case SIGTRAP:
        case SIGSYS:
        case SIGABRT:
        case SIGKILL:
        case SIGSTOP:
        case signal_mask::k_note: return false;
        default: break;
    }
    constexpr int k_first_of_library = 32;  // which has the signals from there to SIGRTMIN for itself
    return signal > 0 && signal < NSIG && (signal < k_first_of_library || signal >= SIGRTMIN);
}

bool is_ours(const struct sigaction& action) { return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == handle; }

bool make_ours(int signal, struct sigaction& action) {
    if (!may_hold(signal) || is_ours(action)) return false;
    const bool is_special = action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN;
    if (is_special) return false;
    action.sa_sigaction = handle;
    action.sa_flags = (action.sa_flags | SA_SIGINFO) & ~static_cast<int>(SA_RESETHAND);
    return true;
}

void tell_of_program(int signal, const signal_actions::Action& before, struct sigaction& told) {
    if (may_hold(signal) && is_ours(told)) before.tell(told);
}

}  // namespace warpline::client::held_signals
