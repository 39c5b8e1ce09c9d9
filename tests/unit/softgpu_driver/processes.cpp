#include "tests/unit/softgpu_driver/processes.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <cstring>

#include <cstdio>

namespace softgpu_test {

void Peer::send_bytes(const void* data, size_t size) const {
    if (::send(m_socket, data, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size)) _exit(3);
}

void Peer::receive_bytes(void* data, size_t size) const {
    if (::recv(m_socket, data, size, MSG_WAITALL) != static_cast<ssize_t>(size)) _exit(3);
}

bool Peer::ended() const {
    char byte = 0;
    return ::recv(m_socket, &byte, 1, 0) <= 0;
}

void Peer::send_fd(int fd) const {
    char byte = 0;
    iovec part{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    if (sendmsg(m_socket, &message, MSG_NOSIGNAL) != 1) _exit(3);
}

int Peer::receive_fd() const {
    char byte = 0;
    iovec part{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    if (recvmsg(m_socket, &message, 0) != 1 || CMSG_FIRSTHDR(&message) == nullptr) _exit(3);
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
    return fd;
}

namespace {

pid_t start(Child work, int socket, int other) {
    pid_t child = fork();
    if (child != 0) return child;
    close(other);
    alarm(60);  // a hang is a failure, not a hang of the test
    CUcontext context = nullptr;
    EXPECT_CU(CU(cuInit)(0));
    EXPECT_CU(CU(cuCtxCreate_v4)(&context, nullptr, 0, 0));
    Peer peer(socket);
    if (!testing::Test::HasFailure()) work(peer);
    std::fflush(stdout);
    _exit(testing::Test::HasFailure() ? 1 : 0);
}

}  // namespace

void run_pair(Child first, Child second, Ends ends) {
    int sockets[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    pid_t one = start(first, sockets[0], sockets[1]), two = start(second, sockets[1], sockets[0]);
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
