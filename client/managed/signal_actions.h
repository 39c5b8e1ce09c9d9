// What the program has installed for signals whose handler in the kernel is ours.
#pragma once

#include <signal.h>

#include <array>
#include <atomic>
#include <cstdint>

namespace warpline::client::signal_actions {

using Handler = void (*)(int, siginfo_t*, void*);

/// Handlers without SA_SIGINFO are called in the same way: the kernel passes all three to either.
struct Action {
    uintptr_t handler = 0;  // SIG_DFL
    uint64_t mask = 0;      ///< the kernel's part of a sigset_t
    int flags = 0;

    static Action of(const struct sigaction& from);
    /// As sigaction() tells it.
    void tell(struct sigaction& to) const;
    bool is(void (*special)(int)) const { return handler == reinterpret_cast<uintptr_t>(special); }
};

/// The kernel's part of a sigset_t.
uint64_t bits_of(const sigset_t& set);
sigset_t set_of(uint64_t bits);

/// Actions of one signal, in the order in which they were installed, each in a place of its own: one is read while others are
/// written. @thread any, also in signal handlers
class History {
public:
    Action newest(uint32_t& number) const;
    /// @returns the action before
    Action exchange(const Action& action);
    uint32_t number() const { return m_newest.load(std::memory_order_acquire); }
    bool replace(uint32_t expected, const Action& action);

private:
    struct Place {
        std::atomic<uintptr_t> handler{0};
        std::atomic<uint64_t> mask{0};
        std::atomic<int> flags{0};
    };
    Action at(uint32_t number) const;
    uint32_t write(const Action& action);

    static constexpr uint32_t k_places = 64;  // more than threads that are in here at a time
    std::array<Place, k_places> m_places;
    std::atomic<uint32_t> m_newest{0}, m_taken{0};
};

/// @param signal  from 1 to NSIG - 1
History& of(int signal);

}  // namespace warpline::client::signal_actions
