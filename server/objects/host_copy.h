// A copy node's end in the client's memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
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
    ~HostCopy() {
        copies.cancel(staging);
        if (run_mark != nullptr) copies.cancel(run_mark);
    }
    HostCopy(const HostCopy&) = delete;
    HostCopy& operator=(const HostCopy&) = delete;

    /// To the client: a launch begins. @param conditional  only if its node was run there is something to tell
    void begin_launch(bool conditional) {
        is_conditional = conditional;
        if (conditional) std::memset(run_mark->data, 0, run_mark->bytes);
        left.store(false);
    }
    /// In the launch at hand its node was run, as far as that has come.
    bool has_run() const {
        uint32_t mark = 1;
        if (is_conditional) std::memcpy(&mark, run_mark->data, sizeof mark);
        return mark != 0;
    }
    /// Tells the client what the graph has copied; once for each launch.
    void send_once() {
        if (!left.exchange(true) && has_run()) AsyncCopies::completed(staging);
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
    CUDA_MEMCPY3D node{};  ///< the parameters of its node, with the staging memory at this end
    /// The host nodes that see to it in the launch at hand, or the last one; HostCalls'.
    std::vector<HostCalls::Ticket*> linked;
    AsyncCopies::Copy* run_mark = nullptr;           ///< where a node in a conditional body notes that it was run
    bool is_conditional = false;                     ///< in the launch at hand
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

/// Has a copy read, or write, host memory here.
inline void put_host_end(CUDA_MEMCPY3D& copy, bool source, std::byte* place) {
    if (source) {
        copy.srcMemoryType = CU_MEMORYTYPE_HOST;
        copy.srcHost = place;
        copy.srcDevice = 0;
    } else {
        copy.dstMemoryType = CU_MEMORYTYPE_HOST;
        copy.dstHost = place;
        copy.dstDevice = 0;
    }
}

}  // namespace warpline::server
