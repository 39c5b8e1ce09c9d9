#pragma once

// Copies and fills that touch memory of another device than the current context's. Memory that is mapped is accessible to its
// own device and to those that were given access, and a plain copy needs access where one of memory from cuMemAlloc would do
// without (NVIDIA's driver: PyTorch's allocator takes cuMemcpyPeer there, too).

#include "common/base/function_ref.h"
#include "server/hooks/common.h"

namespace warpline::server {

/// True if the memory is another device's that the current context's device may not access. `owner` is that device, as the
/// client counts.
bool is_out_of_reach(ServerCall& call, uint64_t address, CUdevice& owner);

/// The context in which the memory can be reached: the owner's primary one, or the current one.
CUresult context_for(ServerCall& call, uint64_t address, CUcontext& context);

/// Runs a copy between the memory and the worker's own in the stream, by way of a stream of the owner's if need be:
/// `copy(stream)` queues it. A synchronous copy names no stream.
CUresult copy_in_reach(ServerCall& call, uint64_t address, CUstream stream, FunctionRef<CUresult(CUstream)> copy);

/// The same for a copy that waits: `copy()` runs with a context current in which the memory can be reached, behind everything
/// that the legacy stream of the call's context was given.
CUresult wait_in_reach(ServerCall& call, uint64_t address, FunctionRef<CUresult()> copy);

/// The same for work that names no stream and waits for nothing: it is queued behind and before what the legacy stream of the
/// call's context is given. `work()` queues it in the legacy stream of the context that is current.
CUresult queue_in_reach(ServerCall& call, uint64_t address, FunctionRef<CUresult()> work);

}  // namespace warpline::server
