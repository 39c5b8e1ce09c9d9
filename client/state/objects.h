#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"

namespace warpline::client {

/// A handle of which the client needs to know nothing but that it exists.
struct PlainObject {
    uint64_t context = 0;
};

struct Stream {
    uint64_t context = 0;
    uint64_t id = 0;  ///< unique in the process
    unsigned flags = 0;
    int priority = 0;

    // Capture: which one the stream takes part in (0: none), whether it began there, and the graph that it was told to capture into.
    std::atomic<uint64_t> capture_id{0};
    std::atomic<bool> capture_origin{false};
    std::atomic<uint64_t> capture_into{0};
    Mutex mutex;  // protects the arrays that cuStreamGetCaptureInfo has handed out
    std::vector<uint64_t> capture_dependencies WL_GUARDED_BY(mutex);
    std::vector<CUgraphEdgeData> capture_edges WL_GUARDED_BY(mutex);
};

struct Event {
    uint64_t context = 0;
    unsigned flags = 0;
    std::atomic<bool> recorded{false};
    std::atomic<uint64_t> capture_id{0};  ///< of the capture in which it was recorded last
};

struct Pool {
    uint64_t context = 0;
    int device = 0;
    bool is_default = false;
    std::atomic<uint64_t> release_threshold{0};
    std::atomic<uint64_t> used_bytes{0};
    std::atomic<uint64_t> used_high{0};
    std::atomic<uint64_t> reserved_bytes{0};
    std::atomic<uint64_t> reserved_high{0};
    std::atomic<int> reuse_event{1};
    std::atomic<int> reuse_opportunistic{1};
    std::atomic<int> reuse_internal{1};
};

/// Physical memory of cuMemCreate.
struct PhysicalMemory {
    uint64_t context = 0;
    uint64_t size_bytes = 0;
    CUmemAllocationProp properties{};
    std::atomic<unsigned> references{1};
};

struct Array {
    uint64_t context = 0;
    CUDA_ARRAY3D_DESCRIPTOR descriptor{};
    uint64_t parent = 0;  ///< a mipmapped array whose level this is
};

struct MipmappedArray {
    uint64_t context = 0;
    CUDA_ARRAY3D_DESCRIPTOR descriptor{};
    unsigned levels = 0;
};

}  // namespace warpline::client
