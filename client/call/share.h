// Sharing memory and events with other processes: what all its calls need.
#pragma once

#include <optional>

#include "client/call/common.h"
#include "protocol/session/share_ticket.h"

namespace warpline::client {

using protocol::ShareKind;
using protocol::ShareTicket;

/// From now on other processes may see what this one has sent, and change what it sees: calls that are over when they return
/// have to be over on the server, and nothing is known beforehand.
void note_shared(const Call& call);

/// A result of a call that shares something, with one line for each reason why it may not (protocol::ShareRefusal).
CUresult told_why(const char* function, uint32_t why, CUresult result);

/// The bytes of a ticket that the server has made. False if they are none of this kind.
bool take_ticket(const Bytes& bytes, ShareKind kind, ShareTicket& ticket);

/// Whether what a ticket stands for is over when nobody has the descriptor.
enum class Ends : bool { no, yes };
/// A descriptor for the program, in which the ticket lies: a socket, which other processes that are given it can read, and
/// whose end shows that nobody has it any more.
/// @errors CUDA_ERROR_OUT_OF_MEMORY (no descriptors)
CUresult give_descriptor(Call& call, const ShareTicket& ticket, Ends ends, int& descriptor);
/// The ticket in such a descriptor, which stays the program's and as it is. Nothing, if it is none.
std::optional<ShareTicket> ticket_in(int descriptor, ShareKind kind);
/// Tells the server which descriptors nobody has any more.
void settle_shares(Call& call);
/// Memory was freed: its ticket, if it has one, is good no longer. What lies there next is something else.
void end_share(Call& call, uint64_t address);

/// Another process's memory, of which `ticket` is known to be of the kind, at an address of ours.
/// @param pool  the ticket of the pool that a pointer is of; null: no pointer
/// @param owner  token of that pool; 0: none
/// @param opened  is set on success; the range is registered
/// @blocks for the other process's worker
CUresult open_memory(Call& call, const ShareTicket& ticket, const ShareTicket* pool, uint64_t owner, OpenedMemory& opened);
/// The program has done with it; its kernels need not have.
void close_memory(Call& call, const OpenedMemory& opened);

/// A pointer into another process's pool is freed. @errors CUDA_ERROR_INVALID_VALUE (it is none)
CUresult close_pointer(Call& call, uint64_t address);
/// What other processes know a pool by, made when it is asked for.
CUresult ticket_of(Call& call, Pool& pool, const char* function, ShareTicket& ticket);
/// Before a pool goes.
void end_sharing(Call& call, Pool& pool);

}  // namespace warpline::client
