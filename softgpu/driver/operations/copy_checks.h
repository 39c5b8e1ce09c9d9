// What SOFTGPU_CHECK wants to know of copies and fills: which memory they write, and whether they copy to the host what
// nothing has written. Nothing happens where the check is off.
#pragma once

#include "softgpu/driver/operations/operation.h"

namespace warpline::softgpu::driver {

void note_copy(const CopyOperation& operation);
void note_memset(const CUDA_MEMSET_NODE_PARAMS& params);

}  // namespace warpline::softgpu::driver
