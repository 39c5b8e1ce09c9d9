// Connections of which it is not known yet who they are, each with a thread of its own for TLS.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <string>

#include "common/base/mutex.h"
#include "common/net/socket.h"

namespace warpline::server {

/// Where handshakes are done, so many at a time. When there are more, the host that has the most of them loses its oldest one:
/// who comes with one connection, and speaks, is never turned away for the sake of others, however many begin TLS and go no
/// further.
class Reception {
public:
    /// A connection that is here.
    class Guest {
    public:
        /// It is known who it is: others have its place from now on. @thread the guest's own
        void is_known() WL_EXCLUDES(m_reception.m_mutex) { m_reception.forget(*this); }

    private:
        friend class Reception;
        Guest(Reception& reception, uint64_t number) : m_reception(reception), m_number(number) {}
        Reception& m_reception;
        const uint64_t m_number;
    };
    using Serve = std::function<void(net::Socket socket, Guest& guest)>;

    explicit Reception(size_t most) : m_most(most) {}
    Reception(const Reception&) = delete;
    Reception& operator=(const Reception&) = delete;

    /// Runs `serve` on a thread of its own, which nobody waits for: the reception, and what `serve` uses, live as long as the
    /// process. `socket` is shut down under its hands when the place is given to others.
    ///
    /// @param host  whom the connection counts for
    /// @return      how many were dropped for this one, itself included if there is neither thread nor descriptor for it
    /// @blocks      no
    size_t admit(net::Socket socket, std::string host, Serve serve) WL_EXCLUDES(m_mutex);

    /// How many are here.
    size_t size() WL_EXCLUDES(m_mutex);

private:
    struct Entry {
        uint64_t number;
        std::string host;
        int fd;  // a copy of the socket's: the number stays ours, whatever becomes of the other one
    };
    void forget(const Guest& guest) WL_EXCLUDES(m_mutex);
    void drop_one() WL_REQUIRES(m_mutex);

    const size_t m_most;
    Mutex m_mutex;
    uint64_t m_last_number WL_GUARDED_BY(m_mutex) = 0;
    std::list<Entry> m_entries WL_GUARDED_BY(m_mutex);  // oldest first
};

}  // namespace warpline::server
