// Who is woken by what comes: the reading thread, or its guest.
#include "common/net/read_gate.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace warpline::net {

namespace {

Error no_descriptor() { return {Code::io, "no descriptor to wait at a connection with", static_cast<uint32_t>(errno)}; }

void raise(const Socket& event) {
    const uint64_t one = 1;
    (void)!::write(event.fd(), &one, sizeof one);  // fails only when it has been raised for long
}

void lower(const Socket& event) {
    uint64_t count = 0;
    (void)!::read(event.fd(), &count, sizeof count);
}

bool add(const Socket& to, int fd, uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    return ::epoll_ctl(to.fd(), EPOLL_CTL_ADD, fd, &event) == 0;
}

/// An end of the connection is something to be read as well.
bool add_connection(const Socket& to, int fd) {
    return add(to, fd, EPOLLIN | EPOLLEXCLUSIVE) || add(to, fd, EPOLLIN);  // systems that are like Linux may lack the former
}

/// The guest sleeps as a rule when something comes: that is tried again, sooner or later.
constexpr unsigned k_least_guests_to_close = 4;
constexpr unsigned k_most_guests_to_close = 256;

}  // namespace

Result<void> ReadGate::watch(int fd) {
    // Anew: the connection before may have the same number.
    for (Socket* epoll : {&m_ready, &m_for_reader, &m_for_guest}) *epoll = Socket(::epoll_create1(EPOLL_CLOEXEC));
    for (Socket* event : {&m_reader_wake, &m_guest_wake})
        if (event->fd() < 0) *event = Socket(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    m_is_open = true;
    m_guests_to_close = m_closed_last = m_guests_in_peace = 0;
    // The guest's first: of those who wait for the connection, the kernel asks the oldest first.
    const bool watches = add_connection(m_for_guest, fd) && add(m_for_guest, m_guest_wake.fd(), EPOLLIN) &&
                         add_connection(m_for_reader, fd) && add(m_ready, m_for_reader.fd(), EPOLLIN) &&
                         add(m_ready, m_reader_wake.fd(), EPOLLIN);
    if (!watches) return no_descriptor();
    return {};
}

void ReadGate::wait(Clock::time_point until) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    epoll_event events[2];
    const int count = ::epoll_wait(m_ready.fd(), events, 2, static_cast<int>(std::max<int64_t>(left, 0)));
    for (int i = 0; i < count; ++i)
        if (events[i].data.fd == m_reader_wake.fd()) lower(m_reader_wake);
}

void ReadGate::wake_reader() { raise(m_reader_wake); }

void ReadGate::open(bool is_open) {
    if (std::exchange(m_is_open, is_open) == is_open) return;
    epoll_event event{};
    event.events = is_open ? uint32_t{EPOLLIN} : 0u;
    event.data.fd = m_for_reader.fd();
    (void)::epoll_ctl(m_ready.fd(), EPOLL_CTL_MOD, m_for_reader.fd(), &event);
}

void ReadGate::guest_comes() {
    if (m_guests_to_close == 0) {
        ++m_guests_in_peace;
        return;
    }
    --m_guests_to_close;
    open(false);
}

void ReadGate::guest_leaves(bool unread) {
    open(true);  // wakes the reading thread if something has come that no sleeping guest was told of
    if (unread) wake_reader();
}

void ReadGate::reader_declines() {
    // A turn that fails costs a change of threads or two, one behind a closed door two system calls.
    const bool soon_again = m_guests_in_peace < 2 * m_closed_last;
    m_closed_last = soon_again ? std::min(2 * m_closed_last, k_most_guests_to_close) : k_least_guests_to_close;
    m_guests_to_close = m_closed_last;
    m_guests_in_peace = 0;
    open(false);
}

bool ReadGate::wait_as_guest(FunctionRef<bool()> enough) {
    // Whoever makes it enough looks at this afterwards, so one of us sees the other.
    m_guest_waits.exchange(true);
    const bool is_enough = enough();
    if (!is_enough) {
        epoll_event events[2];
        const int count = ::epoll_wait(m_for_guest.fd(), events, 2, -1);
        for (int i = 0; i < count; ++i)
            if (events[i].data.fd == m_guest_wake.fd()) lower(m_guest_wake);
    }
    m_guest_waits.store(false);
    return is_enough;
}

void ReadGate::wake_guest() {
    if (m_guest_waits.exchange(false)) raise(m_guest_wake);
}

}  // namespace warpline::net
