// Starts processes that share memory and events with the test.
#include "tests/unit/softgpu_driver/processes.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <cstdio>

#include "tests/programs/pass_descriptor.h"

namespace softgpu_test {

void Peer::send_bytes(const void* data, size_t size) const {
    if (::send(m_socket, data, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size)) _exit(3);
}

void Peer::receive_bytes(void* data, size_t size) const {
    if (::recv(m_socket, data, size, MSG_WAITALL) != static_cast<ssize_t>(size)) _exit(3);
}

bool Peer::ended() const {
    char byte = 0;
    if (m_other == 0 || ::recv(m_socket, &byte, 1, 0) > 0) return false;
    // It is a child of the test's, which does not wait for it before this one has ended: its number is still its own.
    const int process = static_cast<int>(syscall(SYS_pidfd_open, m_other, 0));
    pollfd entry{process, POLLIN, 0};
    const bool gone = process >= 0 && ::poll(&entry, 1, -1) == 1;
    if (process >= 0) close(process);
    return gone;
}

void Peer::send_fd(int fd) const {
    if (!send_descriptor(m_socket, fd)) _exit(3);
}

int Peer::receive_fd() const {
    int fd = receive_descriptor(m_socket);
    if (fd < 0) _exit(3);
    return fd;
}

namespace {

pid_t start(Child work, int socket, int others, pid_t other) {
    pid_t child = fork();
    if (child != 0) return child;
    close(others);
    alarm(60);  // a hang is a failure, not a hang of the test
    CUcontext context = nullptr;
    EXPECT_CU(CU(cuInit)(0));
    EXPECT_CU(CU(cuCtxCreate_v4)(&context, nullptr, 0, 0));
    Peer peer(socket, other);
    if (!testing::Test::HasFailure()) work(peer);
    std::fflush(stdout);
    _exit(testing::Test::HasFailure() ? 1 : 0);
}

}  // namespace

void run_pair(Child first, Child second, Ends ends) {
    int sockets[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    const pid_t one = start(first, sockets[0], sockets[1], 0), two = start(second, sockets[1], sockets[0], one);
    close(sockets[0]);
    close(sockets[1]);
    int status = 0;
    waitpid(two, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "second child: status " << status;
    waitpid(one, &status, 0);
    if (ends == Ends::first_is_killed) {
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "first child: status " << status;
    } else {
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "first child: status " << status;
    }
}

}  // namespace softgpu_test
