// How a call says that the server's driver is too old for it.
#pragma once

#include <atomic>

namespace warpline::client {

/// The answer of a function that the server's driver is too old for: CUDA_ERROR_NOT_SUPPORTED, and one line for each function
/// that names the version it needs.
///
/// @thread  any
int refuse_newer(const char* function, int since, std::atomic<bool>& told) noexcept;

}  // namespace warpline::client

/// Refuses, from a generated function, what came with a CUDA version that the server's driver does not have yet.
#define WL_REFUSE_NEWER(function, since)                                                       \
    [] {                                                                                       \
        static std::atomic<bool> told{false};                                                  \
        return static_cast<CUresult>(::warpline::client::refuse_newer(function, since, told)); \
    }()
