// A graph's copy that becomes one of the other kind.
#pragma once

#include "client/copy/copy_node.h"

namespace warpline::client {

/// A node that copies within the program's memory becomes one that copies from or to the device's, or the other way round. To
/// the server's driver one is a host node and the other is not: so another node takes its place, its edges and its handle.
/// Graphs that were made executable before have a node there that single changes do not find any more.
///
/// @errors  not supported: its graph allocates memory, or is not known here. @blocks for three round trips
CUresult exchange_copy(Call& call, CUgraphNode node, const CopyNode& copy);

}  // namespace warpline::client
