// Where threads of the program sleep until another one has done something to a lock that the kernel may not find.
#pragma once

#include <time.h>

#include <cstdint>

namespace warpline::client::parking {

/// One for many addresses: who sleeps there looks again when anybody is woken. Nothing to be allocated, locked or left behind:
/// threads come and go also in signal handlers, and leave by siglongjmp().
struct Place;

struct Deadline {
    clockid_t clock = CLOCK_REALTIME;  ///< or CLOCK_MONOTONIC
    timespec time{};                   ///< absolute
    bool is_time() const { return time.tv_nsec >= 0 && time.tv_nsec < 1'000'000'000; }
};

/// How often somebody was woken near this address. To be asked before the thread looks whether it has to sleep.
uint32_t seen(const void* address);

/// The stay of a thread that waits for something of an address, and has looked whether it has to.
class Visit {
public:
    explicit Visit(const void* address);
    ~Visit();
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    /// @param until  null: without end
    /// @returns 0 when somebody was woken here since `seen`, perhaps for another address; EINTR behind a handler of a signal;
    ///          ETIMEDOUT. errno stays @blocks
    int sleep(uint32_t seen, const Deadline* until);

private:
    Place& m_place;
    const uint32_t m_bit;  ///< not all that sleep at a place have to wake up
};

/// Wakes who waits for something of this address, or is about to sleep. @returns false if nobody can be there
/// @thread any, also in signal handlers
bool wake(const void* address);
/// Wakes everybody who has looked before.
void wake_all();

}  // namespace warpline::client::parking
