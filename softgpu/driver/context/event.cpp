// Records of events, also by other processes.
#include "softgpu/driver/context/event.h"

#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

Event::~Event() {
    if (m_shared == nullptr) return;
    m_shared.reset();
    SharedEvent::sweep();
}

void fail_of_lost_process(Context& context) {
    context.fail(CUDA_ERROR_EXTERNAL_DEVICE, "the process that recorded an interprocess event ended before its work");
}

std::function<void()> Recorded::check_for(std::shared_ptr<Context> context) const {
    if (shared == nullptr) return {};
    return [recorded = *this, context = std::move(context)] {
        // Once: the event's context has failed already, and is mostly this one.
        if (context->sticky() == CUDA_SUCCESS && recorded.lost()) fail_of_lost_process(*context);
    };
}

Recorded Event::last() {
    MutexLock lock(m_mutex);
    if (m_shared == nullptr) return {m_fence, nullptr, 0};
    uint64_t number = m_shared->latest();
    if (number == 0) return {nullptr, m_shared, 0};
    if (m_shared->ended(number)) return {Scheduler::done_fence(), m_shared, number};
    if (number != m_number) {
        // Another process has recorded it: one thread waits for that, however many streams do.
        m_number = number;
        m_fence = Scheduler::instance().submit_free(
            [shared = m_shared, context = m_context, number] {
                const bool told = process().config().profile.lost_events_told;
                if (!shared->wait(number, told)) fail_of_lost_process(*context);
            },
            {}, 0);
    }
    return {m_fence, m_shared, number};
}

void Event::record(const std::function<FencePtr(std::function<void()>)>& submit) {
    FencePtr fence;
    uint64_t number = 0;
    if (m_shared == nullptr) {
        fence = submit({});
    } else {
        number = m_shared->begin();
        fence = submit([shared = m_shared, number] { shared->end(number); });
    }
    MutexLock lock(m_mutex);
    m_capture = nullptr;
    m_captured_after.clear();
    // Two threads may record at the same time; the later record counts.
    if (number < m_number) return;
    m_fence = std::move(fence);
    m_number = number;
}

CUresult find_event(CUevent handle, EventPtr& event) {
    event = process().events.find(handle);
    if (event == nullptr) return not_found(process().events, handle);
    const Context& context = *event->context();
    return context.ended() && !context.active() ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

}  // namespace warpline::softgpu::driver
