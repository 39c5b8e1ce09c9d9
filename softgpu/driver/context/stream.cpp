// Streams: their work, their end, and finding one by its handle.
#include "softgpu/driver/context/stream.h"

#include <algorithm>

#include "softgpu/driver/config/version.h"
#include "softgpu/driver/context/green_context.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/memory/memory_pool.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {
std::atomic<uint64_t> next_stream_id{1};
}  // namespace

Stream::Stream(std::shared_ptr<Context> context, QueueKind kind, uint32_t flags, int priority, uint64_t handle,
               std::shared_ptr<GreenContext> green)
    : m_context(std::move(context)),
      m_green(std::move(green)),
      m_queue(Scheduler::instance().create_queue(m_context->group(), kind, priority, m_green != nullptr ? m_green->id() : 0)),
      m_kind(kind),
      m_flags(flags),
      m_priority(priority),
      m_id(next_stream_id++),
      m_handle(handle) {}

Stream::~Stream() { retire(); }

void Stream::set_priority(int priority) {
    priority = std::clamp(priority, k_greatest_priority, k_least_priority);
    m_priority.store(priority);
    m_queue->set_priority(priority);
}

void Stream::retire() {
    if (m_retired.exchange(true)) return;
    void (*leave)(Stream&) = nullptr;
    {
        MutexLock lock(m_capture_mutex);
        if (m_capture != nullptr) leave = m_leave_capture;
    }
    if (leave != nullptr) leave(*this);
    Scheduler::instance().retire(m_queue);
}

void Stream::wait_for_room() {
    m_context->gate().pass_to_queue();
    const uint64_t limit = process().config().profile.launch_queue;
    if (limit == 0 || Scheduler::instance().has_room(m_queue, limit)) return;
    CallGate::Held held(*m_context, CallGate::while_queueing());
    Scheduler::instance().wait_for_room(m_queue, limit);
}

FencePtr Stream::submit(std::function<void()> run, std::span<const FencePtr> after) {
    wait_for_room();
    auto guarded = [context = m_context, run = std::move(run)] {
        if (context->sticky() == CUDA_SUCCESS) run();
    };
    return Scheduler::instance().submit(m_queue, std::move(guarded), after);
}

FencePtr Stream::submit_always(std::function<void()> run, std::span<const FencePtr> after) {
    return Scheduler::instance().submit(m_queue, std::move(run), after);
}

void Stream::mark() {
    wait_for_room();
    Scheduler::instance().mark(m_queue);
}

void Stream::submit_and_wait(std::function<void()> run) {
    Scheduler::instance().submit_and_wait(m_queue, [context = m_context, run = std::move(run)] {
        if (context->sticky() == CUDA_SUCCESS) run();
    });
}

CUresult Stream::synchronise() {
    for (const FencePtr& fence : Scheduler::instance().pending(m_queue)) fence->wait();
    m_context->device().flush_printf();
    release_pool_excess(m_context->device());
    return m_context->sticky();
}

bool Stream::idle() { return Scheduler::instance().pending(m_queue).empty(); }

std::shared_ptr<Capture> Stream::capture() const {
    if (!m_capturing.load(std::memory_order_acquire)) return nullptr;
    MutexLock lock(m_capture_mutex);
    return m_capture;
}

void Stream::set_capture(std::shared_ptr<Capture> capture, void (*leave)(Stream& stream)) {
    MutexLock lock(m_capture_mutex);
    m_capture = std::move(capture);
    m_leave_capture = leave;
    m_capturing.store(m_capture != nullptr, std::memory_order_release);
}

CUresult find_stream(CUstream handle, StreamPtr& stream) {
    bool legacy = handle == CU_STREAM_LEGACY, per_thread = handle == CU_STREAM_PER_THREAD;
    if (handle == nullptr) {
        per_thread = thread_state().per_thread_default != 0;
        legacy = !per_thread;
    }
    if (legacy || per_thread) {
        Context* context = nullptr;
        CU_TRY(current_context(context));
        const GreenContextPtr green = current_green();
        if (green != nullptr) {
            stream = legacy ? green->legacy_stream() : green->per_thread_stream();
        } else {
            stream = legacy ? context->legacy_stream() : context->per_thread_stream();
        }
        return stream != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    }
    stream = process().streams.find(handle);
    if (stream == nullptr) return not_found(process().streams, handle);
    if (!stream->context().active()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (stream->green() != nullptr && !stream->green()->alive()) return cuda::abi::detached_stream(driver_version());
    return stream->context().sticky();
}

CUresult default_stream(StreamPtr& stream) { return find_stream(nullptr, stream); }

}  // namespace warpline::softgpu::driver
