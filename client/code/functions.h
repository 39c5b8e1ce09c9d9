// What is known of functions: their attributes, and how many of their blocks fit.
#pragma once

#include "client/call/common.h"
#include "common/base/function_ref.h"

namespace warpline::client {

/// The attribute of a function as the driver tells it for the call's device; all of them are fetched by the first question, and
/// those of further kernels of the image with it (AttributesAhead).
CUresult function_attribute(Call& call, uint64_t token, CUfunction_attribute attribute, int& value);

/// How many blocks of this shape a multiprocessor holds: a question is a function, how that and a context are set up, and four
/// numbers, and asked once.
///
/// @param flags  as cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags has them
CUresult ask_blocks(Call& call, int* numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize, unsigned flags);

/// How much dynamic shared memory a block may have so that so many of them fit on a multiprocessor; asked once, as above.
CUresult ask_shared_bytes(Call& call, size_t* dynamicSmemSize, CUfunction func, int numBlocks, int blockSize);

/// How large the clusters of a launch may be, and how many of them fit; asked once, as above. Who asks for the second size of
/// a launch is told of all sizes at once.
CUresult ask_largest_cluster(Call& call, int* clusterSize, CUfunction func, const CUlaunchConfig& config);
CUresult ask_clusters(Call& call, int* numClusters, CUfunction func, const CUlaunchConfig& config);

/// CUDA_SUCCESS if a function may have this attribute set to this value (on this device).
CUresult check_settable(const Function& function, const Device* device, CUfunction_attribute attribute, int value);
/// True for those of which only the driver knows what values it takes: setting them waits for its answer.
bool driver_judges(CUfunction_attribute attribute);
/// Sends a call that sets something of a function on a device, and remembers what, for launches and for later questions.
///
/// @param what   a CUfunction_attribute, or one of FunctionSetup's own numbers
/// @param issue  queues the call
CUresult set_up_function(Call& call, Function& function, const Device& device, int what, int value,
                         FunctionRef<CUresult()> issue);

}  // namespace warpline::client
