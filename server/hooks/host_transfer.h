// The way of bytes between the wire and a device.
#pragma once

#include "common/base/function_ref.h"
#include "server/hooks/common.h"
#include "server/hooks/copy_pieces.h"

/// Copies between the client's memory and a device, as the server sees them: from the payload of a call, into the payload of a
/// reply, into an event. All of them go piece by piece, through a little memory, and all of them are queued: a driver's own
/// synchronous copy holds its context while it waits, and nothing of the program's other threads gets past (DB-50).
namespace warpline::server {

/// Queues the copy of a piece between the device and page-locked memory of the worker's, packed.
using PieceToDevice = FunctionRef<CUresult(const void* source, const Piece& piece)>;
using PieceToHost = FunctionRef<CUresult(void* target, const Piece& piece)>;

/// True if a synchronous copy of so few bytes has nothing to wait for but itself, as long as the caller keeps the order: then
/// it may be the driver's own, which holds up nobody and costs no change of threads.
/// Not for memory of another device that is out of reach: that waits for another context.
bool waits_for_nothing(ServerCall& call, uint64_t address, uint64_t bytes);

/// When a copy to the device returns.
enum class Until : uint8_t {
    queued,   ///< asynchronous
    arrived,  ///< synchronous: what comes next finds it there, also in streams that do not wait for the legacy one
};

/// Gives a call's payload to a linear copy, part by part: `copy(source, offset, bytes)` queues it in the stream. Small payloads
/// are copied by the driver before it returns, as CUDA does with pageable memory; large ones are copied from where they have
/// arrived, if that is page-locked, else put into staging memory, so that the order of calls is not held up by a busy stream.
/// @blocks with Until::arrived until the stream has copied all
CUresult send_to_device(ServerCall& call, CUstream stream, Until until,
                        FunctionRef<CUresult(const void*, uint64_t, uint64_t)> copy);

/// The same for a payload that has all of an extent, in pieces of it.
CUresult send_pieces(ServerCall& call, CUstream stream, Until until, const Extent& extent, PieceToDevice copy);

/// Makes what a copy fetches from a device the payload of the reply: `copy` queues each piece in the stream. While some pieces
/// leave, the next ones are fetched. @blocks until the last one is there
CUresult reply_from_device(ServerCall& call, CUstream stream, const Extent& extent, PieceToHost copy);
/// The same into memory of the worker's own, for no more than a piece.
CUresult fetch_from_device(ServerCall& call, CUstream stream, MutableBytesView target, FunctionRef<CUresult(void*)> copy);

/// Sends what a copy fetches from a device when the stream gets there, and then a CopyDone event; the first pieces leave while
/// later ones are still being copied: `copy` queues each. A long one holds up its stream until all of it is queued, and nobody
/// else.
CUresult copy_back_in_stream(ServerCall& call, CUstream stream, const Extent& extent, PieceToHost copy);

}  // namespace warpline::server
