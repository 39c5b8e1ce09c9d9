// Copies to the device that read the program's memory when their stream comes to them.
#pragma once

#include "client/copy/copy_plan.h"

namespace warpline::client {

/// True if the stream may wait for something that the program does later: it can still write what its next work reads.
/// @param stream  token
bool is_held_up(const Call& call, uint64_t stream);

/// Page-locked memory is read in the order of the stream (DB-11). Here that is when the call is made, as long as nobody can
/// tell: nothing is under way that may still write there, and the stream waits for nothing that the program may do after it has
/// written there. Else the server asks for the bytes when the copy's turn has come.
///
/// @param stream  token
/// @return  false: it can be read now
/// @blocks where memory that does not stay has to be read now, until what is to be written there has arrived
bool has_to_be_read_late(Call& call, const void* memory, uint64_t size_bytes, uint64_t stream);

/// The copy of memory of which that is true.
///
/// @return  nothing: it is to be read now, for more waits to be read than the server may have room for
/// @blocks a synchronous copy until it is done; else where there is no room, until what is to be written there has arrived
std::optional<CUresult> copy_late(Call& call, const CopyPlan& plan, uint64_t stream, Timing timing);

}  // namespace warpline::client
