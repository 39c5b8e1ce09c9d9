// Copies of every shape, and how they are carried out.
#pragma once

#include "client/call/common.h"
#include "client/graph/capture.h"
#include "client/state/copy_target.h"

namespace warpline::client {

/// A copy with rows, layers or arrays in the form in which all of them travel: a CUDA_MEMCPY3D_PEER without handles and without
/// host pointers; host rows are packed, wherever they lie in the program's memory.
struct CopyPlan {
    CUDA_MEMCPY3D_PEER copy{};
    uint64_t source_array = 0, destination_array = 0;      ///< tokens
    uint64_t source_context = 0, destination_context = 0;  ///< tokens
    bool from_host = false, to_host = false;
    CopyTarget host_source, host_destination;  ///< where the rows lie here
    bool empty() const { return copy.WidthInBytes == 0 || copy.Height == 0 || copy.Depth == 0; }
};

/// Reads what the program passed.
///
/// @errors  invalid value (shape, memory type), invalid handle (array), invalid context
CUresult plan_copy(Call& call, const CUDA_MEMCPY2D& from, CopyPlan& plan);
CUresult plan_copy(Call& call, const CUDA_MEMCPY3D& from, CopyPlan& plan);
CUresult plan_copy(Call& call, const CUDA_MEMCPY3D_PEER& from, CopyPlan& plan);

enum class Timing : uint8_t { synchronous, asynchronous };

/// Does it.
///
/// @param stream  token
CUresult run_copy(Call& call, CopyPlan& plan, uint64_t stream, Timing timing);

/// A linear copy whose direction follows from its addresses.
CUresult copy_any(Call& call, CUdeviceptr destination, CUdeviceptr source, size_t size_bytes, uint64_t stream, Timing timing);

/// Copies into device memory in the legacy default stream. Waits only where copy_may_wait() says so.
CUresult copy_to_device(Call& call, CUdeviceptr destination, const void* source, size_t size_bytes);

/// Bytes to the device, and from it, in stream order.
CUresult copy_to_device_async(Call& call, CUdeviceptr destination, const void* source, size_t size_bytes, uint64_t stream);
CUresult copy_from_device(Call& call, const CopyTarget& target, CUdeviceptr source, size_t size_bytes, uint64_t stream,
                          Timing timing);

}  // namespace warpline::client
