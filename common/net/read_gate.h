// Where threads wait until a connection has something to be read.
#pragma once

#include <atomic>
#include <chrono>

#include "common/base/function_ref.h"
#include "common/base/result.h"
#include "common/net/socket.h"

namespace warpline::net {

/// A connection is read by a thread of its own, which waits here. A *guest* is another thread that has nothing to do before
/// something has come: while it is there, the reading thread is not woken, so that what comes finds the thread that wants it.
class ReadGate {
public:
    using Clock = std::chrono::steady_clock;

    /// What wait() and wait_as_guest() look at from now on. The guest has gone. @errors io
    Result<void> watch(int fd);

    /// The reading thread's: until there is something to read and no guest, or wake_reader(), or then.
    void wait(Clock::time_point until);
    void wake_reader();

    /// The reading thread is not woken by what comes, or is again: at once, if something has come meanwhile.
    void guest_comes();
    void guest_leaves();
    /// The guest's: until there is something to read, or wake_guest(). Returns at once if `enough()`.
    /// @return  what `enough()` said
    bool wait_as_guest(FunctionRef<bool()> enough);
    /// To be called after something has become true that a guest's `enough()` asks for. @thread any
    void wake_guest();

private:
    void arm(uint32_t events);

    Socket m_ready;        // an epoll of the connection and the next one
    Socket m_reader_wake;  // an eventfd
    Socket m_guest_wake;   // an eventfd
    int m_fd = -1;
    std::atomic<bool> m_guest_waits{false};
};

}  // namespace warpline::net
