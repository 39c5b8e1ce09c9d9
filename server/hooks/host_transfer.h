// The way of bytes between the wire and a device.
#pragma once

#include "common/base/function_ref.h"
#include "server/hooks/common.h"

/// Copies between the client's memory and a device, as the server sees them: from the payload of a call, into the payload of a
/// reply, into an event.
namespace warpline::server {

/// Gives a call's payload to an asynchronous copy, part by part: `copy(source, offset, bytes)` queues it in the stream. Small
/// payloads are copied by the driver before it returns, as CUDA does with pageable memory; large ones are put into page-locked
/// staging memory, so that the order of calls is not held up by a stream that is busy.
CUresult send_to_device(ServerCall& call, CUstream stream, FunctionRef<CUresult(const void*, uint64_t, uint64_t)> copy);

/// Makes `bytes` of a device the payload of the reply: `copy(target, offset, bytes)` fetches a part and returns when it is
/// there. While one part travels, the next one is fetched.
CUresult reply_from_device(ServerCall& call, uint64_t bytes, FunctionRef<CUresult(void*, uint64_t, uint64_t)> copy);

/// Sends `bytes` of a device when the stream gets there, and then a CopyDone event; in parts, the first of which leave while
/// later ones are still being copied: `copy(target, offset, bytes)` queues a part. A long one holds up its stream until all of
/// it is queued, and nobody else.
CUresult copy_back_in_parts(ServerCall& call, CUstream stream, uint64_t bytes,
                            FunctionRef<CUresult(void*, uint64_t, uint64_t)> copy);

/// The same for what cannot be cut: `copy(target)` queues the copy.
CUresult copy_back_in_stream(ServerCall& call, CUstream stream, uint64_t bytes, FunctionRef<CUresult(void*)> copy);

}  // namespace warpline::server
