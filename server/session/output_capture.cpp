#include "server/session/output_capture.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace warpline::server {

Result<int> OutputCapture::redirect_stdout() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return Error{Code::io, "pipe failed", static_cast<uint32_t>(errno)};
    std::fflush(stdout);
    const bool moved = dup2(ends[1], STDOUT_FILENO) >= 0;
    close(ends[1]);
    if (!moved) {
        close(ends[0]);
        return Error{Code::io, "standard output cannot be redirected"};
    }
    // The reading end only: a driver that prints more than a pipe holds waits until it has been read.
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    setvbuf(stdout, nullptr, _IOFBF, 64 * 1024);
    return ends[0];
}

OutputCapture::OutputCapture(int pipe_fd, Sink sink)
    : m_pipe_fd(pipe_fd), m_sink(std::move(sink)), m_stop_fd(eventfd(0, EFD_CLOEXEC)), m_thread([this] { thread_main(); }) {}

OutputCapture::~OutputCapture() {
    const uint64_t one = 1;
    if (write(m_stop_fd, &one, sizeof one) == sizeof one) m_thread.join();
    close(m_stop_fd);
    close(m_pipe_fd);
}

void OutputCapture::drain() {
    std::fflush(stdout);
    MutexLock lock(m_mutex);
    std::byte buffer[16 * 1024];
    for (;;) {
        const ssize_t got = read(m_pipe_fd, buffer, sizeof buffer);
        if (got > 0) {
            m_sink({buffer, static_cast<size_t>(got)});
        } else if (got == 0 || errno != EINTR) {
            return;
        }
    }
}

void OutputCapture::thread_main() {
    pthread_setname_np(pthread_self(), "output");
    for (;;) {
        pollfd watched[2] = {{m_pipe_fd, POLLIN, 0}, {m_stop_fd, POLLIN, 0}};
        if (poll(watched, 2, -1) < 0 && errno != EINTR) return;
        if (watched[1].revents != 0 || (watched[0].revents & (POLLERR | POLLHUP)) != 0) return;
        if ((watched[0].revents & POLLIN) == 0) continue;
        MutexLock lock(m_mutex);
        std::byte buffer[16 * 1024];
        const ssize_t got = read(m_pipe_fd, buffer, sizeof buffer);
        if (got > 0) m_sink({buffer, static_cast<size_t>(got)});
    }
}

}  // namespace warpline::server
