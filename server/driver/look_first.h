// Looking whether the device is done before a thread sleeps for it.
#pragma once

#include <chrono>

#include "common/base/look_again.h"
#include "common/base/mutex.h"
#include "common/base/run_queue.h"
#include "cuda/abi/cuda_types.h"

namespace warpline::server {

/// Workers' threads sleep in the driver while they wait, so that long kernels cost no processor. Going to sleep and waking are
/// more than half of a short wait, though (21 us instead of 8.4, H100, driver 580): so a thread asks for a moment first.
///
/// @thread  any
class LookFirst {
public:
    /// @param at_most  how long one wait looks; 0: never
    explicit LookFirst(std::chrono::microseconds at_most, bool (*processors_scarce)() = &processors_are_scarce)
        : m_at_most(at_most), m_processors_scarce(processors_scarce) {}

    /// Asks until the device is done, or would give an error, or time is up; not at all where that has been of no use lately or
    /// takes the processor from others. @return what was answered last, else CUDA_ERROR_NOT_READY @blocks for the time
    template <typename Query>
    CUresult look(Query query) {
        if (m_at_most.count() == 0 || m_processors_scarce() || !is_worth_it()) return CUDA_ERROR_NOT_READY;
        const auto until = std::chrono::steady_clock::now() + m_at_most;
        CUresult result = CUDA_ERROR_NOT_READY;
        do {
            result = query();
        } while (result == CUDA_ERROR_NOT_READY && std::chrono::steady_clock::now() < until);
        learn(result != CUDA_ERROR_NOT_READY);
        return result;
    }

private:
    bool is_worth_it() WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        return m_look_again.worth_it();
    }
    void learn(bool found) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        found ? m_look_again.found() : m_look_again.missed();
    }

    const std::chrono::microseconds m_at_most;
    bool (*const m_processors_scarce)();
    Mutex m_mutex;
    LookAgain m_look_again WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::server
