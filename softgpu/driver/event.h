#pragma once

#include <cstdint>
#include <memory>

#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"
#include "softgpu/driver/context.h"
#include "softgpu/driver/scheduler.h"

namespace warpline::softgpu::driver {

class Capture;
class GraphNode;

/// An event: the end of what was in a stream when it was last recorded, or a place in a capture.
class Event {
public:
    Event(std::shared_ptr<Context> context, uint32_t flags) : m_context(std::move(context)), m_flags(flags) {}

    const std::shared_ptr<Context>& context() const { return m_context; }
    uint32_t flags() const { return m_flags; }
    bool timed() const { return (m_flags & CU_EVENT_DISABLE_TIMING) == 0; }

    /// Null if it was never recorded.
    FencePtr fence() const {
        MutexLock lock(m_mutex);
        return m_fence;
    }
    void record(FencePtr fence) {
        MutexLock lock(m_mutex);
        m_fence = std::move(fence);
        m_capture = nullptr;
        m_captured_after.clear();
    }

    /// The capture in which it was last recorded, and the nodes that it stands for; null if it was recorded outside.
    std::shared_ptr<Capture> capture(std::vector<std::shared_ptr<GraphNode>>* after) const {
        MutexLock lock(m_mutex);
        if (after != nullptr) *after = m_captured_after;
        return m_capture;
    }
    void record_captured(std::shared_ptr<Capture> capture, std::vector<std::shared_ptr<GraphNode>> after) {
        MutexLock lock(m_mutex);
        m_capture = std::move(capture);
        m_captured_after = std::move(after);
    }

private:
    const std::shared_ptr<Context> m_context;  // shared: elapsed time is asked after the context was destroyed
    const uint32_t m_flags;
    mutable Mutex m_mutex;
    FencePtr m_fence WL_GUARDED_BY(m_mutex);
    std::shared_ptr<Capture> m_capture WL_GUARDED_BY(m_mutex);
    std::vector<std::shared_ptr<GraphNode>> m_captured_after WL_GUARDED_BY(m_mutex);
};
using EventPtr = std::shared_ptr<Event>;

}  // namespace warpline::softgpu::driver
