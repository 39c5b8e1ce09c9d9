#pragma once

#include <memory>
#include <span>

#include "cuda/abi/cuda_types.h"
#include "softgpu/driver/event.h"
#include "softgpu/driver/stream.h"

namespace warpline::softgpu::driver {

class Capture {};

/// For calls that may not be made while a capture is going on that concerns the calling thread: stream capture unsupported.
inline CUresult check_unsafe_call() { return CUDA_SUCCESS; }
inline CUresult check_not_capturing(Stream&) { return CUDA_SUCCESS; }
inline void abandon_capture(Stream&) {}
CUresult record_event(Stream& stream, const EventPtr& event, CUevent handle, bool external);
CUresult wait_for_event(Stream& stream, const EventPtr& event, CUevent handle, bool external);
class MemoryPool;
CUresult capture_allocation(Stream& stream, MemoryPool& pool, size_t bytes, CUdeviceptr* out);
CUresult capture_free(Stream& stream, CUdeviceptr address);
CUresult check_memory_operations(std::span<const CUstreamBatchMemOpParams> items);

}  // namespace warpline::softgpu::driver
