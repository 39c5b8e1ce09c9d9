// Messages with lists of buffers that would be lost, or sent twice, if a page of memory that program and device share were
// gone.
#pragma once

#include <sys/socket.h>

#include <cstddef>

#include "client/managed/shared_buffers.h"

namespace warpline::client::shared_buffers {

/// As Landing, for recvmsg() and recvmmsg(): all that the kernel would write is memory of its own, and put where it belongs
/// when it is there; and for sendmmsg(), which says only when a message is sent that it cannot write its length. Of the heap
/// nothing is used: these calls may be made in signal handlers.
class LandedMessages {
public:
    /// @returns what is to be passed: what it was, where none of it may be shared, or the socket is a stream
    msghdr* instead_of(int fd, msghdr* message);
    mmsghdr* instead_of(int fd, mmsghdr* messages, unsigned count, Use use);
    /// @param result  of the call: bytes of the one message, or how many there are; errno stays
    void arrived(ssize_t result);

private:
    bool land(int fd, unsigned count);
    /// What the program has given, of which a single message has no length.
    msghdr& theirs(unsigned index) const { return m_list ? m_list[index].msg_hdr : *m_message; }
    void put(unsigned index, size_t size_bytes) const;
    void take(unsigned index) const;

    msghdr* m_message = nullptr;
    mmsghdr* m_list = nullptr;
    mmsghdr* m_own = nullptr;
    size_t m_area_bytes = 0;
    bool m_sends = false;
};

}  // namespace warpline::client::shared_buffers
