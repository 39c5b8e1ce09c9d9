// Threads of a library in somebody else's process.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <thread>
#include <utility>

#include "common/base/result.h"

namespace warpline {

/// A thread that takes none of the program's signals. @errors alloc_failed @blocks no
template <typename Work>
Result<std::thread> make_quiet_thread(Work work) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread thread;
    try {
        thread = std::thread(std::move(work));
    } catch (const std::system_error&) {
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!thread.joinable()) return Error{Code::alloc_failed, "no thread can be started"};
    return thread;
}

/// Starts one that nobody waits for: what it refers to it must own. @errors alloc_failed @blocks no
template <typename Work>
Result<void> start_quiet_thread(Work work) {
    WL_TRY(make_quiet_thread(std::move(work))).detach();
    return {};
}

}  // namespace warpline
