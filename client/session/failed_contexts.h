// Contexts in which a kernel has failed for good.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>

#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"

namespace warpline::client {

/// What CUDA answers every call in a context with, from such a failure until the context ends. @thread any
class FailedContexts {
public:
    /// Stands for all of them: the server has gone, or it is not known which one has failed.
    static constexpr uint64_t k_all = 0;

    /// False as long as none has: all that most programs pay.
    bool any() const { return m_any.load(std::memory_order_relaxed); }
    /// CUDA_SUCCESS for a context that has not failed. @param context  token; k_all: whichever has failed first
    CUresult error_of(uint64_t context) const WL_EXCLUDES(m_mutex) {
        if (!any()) [[likely]]
            return CUDA_SUCCESS;
        MutexLock lock(m_mutex);
        if (const auto all = m_errors.find(k_all); all != m_errors.end()) return all->second;
        if (context == k_all) return m_first;
        const auto found = m_errors.find(context);
        return found == m_errors.end() ? CUDA_SUCCESS : found->second;
    }
    /// The first error of a context counts. @returns false if there was one
    bool note(uint64_t context, CUresult error) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        const bool is_first = m_errors.try_emplace(context, error).second;
        if (!any()) m_first = error;
        m_any.store(true, std::memory_order_relaxed);
        return is_first;
    }
    /// The session is lost: that is what everything is answered with from now on.
    void note_lost(CUresult error) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        m_errors = {{k_all, error}};
        m_first = error;
        m_any.store(true, std::memory_order_relaxed);
    }
    /// The context ends. Its token may be another one's from now on, and what failed somewhere is taken to have failed there.
    void forget(uint64_t context) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        m_errors.erase(context);
        m_errors.erase(k_all);
        m_any.store(!m_errors.empty(), std::memory_order_relaxed);
    }

private:
    std::atomic<bool> m_any{false};
    mutable Mutex m_mutex;
    std::map<uint64_t, CUresult> m_errors WL_GUARDED_BY(m_mutex);
    CUresult m_first WL_GUARDED_BY(m_mutex) = CUDA_SUCCESS;
};

}  // namespace warpline::client
