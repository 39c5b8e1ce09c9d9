// Reading the pipes that a driver prints into.
#include "server/worker/output_capture.h"

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

OutputCapture::OutputCapture(std::vector<Source> sources, Sink sink)
    : m_sources(std::move(sources)),
      m_sink(std::move(sink)),
      m_stop_fd(eventfd(0, EFD_CLOEXEC)),
      m_log_texts(m_sources.size()),
      m_asked(m_sources.size()) {
    for (const Source& source : m_sources) {
        if (source.copy_fd >= 0) copy_pending(source.fd, source.copy_fd);
    }
    m_thread = std::thread([this] { thread_main(); });
}

OutputCapture::~OutputCapture() {
    const uint64_t one = 1;
    if (write(m_stop_fd, &one, sizeof one) == sizeof one) m_thread.join();
    close(m_stop_fd);
}

bool OutputCapture::hand_on(size_t index) {
    const Source& source = m_sources[index];
    std::byte buffer[16 * 1024];
    const ssize_t got = read(source.fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) return true;
    if (got <= 0) return false;
    const BytesView text{buffer, static_cast<size_t>(got)};
    if (source.copy_fd >= 0) m_log_texts[index].write(source.copy_fd, text);
    m_sink(source.stream, text);
    return true;
}

void OutputCapture::drain() {
    std::fflush(stdout);
    MutexLock lock(m_mutex);
    // Before each reply, and nearly always in vain: one question for all of them.
    for (size_t i = 0; i < m_sources.size(); ++i) m_asked[i] = {m_sources[i].fd, POLLIN, 0};
    const int ready = poll(m_asked.data(), m_asked.size(), 0);
    if (ready == 0) return;
    for (size_t i = 0; i < m_sources.size(); ++i) {
        while ((ready < 0 || (m_asked[i].revents & POLLIN) != 0) && hand_on(i)) {
        }
    }
}

void OutputCapture::thread_main() {
    pthread_setname_np(pthread_self(), "output");
    std::vector<pollfd> watched;
    for (const Source& source : m_sources) watched.push_back({source.fd, POLLIN, 0});
    watched.push_back({m_stop_fd, POLLIN, 0});
    for (;;) {
        if (poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR) return;
        if (watched.back().revents != 0) return;
        for (size_t i = 0; i < m_sources.size(); ++i) {
            if ((watched[i].revents & (POLLERR | POLLHUP)) != 0) watched[i].fd = -1;
            if ((watched[i].revents & POLLIN) == 0) continue;
            MutexLock lock(m_mutex);
            static_cast<void>(hand_on(i));
        }
    }
}

}  // namespace warpline::server
