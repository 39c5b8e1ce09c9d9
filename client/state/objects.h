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

    std::atomic<bool> capturing{false};  ///< quick answer for calls that ask each time; the rest below
    Mutex mutex;                         // protects what follows
    CUstreamCaptureMode capture_mode WL_GUARDED_BY(mutex) = CU_STREAM_CAPTURE_MODE_GLOBAL;
    uint64_t capture_id WL_GUARDED_BY(mutex) = 0;
    uint64_t capture_graph WL_GUARDED_BY(mutex) = 0;
    bool capture_broken WL_GUARDED_BY(mutex) = false;
};

struct Event {
    uint64_t context = 0;
    unsigned flags = 0;
    std::atomic<bool> recorded{false};
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
