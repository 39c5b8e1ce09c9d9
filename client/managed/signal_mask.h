// What the program has blocked, and what its threads have blocked instead.
#pragma once

#include <signal.h>

#include <cstdint>

namespace warpline::client::signal_mask {

/// An access to a page that the device has is a SIGSEGV, and ends a process whose thread has that blocked. So no thread does:
/// where the program has blocked it, this signal is blocked, which no kernel sends, and programs do not use (a fault on the
/// stack of a coprocessor that x86 has not had for decades). A note in the mask itself is wherever masks go, also without us:
/// in threads that are started, in signal handlers and behind them, behind siglongjmp() and setcontext(), in forked children.
inline constexpr int k_note = SIGSTKFLT;

inline bool has(const sigset_t& set, int signal) { return sigismember(&set, signal) == 1; }
inline sigset_t only(int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    return set;
}
/// In the kernel's part of a sigset_t.
constexpr uint64_t bit_of(int signal) { return uint64_t{1} << (signal - 1); }
inline void put(sigset_t& set, int signal, bool in) { in ? sigaddset(&set, signal) : sigdelset(&set, signal); }

/// For the kernel: what the program blocks, unblocks, or has blocked in its handlers. @thread any, also in signal handlers
inline sigset_t to_thread(sigset_t of_program) {
    put(of_program, k_note, has(of_program, SIGSEGV));
    sigdelset(&of_program, SIGSEGV);
    return of_program;
}

/// For the program: what it would find without us. Of the signal that is the note it is not kept whether it was blocked: it
/// was where all are, of which the last one tells. @thread any, also in signal handlers
inline void to_program(sigset_t& of_thread) {
    put(of_thread, SIGSEGV, has(of_thread, SIGSEGV) || has(of_thread, k_note));
    put(of_thread, k_note, has(of_thread, SIGRTMAX));
}

}  // namespace warpline::client::signal_mask
