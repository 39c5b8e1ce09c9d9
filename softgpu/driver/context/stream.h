// Streams.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>

#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"
#include "softgpu/driver/context/context.h"
#include "softgpu/driver/context/scheduler.h"

namespace warpline::softgpu::driver {

class Capture;
class GreenContext;

/// Lower numbers are more urgent; what current devices report.
inline constexpr int k_least_priority = 0, k_greatest_priority = -5;

/// A stream: a queue of a context, and whether it is being captured.
class Stream {
public:
    Stream(std::shared_ptr<Context> context, QueueKind kind, uint32_t flags, int priority, uint64_t handle,
           std::shared_ptr<GreenContext> green = nullptr);
    ~Stream();

    Context& context() const { return *m_context; }
    const std::shared_ptr<Context>& context_ptr() const { return m_context; }
    const QueuePtr& queue() const { return m_queue; }
    uint32_t flags() const { return m_flags; }
    int priority() const { return m_priority.load(); }
    /// Of what is submitted from now on. Out of range is the nearest.
    void set_priority(int priority);
    uint64_t id() const { return m_id; }
    QueueKind kind() const { return m_kind; }
    CUstream handle() const { return reinterpret_cast<CUstream>(m_handle); }
    void set_handle(uint64_t handle) { m_handle = handle; }
    /// The green context whose multiprocessors it has; null: it has all of the device's.
    const std::shared_ptr<GreenContext>& green() const { return m_green; }
    /// True if a legacy default stream orders its work and the other's: they are of one context, or of one green context.
    bool same_scope(const Stream& other) const { return m_context == other.m_context && m_green == other.m_green; }

    /// Blocks while another call holds the context (DB-50), or the stream has as much work as the profile lets it take (DB-03).
    /// Calls ask before they give it more.
    void wait_for_room();
    /// Appends work; skipped at its turn if the context has failed by then.
    FencePtr submit(std::function<void()> run, std::span<const FencePtr> after = {});
    /// Appends work that runs whatever the context's state is.
    FencePtr submit_always(std::function<void()> run, std::span<const FencePtr> after = {});
    /// In place of work that does nothing.
    void mark();
    /// Runs work at its turn and returns when it has ended.
    void submit_and_wait(std::function<void()> run);
    /// Waits for everything so far. Sticky error of the context.
    CUresult synchronise();
    bool idle();
    bool alive() const { return !m_retired.load(); }
    /// Its handle is gone: no more work, what is queued will be executed. A capture that it began is over.
    void retire();

    /// The capture that it takes part in, or null.
    std::shared_ptr<Capture> capture() const;
    /// `leave` is called by retire(), if the stream takes part in the capture then.
    void set_capture(std::shared_ptr<Capture> capture, void (*leave)(Stream& stream));

    Mutex attribute_mutex;
    std::map<int, CUstreamAttrValue> attributes WL_GUARDED_BY(attribute_mutex);

private:
    const std::shared_ptr<Context> m_context;  // shared: work outlives the handle of its context
    const std::shared_ptr<GreenContext> m_green;
    const QueuePtr m_queue;
    const QueueKind m_kind;
    const uint32_t m_flags;
    std::atomic<int> m_priority;
    const uint64_t m_id;
    uint64_t m_handle;
    std::atomic<bool> m_retired{false};
    std::atomic<bool> m_capturing{false};
    mutable Mutex m_capture_mutex;
    std::shared_ptr<Capture> m_capture WL_GUARDED_BY(m_capture_mutex);
    void (*m_leave_capture)(Stream&) WL_GUARDED_BY(m_capture_mutex) = nullptr;
};
using StreamPtr = std::shared_ptr<Stream>;

/// The stream that a parameter names: 0 (legacy, or the thread's own in a per-thread entry), CU_STREAM_LEGACY,
/// CU_STREAM_PER_THREAD, or a handle. Errors: invalid handle, and those of the stream's context.
CUresult find_stream(CUstream handle, StreamPtr& stream);

/// The default stream of copies and memory sets without a stream parameter.
CUresult default_stream(StreamPtr& stream);

}  // namespace warpline::softgpu::driver
