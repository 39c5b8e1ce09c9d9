// The parts of the opcode cp. Every copy is done when its instruction is: programs may not look before they have waited.
// Each is a decoder: false after unsupported() or invalid().
#pragma once

#include "softgpu/isa/registry.h"

namespace warpline::softgpu::isa {

bool decode_async_arrive(DecodeContext& context);  ///< cp.async.mbarrier.arrive (mbarrier.cpp)
bool decode_bulk_copy(DecodeContext& context);     ///< cp.async.bulk (async_copy_bulk.cpp)
bool decode_bulk_reduce(DecodeContext& context);   ///< cp.reduce.async.bulk (async_copy_bulk.cpp)
bool decode_tensor_copy(DecodeContext& context);   ///< both, with a tensor map, and its prefetch (tensor_copy.cpp)

}  // namespace warpline::softgpu::isa
