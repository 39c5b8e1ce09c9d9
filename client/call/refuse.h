// How a call says that something is not supported.
#pragma once

#include <atomic>

namespace warpline::client {

/// The answer of a function that is not supported: CUDA_ERROR_NOT_SUPPORTED (or not initialised, deinitialised), and one log
/// line for each function in the life of the process.
///
/// @thread  any, also before cuInit
int refuse(const char* function, const char* reason, std::atomic<bool>& told) noexcept;

/// The whole of an exported function that is not supported: refuse(), and what is told of every call.
int refuse_symbol(const char* function, const char* reason, std::atomic<bool>& told) noexcept;

}  // namespace warpline::client

/// Refuses, from a hook, what a supported call is asked for and cannot do. One log line for each place.
#define WL_REFUSE_CALL(function, reason)                                                  \
    [] {                                                                                  \
        static std::atomic<bool> told{false};                                             \
        return static_cast<CUresult>(::warpline::client::refuse(function, reason, told)); \
    }()
