// How far work is known to have come.
#pragma once

#include <atomic>
#include <cstdint>

namespace warpline::client {

/// Raises a number that only grows.
inline void raise_to(std::atomic<uint64_t>& value, uint64_t number) {
    uint64_t seen = value.load(std::memory_order_relaxed);
    while (seen < number && !value.compare_exchange_weak(seen, number, std::memory_order_release)) {
    }
}

/// What is known of the end of some work without asking for it. The work is named by a number that grows.
struct Completion {
    std::atomic<uint64_t> done{0};  ///< complete up to this number
    /// The server will tell when work of this number is complete; 0: nobody asked it to. Ends after `done` was raised: who
    /// reads this first and then `done` misses no news.
    std::atomic<uint64_t> watched{0};
    /// Number of the newest call that had the server look: the one that watches, or a question that was answered "not yet".
    std::atomic<uint64_t> looked{0};
    std::atomic<uint64_t> asked{0};    ///< a question has sent the watch of this number on its way
    std::atomic<uint64_t> told_by{0};  ///< number of the call whose reply told of `done` last, for traces

    /// @param by  number of the call whose reply tells it
    void reached(uint64_t number, uint64_t by) {
        told_by.store(by, std::memory_order_relaxed);
        raise_to(done, number);
    }
};

}  // namespace warpline::client
