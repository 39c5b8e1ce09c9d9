// When a lost connection is tried to be replaced: how long an attempt may take, and the pause before the next one.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>

namespace warpline::client {

/// For an attempt, counted from 0: one whose bytes are damaged on the way must not take as long as the server keeps a session
/// in doubt, and one over a slow link gets its time when the first have failed.
constexpr std::chrono::milliseconds patience_of(unsigned attempt) {
    return std::chrono::milliseconds(1'500) * (1u << std::min(attempt, 6u));
}

/// The longest pause after an attempt, counted from 0: `first`, and twice as much each time, up to `longest`.
constexpr std::chrono::milliseconds longest_pause_after(unsigned attempt, std::chrono::milliseconds first,
                                                        std::chrono::milliseconds longest) {
    return std::min(first * (int64_t{1} << std::min(attempt, 20u)), longest);
}

/// The pause itself, with full jitter: programs that lost one server at the same time come back at different ones. @thread any
inline std::chrono::milliseconds random_pause_after(unsigned attempt, std::chrono::milliseconds first,
                                                    std::chrono::milliseconds longest) {
    static thread_local std::minstd_rand random{std::random_device{}()};
    const auto bound = longest_pause_after(attempt, first, longest);
    return std::chrono::milliseconds(std::uniform_int_distribution<int64_t>(0, bound.count())(random));
}

}  // namespace warpline::client
