// What is known of functions: their attributes, and how many of their blocks fit.
#pragma once

#include "client/call/common.h"

namespace warpline::client {

/// The attribute of a function as the driver tells it; all of them are fetched by the first question.
CUresult function_attribute(Call& call, uint64_t token, CUfunction_attribute attribute, int& value);

/// How many blocks of this shape a multiprocessor holds: a question is a function, a context and four numbers, and asked once.
///
/// @param flags  as cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags has them
CUresult ask_blocks(Call& call, int* numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize, unsigned flags);

/// CUDA_SUCCESS if a function may have this attribute set to this value (on this device).
CUresult check_settable(const Function& function, const Device* device, CUfunction_attribute attribute, int value);
/// Remembers a set attribute, for launches and for later questions.
void note_attribute(const Call& call, Function& function, CUfunction_attribute attribute, int value);

}  // namespace warpline::client
