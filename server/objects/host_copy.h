// A copy node's end in the client's memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/region.h"
#include "cuda/abi/cuda_types.h"
#include "server/objects/async_copies.h"
#include "server/objects/host_calls.h"

namespace warpline::server {

/// An event behind the last launch of an executable graph.
struct LaunchMark {
    CUevent event = nullptr;
    uint64_t context = 0;  ///< token of the context that it was made in
};

class Overlay;

/// A copy of a graph's from or to the client's memory. The node in the driver's graph copies from or to staging memory of ours,
/// by whose address it is found again in every clone and child of the graph.
struct HostCopy {
    HostCopy(AsyncCopies& owner, AsyncCopies::Copy* memory) : copies(owner), staging(memory) {}
    /// No graph and no launch has it any more.
    ~HostCopy() { copies.cancel(staging); }
    HostCopy(const HostCopy&) = delete;
    HostCopy& operator=(const HostCopy&) = delete;

    /// Tells the client what the graph has copied; once for each launch.
    void send_once() {
        if (!left.exchange(true)) AsyncCopies::completed(staging);
    }

    AsyncCopies& copies;
    AsyncCopies::Copy* const staging;
    /// From the client's memory: the host call that brings its bytes. 0: to its memory; the staging's call says which copy.
    uint64_t source = 0;
    // What it touches there; only compared with that of others.
    uint64_t client_address = 0;
    uint64_t client_bytes = 0;
    /// The rows there; here they lie one behind the other. Nothing: what the client says of them does not fit together.
    std::optional<Region> rows;
    /// The host nodes that see to it in the launch at hand, or the last one; HostCalls'.
    std::vector<HostCalls::Ticket*> linked;
    std::atomic<bool> left{true};                    ///< to the client: the bytes of the launch at hand have been sent
    std::shared_ptr<LaunchMark> last;                ///< behind the last launch that used the staging memory; the executor's
    std::vector<std::shared_ptr<Overlay>> overlays;  ///< see there

    /// The bytes lie here as they do there.
    bool is_linear() const { return client_bytes == staging->bytes; }
    /// All that this one touches the other one touches, too.
    bool is_within(const HostCopy& other) const {
        return client_address >= other.client_address &&
               client_address - other.client_address + client_bytes <= other.client_bytes;
    }
    bool touches(const HostCopy& other) const {
        return client_address < other.client_address + other.client_bytes &&
               other.client_address < client_address + client_bytes;
    }
};

using HostCopyPtr = std::shared_ptr<HostCopy>;

}  // namespace warpline::server
