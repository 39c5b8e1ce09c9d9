// How one session's worker asks another one's for what it shares, through the supervisor.
#pragma once

#include <cstdint>

#include "protocol/session/share_ticket.h"
#include "server/control/control.h"

namespace warpline::server {

/// Of ControlKind::borrow and ControlKind::lend, with one end of a socket pair (SOCK_SEQPACKET): the answer comes there.
struct ShareRequest {
    uint8_t session_id[k_session_id_bytes];  ///< of who shares it
    uint8_t key[16];
    uint32_t kind;  ///< protocol::ShareKind
    uint32_t padding;
};

/// One message, with a descriptor if what is shared has one. The supervisor answers, too, where it refuses.
struct ShareAnswer {
    uint32_t refused;  ///< protocol::ShareRefusal
    int32_t device;    ///< of a pool: the driver's number
    uint64_t mapped_bytes;
    uint64_t offset;  ///< of the allocation in what is mapped
    uint64_t size_bytes;
    uint8_t pool_key[16];  ///< of a pointer: that of its pool's ticket
    uint8_t handle[64];    ///< of an event: the driver's
};

/// Sends an answer, without waiting: a peer that does not read gets none. @param file  -1: none; stays the caller's @thread any
void send_share_answer(int socket, const ShareAnswer& answer, int file);
/// The same, of one that says why there is nothing.
void send_share_refusal(int socket, protocol::ShareRefusal why);

}  // namespace warpline::server
