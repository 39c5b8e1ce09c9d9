// Passing file descriptors between the processes of a test, over a socket.
#pragma once

#include <sys/socket.h>

#include <cstring>

// One message with room for one descriptor.
struct DescriptorMessage {
    char byte = 0;
    iovec part{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    DescriptorMessage() {
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = control;
        message.msg_controllen = sizeof(control);
    }
    DescriptorMessage(const DescriptorMessage&) = delete;
    DescriptorMessage& operator=(const DescriptorMessage&) = delete;
};

inline bool send_descriptor(int socket, int descriptor) {
    DescriptorMessage with;
    cmsghdr* header = CMSG_FIRSTHDR(&with.message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof(descriptor));
    return sendmsg(socket, &with.message, MSG_NOSIGNAL) == 1;
}

// -1: the other side has ended, or has sent something else.
inline int receive_descriptor(int socket) {
    DescriptorMessage with;
    int descriptor = -1;
    if (recvmsg(socket, &with.message, 0) != 1 || CMSG_FIRSTHDR(&with.message) == nullptr) return -1;
    std::memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&with.message)), sizeof(descriptor));
    return descriptor;
}
