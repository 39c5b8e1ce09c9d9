// The program's handler of SIGSEGV. Everything here is a system call or an atomic.
#include "client/managed/program_handler.h"

#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "client/managed/earlier_masks.h"
#include "client/managed/signal_actions.h"
#include "client/managed/signal_mask.h"

namespace warpline::client::program_handler {

namespace {

using signal_actions::Action;
using signal_actions::bits_of;
using signal_actions::Handler;
using signal_actions::set_of;

signal_actions::History& installed() { return signal_actions::of(SIGSEGV); }

/// An instruction is executed again, and ends the process where it stands; what was sent is sent again.
void end_process(int signal, siginfo_t* info, bool sent) {
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    ::sigaction(signal, &standard, nullptr);
    if (sent) ::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), ::syscall(SYS_gettid), signal, info);
}

/// @returns false if the process is to end
bool take_action(bool sent, bool blocked, Action& action) {
    for (;;) {
        uint32_t number = 0;
        action = installed().newest(number);
        if (action.is(SIG_IGN) && sent) return true;
        if (action.is(SIG_DFL) || action.is(SIG_IGN) || (blocked && !sent)) return false;
        if ((action.flags & SA_RESETHAND) == 0) return true;
        if (installed().replace(number, {reinterpret_cast<uintptr_t>(SIG_DFL), action.mask, action.flags})) return true;
    }
}

}  // namespace

void exchange(const struct sigaction* now, struct sigaction* before) {
    uint32_t number = 0;
    const Action was = now ? installed().exchange(Action::of(*now)) : installed().newest(number);
    if (before) was.tell(*before);
}

uint32_t number() { return installed().number(); }
void found(const struct sigaction& action, uint32_t known) { (void)installed().replace(known, Action::of(action)); }

void pass_on(int signal, siginfo_t* info, void* context) {
    const int error = errno;
    sigset_t mask = set_of(bits_of(static_cast<ucontext_t*>(context)->uc_sigmask));
    const bool blocked = signal_mask::has(mask, signal_mask::k_note) && !earlier_masks::is_from_before();
    // What the kernel finds itself has a positive code.
    const bool sent = info->si_code <= 0;
    Action action;
    if (!take_action(sent, blocked, action)) return end_process(signal, info, sent);
    if (action.is(SIG_IGN)) return;
    sigset_t more = set_of(action.mask);
    if ((action.flags & SA_NODEFER) == 0) sigaddset(&more, signal);
    mask = set_of(bits_of(mask) | bits_of(signal_mask::to_thread(more)));
    ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    errno = error;
    reinterpret_cast<Handler>(action.handler)(signal, info, context);
}

}  // namespace warpline::client::program_handler
