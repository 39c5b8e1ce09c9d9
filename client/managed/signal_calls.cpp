// sigaction(), pthread_sigmask() and their relatives, as the program calls them. All may be called in signal handlers.
#include "client/managed/signal_calls.h"

#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <cstring>

#include "client/managed/call_rows.h"
#include "client/managed/earlier_masks.h"
#include "client/managed/faults.h"
#include "client/managed/held_signals.h"
#include "client/managed/program_handler.h"
#include "client/managed/signal_actions.h"
#include "client/managed/signal_mask.h"

namespace warpline::client::signal_calls {

namespace {

using system_calls::Row;
using Handler = void (*)(int);

using SigAction = Row<"sigaction", int(int, const struct sigaction*, struct sigaction*)>;

int our_sigaction(int signal, const struct sigaction* now, struct sigaction* before) {
    struct sigaction noted {};
    if (now) noted = *now;  // the two may be one
    if (signal == SIGSEGV) {
        faults::install();
        program_handler::exchange(now ? &noted : nullptr, before);
        return 0;
    }
    noted.sa_mask = signal_mask::to_thread(noted.sa_mask);
    if (!held_signals::may_hold(signal)) {
        const int result = SigAction::real(signal, now ? &noted : nullptr, before);
        if (result == 0 && before) signal_mask::to_program(before->sa_mask);
        return result;
    }
    // What runs from now on is there before the kernel calls it.
    uint32_t number = 0;
    signal_actions::History& history = signal_actions::of(signal);
    // Whoever has asked the kernel without us puts ours back, and means what that stood for.
    const bool changes = now && !held_signals::is_ours(noted);
    const signal_actions::Action was = changes ? history.exchange(signal_actions::Action::of(noted)) : history.newest(number);
    if (changes) (void)held_signals::make_ours(signal, noted);
    struct sigaction told {};
    const int result = SigAction::real(signal, now ? &noted : nullptr, &told);
    if (result != 0 || !before) return result;
    held_signals::tell_of_program(signal, was, told);
    signal_mask::to_program(told.sa_mask);
    *before = told;
    return result;
}

/// Whose handler in the kernel is ours.
bool is_looked_after(int signal) { return signal == SIGSEGV || held_signals::may_hold(signal); }

/// signal() in one of its two kinds.
template <ImportName Name, int Flags>
struct Signal : Row<Name, Handler(int, Handler)> {
    static Handler ours(int signal, Handler handler) {
        if (!is_looked_after(signal) || handler == SIG_ERR) return Signal::real(signal, handler);
        struct sigaction now {
        }, before{};
        now.sa_handler = handler;
        now.sa_mask = (Flags & SA_NODEFER) != 0 ? sigset_t{} : signal_mask::only(signal);
        now.sa_flags = Flags;
        return our_sigaction(signal, &now, &before) == 0 ? before.sa_handler : SIG_ERR;
    }
};
constexpr int k_bsd = SA_RESTART, k_system_v = static_cast<int>(SA_RESETHAND | SA_NODEFER);

/// What blocks signals in the calling thread.
template <ImportName Name>
struct Mask : Row<Name, int(int, const sigset_t*, sigset_t*)> {
    static int ours(int how, const sigset_t* set, sigset_t* before) {
        earlier_masks::settle();
        sigset_t noted;
        if (set) {
            noted = signal_mask::to_thread(*set);
            // Whoever has blocked it without us has it open again.
            if (how == SIG_UNBLOCK && signal_mask::has(*set, SIGSEGV)) sigaddset(&noted, SIGSEGV);
        }
        // What the kernel writes goes by memory of our own: the device may have the program's page.
        sigset_t told{};
        const int result = Mask::real(how, set ? &noted : nullptr, before ? &told : nullptr);
        if (result != 0 || !before) return result;
        signal_mask::to_program(told);
        std::memcpy(before, &told, _NSIG / 8);  // as much as the kernel writes
        return result;
    }
};
using SigProcMask = Mask<"sigprocmask">;

/// sighold(), sigrelse(). @returns as sigprocmask()
template <ImportName Name, int How>
struct Hold : Row<Name, int(int)> {
    static int ours(int signal) {
        if (signal != SIGSEGV) return Hold::real(signal);
        const sigset_t set = signal_mask::only(signal);
        return SigProcMask::ours(How, &set, nullptr);
    }
};

using SigIgnore = Row<"sigignore", int(int)>;
int our_sigignore(int signal) {
    if (!is_looked_after(signal)) return SigIgnore::real(signal);
    struct sigaction now {};
    now.sa_handler = SIG_IGN;
    return our_sigaction(signal, &now, nullptr);
}

using SigSet = Row<"sigset", Handler(int, Handler)>;
Handler our_sigset(int signal, Handler handler) {
    if (!is_looked_after(signal) || handler == SIG_ERR) return SigSet::real(signal, handler);
    const bool holds = handler == SIG_HOLD;
    const sigset_t set = signal_mask::only(signal);
    sigset_t was;
    struct sigaction now {
    }, before{};
    now.sa_handler = handler;
    if (SigProcMask::ours(holds ? SIG_BLOCK : SIG_UNBLOCK, &set, &was) != 0) return SIG_ERR;
    our_sigaction(signal, holds ? nullptr : &now, &before);
    return signal_mask::has(was, signal) ? SIG_HOLD : before.sa_handler;
}

using GetAttributeMask = Row<"pthread_attr_getsigmask_np", int(const pthread_attr_t*, sigset_t*)>;
int our_pthread_attr_getsigmask_np(const pthread_attr_t* attributes, sigset_t* mask) {
    const int result = GetAttributeMask::real(attributes, mask);
    if (result == 0) signal_mask::to_program(*mask);
    return result;
}

/// The new thread has its maker's mask.
using CreateThread = Row<"pthread_create", int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>;
int our_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*function)(void*), void* argument) {
    earlier_masks::settle();
    return CreateThread::real(thread, attributes, function, argument);
}

}  // namespace

void add_to(std::vector<Import>& imports) {
    for (const Import& one :
         {SigAction::import(our_sigaction), SigIgnore::import(our_sigignore), SigSet::import(our_sigset),
          GetAttributeMask::import(our_pthread_attr_getsigmask_np), CreateThread::import(our_pthread_create)})
        imports.push_back(one);
    system_calls::Table<Signal<"signal", k_bsd>, Signal<"bsd_signal", k_bsd>, Signal<"ssignal", k_bsd>,
                        Signal<"__sysv_signal", k_system_v>, Signal<"sysv_signal", k_system_v>, SigProcMask,
                        Mask<"pthread_sigmask">, Hold<"sighold", SIG_BLOCK>, Hold<"sigrelse", SIG_UNBLOCK>>::add_to(imports);
}

}  // namespace warpline::client::signal_calls
