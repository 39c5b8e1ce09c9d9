// Waiting for a word that another process changes.
#include "server/control/turn.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

#include "common/log/log.h"

namespace warpline::server {

namespace {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);

// The C++ library's own waiting is for threads of one process.
void sleep_while(std::atomic<uint32_t>& word, uint32_t value, std::chrono::nanoseconds at_most) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at_most);
    const timespec timeout{seconds.count(), (at_most - seconds).count()};
    syscall(SYS_futex, &word, FUTEX_WAIT, value, &timeout, nullptr, 0);
}

void wake_sleepers(std::atomic<uint32_t>& word) { syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

}  // namespace

void give_turn(TurnCell& cell) {
    if (cell.is_over.exchange(0, std::memory_order_release) != 0) wake_sleepers(cell.is_over);
}

void Turn::await() {
    using Clock = std::chrono::steady_clock;
    const auto deadline = Clock::now() + m_patience;
    m_cell.waits.store(1, std::memory_order_release);
    while (is_over()) {
        const auto left = deadline - Clock::now();
        if (left.count() <= 0) {
            WL_LOG(warn, "session", "no turn for {} ms: going on without, as the supervisor does not answer",
                   m_patience.count());
            wait_no_more();
            break;
        }
        sleep_while(m_cell.is_over, 1, left);
    }
    m_cell.waits.store(0, std::memory_order_release);
}

void Turn::wait_no_more() {
    m_waits_no_more.store(true);
    // Whoever is about to sleep has looked before: the word must be another one.
    give_turn(m_cell);
}

}  // namespace warpline::server
