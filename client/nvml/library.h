// NVML in a process: who has initialised it, and what is known of the server's devices.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "client/nvml/server_view.h"
#include "common/base/mutex.h"
#include "cuda/nvml/types.h"

namespace warpline::client::nvml {

/// What the server said of its devices.
struct Snapshot {
    protocol::ServerStatus status;
    std::vector<std::string> uuids;  ///< as text: "GPU-…"
    std::chrono::steady_clock::time_point taken;
    uint64_t taken_at_us = 0;  ///< since 1970: what NVML puts on values
    bool answered = false;     ///< by the server's NVML; there is none, or it was not ready
    bool may_change = false;   ///< not answered, and the one before was, or there was none

    const std::vector<protocol::DeviceSheet>& devices() const { return status.sheets; }
};
using SnapshotPtr = std::shared_ptr<const Snapshot>;

/// What of a snapshot is wanted: what CUDA says; also what the server's NVML says, and does not change; or its values of now.
enum class Age : uint8_t { any, answered, now };

/// The library's state. Values of now are at most a quarter of a second old; of all threads that want newer ones, one asks. In
/// a child of fork everything goes on: no connection is kept, and so none is shared.
class Library {
public:
    static Library& instance() noexcept;

    /// nvmlInit, counted. @return success, driver not loaded (stderr says why, once for each reason) @blocks as cuInit
    int initialise() noexcept;
    /// nvmlShutdown.
    int shut_down() noexcept;

    /// A server whose NVML has not answered is asked again at the next question, and if it has not then, either, as seldom as
    /// others: it may have none.
    /// @return success, uninitialized, GPU is lost (the server does not answer any more) @blocks for a round trip @thread any
    int snapshot(Age age, SnapshotPtr& out) noexcept;

private:
    struct State {
        Mutex mutex;
        ConditionVariable changed;
        unsigned users WL_GUARDED_BY(mutex) = 0;
        bool asking WL_GUARDED_BY(mutex) = false;  // a thread does, without the mutex
        std::shared_ptr<const ServerView> server WL_GUARDED_BY(mutex);
        SnapshotPtr snapshot WL_GUARDED_BY(mutex);
        std::chrono::steady_clock::time_point failed_at WL_GUARDED_BY(mutex);
        std::string told WL_GUARDED_BY(mutex);
    };

    Library() noexcept;
    State& state() noexcept { return *m_state.load(std::memory_order_acquire); }
    static void before_fork() noexcept WL_NO_THREAD_SAFETY_ANALYSIS;
    static void after_fork_in_parent() noexcept WL_NO_THREAD_SAFETY_ANALYSIS;
    static void after_fork_in_child() noexcept WL_NO_THREAD_SAFETY_ANALYSIS;
    template <typename Ask>
    SnapshotPtr ask_open(State& state, std::string& why, Ask&& ask) WL_REQUIRES(state.mutex);
    int find_server(State& state) WL_REQUIRES(state.mutex);
    int renew(State& state) WL_REQUIRES(state.mutex);

    std::atomic<State*> m_state;  // never freed: a child of fork leaves its parent's behind
};

}  // namespace warpline::client::nvml
