// Nodes of graphs that copy.
#pragma once

#include "client/copy/graph_copies.h"

namespace warpline::client {

inline bool is_one_dimensional(const CUDA_MEMCPY3D& copy) { return copy.Height <= 1 && copy.Depth <= 1; }

/// From the same rows to the same rows, as far as descriptions say.
bool is_same_copy(const CUDA_MEMCPY3D& a, const CUDA_MEMCPY3D& b);

/// The parameters of a copy node in the form in which they travel. Host memory is read and written at each launch: the server
/// knows a source by a host call that sends it, and a destination by the number of the call that made the node.
struct CopyNode {
    CUDA_MEMCPY3D copy{};
    uint64_t source_array = 0;
    uint64_t destination_array = 0;
    HostEndOfCopy host;
    /// Of a copy within host memory, of which nothing travels: `copy` is what the program is told of it.
    std::optional<CopyPlan> on_host;

    static constexpr uint32_t k_in_rows = 1u << 16;
    /// From what kind of memory to what kind, and whether in rows; never 0.
    uint32_t kinds() const {
        return (is_one_dimensional(copy) ? 0 : k_in_rows) | (static_cast<uint32_t>(copy.srcMemoryType) << 8) |
               static_cast<uint32_t>(copy.dstMemoryType);
    }

    /// @param graph  token, of the one that has the node; 0: it is not known
    CUresult read(Call& call, const CUDA_MEMCPY3D& from, uint64_t graph);

private:
    /// Says of a unified address where it lies, and of an array which it is.
    CUresult settle(Call& call, CopyEnd::Which which, uint64_t graph, uint64_t& token);
};

}  // namespace warpline::client
