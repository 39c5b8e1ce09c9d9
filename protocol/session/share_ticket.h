// What stands for memory or an event that one process of a tenant shares with others.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#include "common/base/bytes.h"

namespace warpline::protocol {

enum class ShareKind : uint8_t {
    memory = 1,      ///< of cuMemAlloc (cuIpcGetMemHandle)
    event = 2,       ///< cuIpcGetEventHandle
    allocation = 3,  ///< of cuMemCreate (cuMemExportToShareableHandle)
    pool = 4,        ///< cuMemPoolExportToShareableHandle
    pointer = 5,     ///< into a pool (cuMemPoolExportPointer)
};

/// As many bytes as CUDA's handles have, so that it travels in place of them. It means something on one server, to sessions of
/// one tenant, while the session that made it lives. It is as hard to guess as its key; a server believes nothing else of it.
struct ShareTicket {
    std::array<char, 4> magic{'W', 'L', 'S', 'H'};
    uint8_t version = 1;
    ShareKind kind{};
    uint16_t reserved = 0;
    std::array<uint8_t, 8> server{};    ///< which one, since it was started
    std::array<uint8_t, 16> session{};  ///< that has made it
    std::array<uint8_t, 16> key{};      ///< what it has made
    uint64_t mapped_bytes = 0;          ///< addresses that whoever maps the memory needs
    uint64_t unused = 0;

    friend bool operator==(const ShareTicket&, const ShareTicket&) = default;
};
static_assert(sizeof(ShareTicket) == 64);

/// Nothing, if it is no ticket of this kind.
inline std::optional<ShareTicket> read_ticket(BytesView bytes, ShareKind kind) {
    ShareTicket ticket;
    const ShareTicket empty;
    if (bytes.size() != sizeof ticket) return std::nullopt;
    std::memcpy(&ticket, bytes.data(), sizeof ticket);
    const bool known =
        ticket.magic == empty.magic && ticket.version == empty.version && ticket.reserved == 0 && ticket.unused == 0;
    return known && ticket.kind == kind ? std::optional(ticket) : std::nullopt;
}

/// Why nothing is shared, as a server tells its client beside the CUDA error.
enum class ShareRefusal : uint32_t {
    none = 0,
    other_server = 1,   ///< the ticket is another server's, or this one was started anew
    not_there = 2,      ///< no session of the tenant shares that: it has ended, or given it up
    own = 3,            ///< the session's own
    other_kind = 4,     ///< no ticket, or one for something else
    no_answer = 5,      ///< the other session's worker does not answer
    not_shareable = 6,  ///< the driver did not make this memory so that it can be shared
    too_many = 7,       ///< a session can share no more
    device_hidden = 8,  ///< the session does not see the device that it is on
    out_of_files = 9,   ///< the server's process can open no more files
    other_pool = 10,    ///< the pointer is not of the pool that it was asked of
};

}  // namespace warpline::protocol
