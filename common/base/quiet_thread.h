// Threads of a library in somebody else's process.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <thread>
#include <utility>

#include "common/base/result.h"

namespace warpline {

/// Starts a thread that takes none of the program's signals and that nobody waits for: what it refers to it must own.
/// @errors alloc_failed @blocks no
template <typename Work>
Result<void> start_quiet_thread(Work work) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = true;
    try {
        std::thread(std::move(work)).detach();
    } catch (const std::system_error&) {
        started = false;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!started) return Error{Code::alloc_failed, "no thread can be started"};
    return {};
}

}  // namespace warpline
