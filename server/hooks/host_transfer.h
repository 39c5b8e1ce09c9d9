// The way of bytes between the wire and a device.
#pragma once

#include "common/base/function_ref.h"
#include "server/hooks/common.h"
#include "server/hooks/copy_pieces.h"

/// Copies between the client's memory and a device, as the server sees them: from the payload of a call, into the payload of a
/// reply, into an event. All of them go piece by piece, through a little memory.
namespace warpline::server {

/// Copies a piece between the device and memory of the worker's, packed.
using PieceToDevice = FunctionRef<CUresult(const void* source, const Piece& piece)>;
using PieceToHost = FunctionRef<CUresult(void* target, const Piece& piece)>;

/// Gives a call's payload to an asynchronous linear copy, part by part: `copy(source, offset, bytes)` queues it in the stream.
/// Small payloads are copied by the driver before it returns, as CUDA does with pageable memory; large ones are put into
/// page-locked staging memory, so that the order of calls is not held up by a stream that is busy.
CUresult send_to_device(ServerCall& call, CUstream stream, FunctionRef<CUresult(const void*, uint64_t, uint64_t)> copy);

/// Gives a call's payload, which has all of the extent, to a copy that returns when a piece is on the device.
/// @blocks until the last one is
CUresult send_pieces(ServerCall& call, const Extent& extent, PieceToDevice copy);
/// The same for a copy that queues each piece in the stream.
CUresult send_pieces_in_stream(ServerCall& call, CUstream stream, const Extent& extent, PieceToDevice copy);

/// Makes what a copy fetches from a device the payload of the reply; it returns when a piece is there. While one piece travels,
/// the next one is fetched.
CUresult reply_from_device(ServerCall& call, const Extent& extent, PieceToHost copy);

/// Sends what a copy fetches from a device when the stream gets there, and then a CopyDone event; the first pieces leave while
/// later ones are still being copied: `copy` queues each. A long one holds up its stream until all of it is queued, and nobody
/// else.
CUresult copy_back_in_stream(ServerCall& call, CUstream stream, const Extent& extent, PieceToHost copy);

}  // namespace warpline::server
