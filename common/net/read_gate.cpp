// Who is woken by what comes: the reading thread, or its guest.
#include "common/net/read_gate.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

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

Result<void> add(const Socket& ready, int fd) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP;
    event.data.fd = fd;
    if (::epoll_ctl(ready.fd(), EPOLL_CTL_ADD, fd, &event) != 0) return no_descriptor();
    return {};
}

}  // namespace

Result<void> ReadGate::watch(int fd) {
    m_ready = Socket(::epoll_create1(EPOLL_CLOEXEC));  // anew: the connection before may have the same number
    if (m_reader_wake.fd() < 0) m_reader_wake = Socket(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (m_guest_wake.fd() < 0) m_guest_wake = Socket(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (m_ready.fd() < 0 || m_reader_wake.fd() < 0 || m_guest_wake.fd() < 0) return no_descriptor();
    m_fd = fd;
    WL_TRY(add(m_ready, fd));
    return add(m_ready, m_reader_wake.fd());
}

void ReadGate::wait(Clock::time_point until) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    epoll_event events[2];
    const int count = ::epoll_wait(m_ready.fd(), events, 2, static_cast<int>(std::max<int64_t>(left, 0)));
    for (int i = 0; i < count; ++i)
        if (events[i].data.fd == m_reader_wake.fd()) lower(m_reader_wake);
}

void ReadGate::wake_reader() { raise(m_reader_wake); }

void ReadGate::arm(uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.fd = m_fd;
    (void)::epoll_ctl(m_ready.fd(), EPOLL_CTL_MOD, m_fd, &event);
}

void ReadGate::guest_comes() { arm(0); }
void ReadGate::guest_leaves() { arm(EPOLLIN | EPOLLRDHUP); }

bool ReadGate::wait_as_guest(FunctionRef<bool()> enough) {
    // Whoever makes it enough looks at this afterwards, so one of us sees the other.
    m_guest_waits.exchange(true);
    const bool is_enough = enough();
    if (!is_enough) {
        pollfd entries[] = {{m_fd, POLLIN | POLLRDHUP, 0}, {m_guest_wake.fd(), POLLIN, 0}};
        (void)::poll(entries, 2, -1);
        if (entries[1].revents != 0) lower(m_guest_wake);
    }
    m_guest_waits.store(false);
    return is_enough;
}

void ReadGate::wake_guest() {
    if (m_guest_waits.exchange(false)) raise(m_guest_wake);
}

}  // namespace warpline::net
