// What CUDA keeps for each thread of the program.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "client/state/objects.h"
#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"
#include "cuda/gen/call_id.gen.h"

namespace warpline::client {

inline constexpr size_t k_class_count = 8;  // of cuda::CallClass

/// A context on a thread's stack of current ones.
struct CurrentContext {
    uint64_t context = 0;    ///< token of the context that work is done in; 0: none
    uint64_t converted = 0;  ///< token of the context that a green one of it was converted to, if that is what is current

    uint64_t handle() const { return converted != 0 ? converted : context; }
};

/// What CUDA keeps per thread, and the thread's number, which travels with its calls.
struct ThreadState {
    uint32_t number = 0;
    std::vector<CurrentContext> contexts;  ///< the current one is the last
    CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    Stream own_stream;  ///< what is known of CU_STREAM_PER_THREAD
    /// What is known of the end of that stream's work in one context; what is to be told may come when the thread has ended.
    struct OwnCompletion {
        uint64_t context = 0;
        Completion completion;
    };
    std::shared_ptr<OwnCompletion> own_completion;
    std::chrono::steady_clock::time_point told_not_ready;  ///< when a question was answered so here, the last time
    /// Address and bytes of what the device was given for the call that is being made; of one that was not made after all,
    /// until others take its place.
    std::vector<std::pair<uint64_t, uint64_t>> given;
    bool used_own_stream = false;  ///< a call named the per-thread default stream: the server has made one
    std::array<std::atomic<uint64_t>, k_class_count> calls{};  ///< by class; written by this thread, summed for the statistics

    CurrentContext current() const { return contexts.empty() ? CurrentContext{} : contexts.back(); }
    uint64_t current_context() const { return current().context; }
};

/// The calling thread's state, made at its first call. Ends with the thread.
///
/// @thread  any
ThreadState& this_thread();

/// The sums over all threads that ever called, by class.
std::array<uint64_t, k_class_count> calls_by_class();

/// What to do when a thread that used the library ends; called in that thread. Set once, at cuInit.
void set_thread_end_handler(void (*handler)(ThreadState&));

/// In a forked child: only the calling thread is left, and what it had belonged to the parent's session.
void forget_threads_after_fork();

}  // namespace warpline::client
