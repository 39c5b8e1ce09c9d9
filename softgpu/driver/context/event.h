// Events.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"
#include "softgpu/driver/context/context.h"
#include "softgpu/driver/context/scheduler.h"
#include "softgpu/driver/share/shared_event.h"

namespace warpline::softgpu::driver {

class Capture;
class GraphNode;

/// What an event stands for at a moment.
struct Recorded {
    FencePtr fence;         ///< null if it was never recorded
    SharedEventPtr shared;  ///< null if only this process has the event
    uint64_t number = 0;    ///< of the record, in `shared`

    bool done() const { return fence == nullptr || fence->done(); }
    /// True if the process that recorded it has ended, and its work with it.
    bool lost() const { return shared != nullptr && number != 0 && shared->lost(number); }
    /// What to do when the fence is over: a context that waited for a record that is lost fails. Empty if none can be.
    std::function<void()> check_for(std::shared_ptr<Context> context) const;
};

/// An event: the end of what was in a stream when it was last recorded, or a place in a capture.
class Event {
public:
    /// `shared`: the event's state for other processes, or null.
    Event(std::shared_ptr<Context> context, uint32_t flags, SharedEventPtr shared = nullptr)
        : m_context(std::move(context)), m_flags(flags), m_shared(std::move(shared)) {}
    ~Event();

    const std::shared_ptr<Context>& context() const { return m_context; }
    uint32_t flags() const { return m_flags; }
    bool timed() const { return (m_flags & CU_EVENT_DISABLE_TIMING) == 0; }
    const SharedEventPtr& shared() const { return m_shared; }

    /// The latest record, by whichever process. That of another process that has ended without finishing its work makes the
    /// context of this event fail.
    Recorded last();
    FencePtr fence() { return last().fence; }
    /// Records: `submit` submits work that does what it is given (nothing, if empty) at the place for which the event stands.
    void record(const std::function<FencePtr(std::function<void()>)>& submit);

    /// Of a node that an event stands for: which of its ports what waits for the event depends on.
    struct CapturedAfter {
        std::shared_ptr<GraphNode> node;
        CUgraphEdgeData edge;
    };
    /// The capture in which it was last recorded, and the nodes that it stands for; null if it was recorded outside.
    std::shared_ptr<Capture> capture(std::vector<CapturedAfter>* after) const {
        MutexLock lock(m_mutex);
        if (after != nullptr) *after = m_captured_after;
        return m_capture;
    }
    void record_captured(std::shared_ptr<Capture> capture, std::vector<CapturedAfter> after) {
        MutexLock lock(m_mutex);
        m_capture = std::move(capture);
        m_captured_after = std::move(after);
    }

private:
    const std::shared_ptr<Context> m_context;  // shared: elapsed time is asked after the context was destroyed
    const uint32_t m_flags;
    SharedEventPtr m_shared;
    mutable Mutex m_mutex;
    FencePtr m_fence WL_GUARDED_BY(m_mutex);
    uint64_t m_number WL_GUARDED_BY(m_mutex) = 0;  // of the record that m_fence stands for, if shared
    std::shared_ptr<Capture> m_capture WL_GUARDED_BY(m_mutex);
    std::vector<CapturedAfter> m_captured_after WL_GUARDED_BY(m_mutex);
};
using EventPtr = std::shared_ptr<Event>;

/// An event by its handle. Errors: as not_found().
CUresult find_event(CUevent handle, EventPtr& event);

/// What becomes of a context whose work waits for a process that has ended: what it waited for will not come.
void fail_of_lost_process(Context& context);

}  // namespace warpline::softgpu::driver
