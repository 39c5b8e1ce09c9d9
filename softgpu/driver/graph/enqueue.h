// Giving operations to streams.
#pragma once

#include <cstdint>

#include "softgpu/driver/operations/launch.h"

namespace warpline::softgpu::driver {

/// Hands an operation to a stream: a node if the stream is being captured, else work.
CUresult enqueue(Stream& stream, KernelOperation operation);
/// The same from what a launch call says. @errors  those of make_kernel(), and invalid handle (a stream of another device)
CUresult enqueue_launch(const LaunchRequest& request, CUstream stream);
CUresult enqueue(Stream& stream, HostOperation operation);
CUresult enqueue(Stream& stream, BatchMemoryOperation operation);

/// How a copy or a fill behaves towards the caller.
enum class CopyMode : uint8_t {
    synchronous,   ///< the call returns when CUDA's synchronous copies do
    asynchronous,  ///< pageable host memory is staged or waited for, as CUDA does
    in_order,      ///< the same, but the source is read in the order of the stream, whatever memory it is
    read_now,      ///< the source has been read when the call returns
};
/// "Synchronize every synchronous memory operation initiated on this region" (CU_POINTER_ATTRIBUTE_SYNC_MEMOPS), or on the
/// context (CU_CTX_SYNC_MEMOPS).
bool always_waits(const Stream& stream, const void* address);
/// A synchronous fill of page-locked or managed memory is over when it returns; others are not waited for.
CUresult enqueue(Stream& stream, MemsetOperation operation, CopyMode mode);
CUresult enqueue_copy(Stream& stream, CopyOperation operation, CopyMode mode);

}  // namespace warpline::softgpu::driver
