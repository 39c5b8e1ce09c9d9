// Answers to what one session's worker asks another one's.
#include "server/control/share_message.h"

#include <sys/socket.h>

#include <cerrno>

#include "common/log/log.h"
#include "common/net/descriptor_message.h"

namespace warpline::server {

void send_share_answer(int socket, const ShareAnswer& answer, int file) {
    net::DescriptorMessage descriptor;
    iovec part{const_cast<ShareAnswer*>(&answer), sizeof answer};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (file >= 0) descriptor.attach(header, file);
    if (sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        WL_LOG(debug, "server", "a session has gone that asked for what another one shares (errno {})", errno);
}

void send_share_refusal(int socket, protocol::ShareRefusal why) {
    ShareAnswer answer{};
    answer.refused = static_cast<uint32_t>(why);
    send_share_answer(socket, answer, -1);
}

}  // namespace warpline::server
