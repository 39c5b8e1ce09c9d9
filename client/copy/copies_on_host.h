// Copies within the program's own memory: done here, in the order of a stream, and called by graphs as functions of ours.
#pragma once

#include "client/copy/copy_plan.h"

namespace warpline::client {

/// A copy within host memory, in the order of a stream; of one that is captured, a function that the graph calls at its turn.
/// @blocks for what the stream has to do before, unless it is captured
CUresult copy_on_host(Call& call, const CopyPlan& plan, uint64_t stream);

/// The number under which the server calls such a copy of a graph back.
/// @param told     what the program is told of the node
/// @param context  token
uint64_t register_host_copy(Call& call, const CopyPlan& plan, const CUDA_MEMCPY3D& told, uint64_t context);

/// Whether a node is such a copy. @blocks for a round trip, if graphs have any and of this node it is not known
CUresult is_host_copy(Call& call, CUgraphNode node, bool& is_one);
/// What the program is told of a node that is such a copy; nothing if it is none. @blocks likewise
CUresult describe_host_copy(Call& call, CUgraphNode node, std::optional<CUDA_MEMCPY3D>& told);

}  // namespace warpline::client
