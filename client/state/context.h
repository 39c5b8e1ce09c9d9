// What is known of a context.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "client/state/completion.h"
#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"

namespace warpline::client {

inline constexpr size_t k_limit_count = 16;  // CUlimit values are small

/// A context of the program: primary, made by cuCtxCreate, or converted from a green one (cuCtxFromGreenCtx). Of the latter
/// only the default streams and what is known of their work are its own; everything else is the primary context's.
struct Context {
    uint64_t token = 0;
    uint64_t id = 0;  ///< unique in the process (cuCtxGetId)
    int device = 0;
    bool primary = false;
    uint64_t base = 0;   ///< converted from a green context: token of the primary context that it works in; 0: it is its own
    uint64_t green = 0;  ///< and the green context's

    /// Primary: how often it is retained; 0 means that it is not active. Others: 1 while it lives.
    std::atomic<unsigned> retained{0};
    std::atomic<bool> ended{false};  ///< primary: it was active, and has been released or reset since
    std::atomic<unsigned> flags{0};
    std::atomic<unsigned> attached{1};         ///< cuCtxAttach/cuCtxDetach
    std::atomic<uint64_t> synced{0};           ///< its events with record numbers up to this are complete
    std::atomic<uint64_t> default_synced{0};   ///< the same of events in its legacy default stream
    std::atomic<uint64_t> idle_at{0};          ///< call of the session that found all its streams done with what came before
    std::atomic<uint64_t> default_idle_at{0};  ///< the same of its legacy default stream
    Completion default_stream;                 ///< of the legacy default stream: numbers of calls of the session
    /// Another one after everything that changes how many blocks fit: counted before and after the call, so that what is asked
    /// between is not found again.
    std::atomic<uint64_t> settings{0};

    Mutex mutex;  // protects what follows
    std::array<std::optional<size_t>, k_limit_count> limits WL_GUARDED_BY(mutex);
    /// The last answer about the device's memory.
    struct MemoryInfo {
        uint64_t number = 0;  ///< of the call that asked
        std::chrono::steady_clock::time_point when;
        size_t free_bytes = 0, total_bytes = 0;
    };
    MemoryInfo memory_info WL_GUARDED_BY(mutex);
    uint64_t peers WL_GUARDED_BY(mutex) = 0;  ///< devices whose memory cuCtxEnablePeerAccess opened, as bits

    bool active() const { return retained.load(std::memory_order_acquire) != 0; }
};

}  // namespace warpline::client
