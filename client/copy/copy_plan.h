// Copies of every shape, and how they are carried out.
#pragma once

#include "client/call/common.h"
#include "client/copy/program_memory.h"
#include "client/graph/capture.h"
#include "client/state/copy_target.h"
#include "cuda/abi/copy_end.h"

namespace warpline::client {

using cuda::abi::CopyEnd;

/// What of a copy's end is not in its description.
struct PlannedEnd {
    uint64_t array = 0;    ///< token
    uint64_t context = 0;  ///< token
    bool is_host = false;
    CopyTarget rows;  ///< of host memory: where they lie here
};

/// A copy with rows, layers or arrays in the form in which all of them travel: a CUDA_MEMCPY3D_PEER without handles and without
/// host pointers; host rows are packed, wherever they lie in the program's memory.
struct CopyPlan {
    CUDA_MEMCPY3D_PEER copy{};
    PlannedEnd source, destination;
    /// The end that lies here, of a copy that has one.
    const PlannedEnd& host() const { return source.is_host ? source : destination; }
    PlannedEnd& end(CopyEnd::Which which) { return which == CopyEnd::Which::source ? source : destination; }
    bool empty() const { return copy.WidthInBytes == 0 || copy.Height == 0 || copy.Depth == 0; }
};

/// Makes an end in host memory that the device copies itself (device_address_of) one on the device.
void use_on_device(const State& state, CopyEnd& end, Use use, size_t width, size_t height, size_t depth);

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
CUresult copy_to_device_async(Call& call, CUdeviceptr destination, const void* source, size_t size_bytes, uint64_t stream,
                              Timing timing);
CUresult copy_from_device(Call& call, const CopyTarget& target, CUdeviceptr source, size_t size_bytes, uint64_t stream,
                          Timing timing);

}  // namespace warpline::client
