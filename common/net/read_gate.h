// Where threads wait until a connection has something to be read.
#pragma once

#include <atomic>
#include <chrono>

#include "common/base/function_ref.h"
#include "common/base/result.h"
#include "common/net/socket.h"

namespace warpline::net {

/// A connection is read by a thread of its own, which waits here. A *guest* is another thread that has nothing to do before
/// something has come: what comes finds the thread that wants it.
///
/// While a guest sleeps in wait_as_guest(), the kernel wakes it and nobody else (epoll(7), EPOLLEXCLUSIVE; its registration is
/// the older one), and coming and leaving cost nothing. What comes while the guest is there and does not sleep wakes the
/// reading thread for nothing, again and again where client and server share a processor. When that has happened, the next
/// guests close the door, which takes each of them a system call to come and another one to leave; the more of them, the sooner
/// it has happened again.
class ReadGate {
public:
    using Clock = std::chrono::steady_clock;

    /// What wait() and wait_as_guest() look at from now on. The guest has gone. @errors io
    Result<void> watch(int fd);

    /// The reading thread's: until there is something to read and no guest, or wake_reader(), or then.
    void wait(Clock::time_point until);
    void wake_reader();

    // These three by one thread at a time.
    void guest_comes();
    /// @param unread  the socket may have something that has come before
    void guest_leaves(bool unread);
    /// The reading thread has been woken while there is a guest: it waits on until that leaves.
    void reader_declines();
    /// The guest's: until there is something to read, or wake_guest(). Returns at once if `enough()`.
    /// @return  what `enough()` said
    bool wait_as_guest(FunctionRef<bool()> enough);
    /// To be called after something has become true that a guest's `enough()` asks for. @thread any
    void wake_guest();

private:
    void open(bool is_open);

    Socket m_ready;                  // an epoll of the next two
    Socket m_for_reader;             // an epoll of the connection
    Socket m_for_guest;              // another one, and of m_guest_wake
    Socket m_reader_wake;            // an eventfd
    Socket m_guest_wake;             // an eventfd
    bool m_is_open = true;           // what comes wakes the reading thread
    unsigned m_guests_to_close = 0;  // how many of those who come next close the door
    unsigned m_closed_last = 0;      // how many that were the last time
    unsigned m_guests_in_peace = 0;  // since the door was left open again
    std::atomic<bool> m_guest_waits{false};
};

}  // namespace warpline::net
