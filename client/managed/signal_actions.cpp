// Actions of signals, kept where handlers can read them. Everything here is an atomic.
#include "client/managed/signal_actions.h"

#include <cstring>

namespace warpline::client::signal_actions {

namespace {
constinit std::array<History, NSIG> g_histories;
}

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

Action Action::of(const struct sigaction& from) {
    sigset_t mask = from.sa_mask;
    for (const int never : {SIGKILL, SIGSTOP}) sigdelset(&mask, never);
    return {reinterpret_cast<uintptr_t>(from.sa_sigaction), bits_of(mask), from.sa_flags};
}

void Action::tell(struct sigaction& to) const {
    to.sa_sigaction = reinterpret_cast<Handler>(handler);
    to.sa_mask = set_of(mask);
    to.sa_flags = flags;
}

Action History::newest(uint32_t& number) const {
    for (;;) {
        number = m_newest.load(std::memory_order_acquire);
        const Action action = at(number);
        std::atomic_thread_fence(std::memory_order_acquire);
        if (m_taken.load(std::memory_order_relaxed) - number < k_places) return action;
    }
}

Action History::exchange(const Action& action) {
    const uint32_t number = write(action);
    return at(m_newest.exchange(number, std::memory_order_acq_rel));
}

bool History::replace(uint32_t expected, const Action& action) {
    return m_newest.compare_exchange_strong(expected, write(action), std::memory_order_acq_rel);
}

Action History::at(uint32_t number) const {
    const Place& place = m_places[number % k_places];
    return {place.handler.load(std::memory_order_relaxed), place.mask.load(std::memory_order_relaxed),
            place.flags.load(std::memory_order_relaxed)};
}

uint32_t History::write(const Action& action) {
    const uint32_t number = m_taken.fetch_add(1, std::memory_order_acq_rel) + 1;
    Place& place = m_places[number % k_places];
    place.handler.store(action.handler, std::memory_order_relaxed);
    place.mask.store(action.mask, std::memory_order_relaxed);
    place.flags.store(action.flags, std::memory_order_relaxed);
    return number;
}

History& of(int signal) { return g_histories[static_cast<size_t>(signal)]; }

}  // namespace warpline::client::signal_actions
