// The program's handler of SIGSEGV. Everything here is a system call or an atomic.
#include "client/managed/program_handler.h"

#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "client/managed/earlier_masks.h"
#include "client/managed/signal_mask.h"

namespace warpline::client::program_handler {

namespace {

using Handler = void (*)(int, siginfo_t*, void*);

/// The kernel's part of a sigset_t.
uint64_t bits_of(const sigset_t& set) {
    uint64_t bits = 0;
    std::memcpy(&bits, &set, sizeof bits);
    return bits;
}
sigset_t set_of(uint64_t bits) {
    sigset_t set;
    sigemptyset(&set);
    std::memcpy(&set, &bits, sizeof bits);
    return set;
}

/// Handlers without SA_SIGINFO are called in the same way: the kernel passes all three to either.
struct Action {
    uintptr_t handler = 0;  // SIG_DFL
    uint64_t mask = 0;
    int flags = 0;
    bool is(void (*special)(int)) const { return handler == reinterpret_cast<uintptr_t>(special); }
};

/// Actions in the order in which they were installed, each in a place of its own: one is read while others are written.
class History {
public:
    Action newest(uint32_t& number) const {
        for (;;) {
            number = m_newest.load(std::memory_order_acquire);
            const Action action = at(number);
            std::atomic_thread_fence(std::memory_order_acquire);
            if (m_taken.load(std::memory_order_relaxed) - number < k_places) return action;
        }
    }
    Action exchange(const Action& action) {
        const uint32_t number = write(action);
        return at(m_newest.exchange(number, std::memory_order_acq_rel));
    }
    uint32_t number() const { return m_newest.load(std::memory_order_acquire); }
    bool replace(uint32_t expected, const Action& action) {
        return m_newest.compare_exchange_strong(expected, write(action), std::memory_order_acq_rel);
    }

private:
    struct Place {
        std::atomic<uintptr_t> handler{0};
        std::atomic<uint64_t> mask{0};
        std::atomic<int> flags{0};
    };
    Action at(uint32_t number) const {
        const Place& place = m_places[number % k_places];
        return {place.handler.load(std::memory_order_relaxed), place.mask.load(std::memory_order_relaxed),
                place.flags.load(std::memory_order_relaxed)};
    }
    uint32_t write(const Action& action) {
        const uint32_t number = m_taken.fetch_add(1, std::memory_order_acq_rel) + 1;
        Place& place = m_places[number % k_places];
        place.handler.store(action.handler, std::memory_order_relaxed);
        place.mask.store(action.mask, std::memory_order_relaxed);
        place.flags.store(action.flags, std::memory_order_relaxed);
        return number;
    }

    static constexpr uint32_t k_places = 64;  // more than threads that are in here at a time
    std::array<Place, k_places> m_places;
    std::atomic<uint32_t> m_newest{0}, m_taken{0};
};
History g_installed;

Action action_of(const struct sigaction& from) {
    sigset_t mask = from.sa_mask;
    for (const int never : {SIGKILL, SIGSTOP}) sigdelset(&mask, never);
    return {reinterpret_cast<uintptr_t>(from.sa_sigaction), bits_of(mask), from.sa_flags};
}

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
        action = g_installed.newest(number);
        if (action.is(SIG_IGN) && sent) return true;
        if (action.is(SIG_DFL) || action.is(SIG_IGN) || (blocked && !sent)) return false;
        if ((action.flags & SA_RESETHAND) == 0) return true;
        if (g_installed.replace(number, {reinterpret_cast<uintptr_t>(SIG_DFL), action.mask, action.flags})) return true;
    }
}

}  // namespace

void exchange(const struct sigaction* now, struct sigaction* before) {
    uint32_t number = 0;
    const Action was = now ? g_installed.exchange(action_of(*now)) : g_installed.newest(number);
    if (!before) return;
    before->sa_sigaction = reinterpret_cast<Handler>(was.handler);
    before->sa_mask = set_of(was.mask);
    before->sa_flags = was.flags;
}

uint32_t number() { return g_installed.number(); }
void found(const struct sigaction& action, uint32_t known) { (void)g_installed.replace(known, action_of(action)); }

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
