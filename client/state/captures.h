#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>

#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"

namespace warpline::client {

/// The captures that are going on, and what they forbid meanwhile.
///
/// Which calls a capture forbids depends on its mode and on the mode of the calling thread, which only this side knows
/// (CUDA Driver API 13.0, cuStreamBeginCapture and cuThreadExchangeStreamCaptureMode).
class Captures {
public:
    struct Capture {
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
        uint32_t thread = 0;    ///< number of the thread that began it
        bool blocking = false;  ///< its stream waits for the legacy default stream
        bool broken = false;    ///< a forbidden call came: it can only be ended
    };

    void begin(uint64_t id, const Capture& capture) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        m_active.emplace(id, capture);
        m_count.store(m_active.size(), std::memory_order_release);
    }
    void end(uint64_t id) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        m_active.erase(id);
        m_count.store(m_active.size(), std::memory_order_release);
    }
    bool any() const { return m_count.load(std::memory_order_acquire) != 0; }
    std::optional<Capture> find(uint64_t id) const WL_EXCLUDES(m_mutex) {
        if (!any()) return std::nullopt;
        MutexLock lock(m_mutex);
        auto it = m_active.find(id);
        return it == m_active.end() ? std::nullopt : std::make_optional(it->second);
    }
    bool active(uint64_t id) const { return find(id).has_value(); }

    bool forbids_legacy_stream() const WL_EXCLUDES(m_mutex) {
        if (!any()) return false;
        MutexLock lock(m_mutex);
        return std::any_of(m_active.begin(), m_active.end(), [](const auto& one) {
            return one.second.blocking && one.second.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
        });
    }

    /// A call that is potentially unsafe during capture (it may wait for the device) comes from a thread: true if a capture
    /// forbids it, which breaks that capture.
    bool forbid_unsafe_call(uint32_t thread, CUstreamCaptureMode thread_mode) WL_EXCLUDES(m_mutex) {
        if (!any() || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
        bool forbidden = false;
        MutexLock lock(m_mutex);
        for (auto& [id, capture] : m_active) {
            bool global = capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
            bool own = capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture.thread == thread;
            if (!global && !own) continue;
            capture.broken = true;
            forbidden = true;
        }
        return forbidden;
    }

private:
    std::atomic<size_t> m_count{0};
    mutable Mutex m_mutex;  // protects the map
    std::map<uint64_t, Capture> m_active WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::client
