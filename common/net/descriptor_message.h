// Descriptors beside the bytes of a message on a Unix-domain socket.
#pragma once

#include <sys/socket.h>

#include <cstring>

#include "common/net/socket.h"

namespace warpline::net {

/// What a message header needs to carry a descriptor, or to take some. Outlives the system call.
class DescriptorMessage {
public:
    void attach(msghdr& header, int fd) {
        header.msg_control = m_control;
        header.msg_controllen = CMSG_SPACE(sizeof fd);
        cmsghdr* entry = CMSG_FIRSTHDR(&header);
        entry->cmsg_level = SOL_SOCKET;
        entry->cmsg_type = SCM_RIGHTS;
        entry->cmsg_len = CMSG_LEN(sizeof fd);
        std::memcpy(CMSG_DATA(entry), &fd, sizeof fd);
    }
    /// Room for a few, so that surplus descriptors are seen and closed instead of leaking; the kernel closes those beyond.
    void make_room(msghdr& header) {
        header.msg_control = m_control;
        header.msg_controllen = sizeof m_control;
    }
    /// After a message was received: the first that came with it, invalid if none did; the others are closed.
    static Socket take(msghdr& header) {
        Socket first;
        for (cmsghdr* entry = CMSG_FIRSTHDR(&header); entry != nullptr; entry = CMSG_NXTHDR(&header, entry)) {
            if (entry->cmsg_level != SOL_SOCKET || entry->cmsg_type != SCM_RIGHTS) continue;
            const size_t count = (entry->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            for (size_t i = 0; i < count; ++i) {
                int fd = -1;
                std::memcpy(&fd, CMSG_DATA(entry) + i * sizeof fd, sizeof fd);
                Socket received(fd);
                if (!first.valid()) first = std::move(received);
            }
        }
        return first;
    }

private:
    alignas(cmsghdr) char m_control[CMSG_SPACE(8 * sizeof(int))] = {};
};

}  // namespace warpline::net
