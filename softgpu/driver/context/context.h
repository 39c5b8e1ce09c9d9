// Contexts, and the current one of each thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"
#include "softgpu/driver/context/call_gate.h"
#include "softgpu/driver/context/owned_streams.h"
#include "softgpu/driver/context/scheduler.h"
#include "softgpu/driver/process/cu_try.h"

namespace warpline::softgpu::exec {
struct Fault;
}

namespace warpline::softgpu::driver {

class Device;
class GreenContext;
class Stream;
class Module;

/// A context. Handles of contexts stay findable after destruction as long as a thread has them on its stack.
class Context : public std::enable_shared_from_this<Context> {
public:
    Context(Device& device, bool primary, uint32_t flags);
    ~Context();

    Device& device() const { return m_device; }
    bool primary() const { return m_primary; }
    uint64_t id() const { return m_id; }
    CUcontext handle() const { return m_handle; }
    void set_handle(CUcontext handle) { m_handle = handle; }

    /// Makes its default stream. For a primary context: at its first retain and at the first after a reset. Errors: those of
    /// Device::admit_context, and out of memory (what the context itself takes, DB-16).
    CUresult activate();
    /// What belongs to a context and ends with it.
    struct Belongings {
        std::vector<std::shared_ptr<Stream>> streams;
        std::vector<std::shared_ptr<Module>> modules;
    };
    /// From now on it is destroyed for calls: waits for its work, has libraries destroy what they attached, and hands out what
    /// the caller has to end (life/context_end.h). Nothing if it is not active.
    std::optional<Belongings> end();
    /// Gives back what activate() took of the device.
    void leave_device();
    bool active() const { return m_active.load(std::memory_order_acquire); }
    /// It was usable once, and is not any more: destroyed, or reset.
    bool ended() const { return m_ended.load(std::memory_order_acquire); }

    /// What every call on the context returns once a kernel has failed; success until then.
    CUresult sticky() const { return static_cast<CUresult>(m_sticky.load(std::memory_order_acquire)); }
    /// A kernel has failed: logs why and makes the error sticky; the first one counts.
    void fail(const exec::Fault& fault);
    void fail(CUresult result, const char* why);

    /// Where its calls wait for each other.
    CallGate& gate() { return m_gate; }

    const std::shared_ptr<QueueGroup>& group() const { return m_group; }
    std::shared_ptr<Stream> legacy_stream() const;
    /// The calling thread's own default stream.
    std::shared_ptr<Stream> per_thread_stream();
    /// The streams of the context, but for the legacy one: its end is theirs.
    OwnedStreams& streams() { return m_streams; }

    /// Blocks until all work that was submitted so far has ended.
    void wait_for_work();
    /// The same; shows device printf, returns sticky().
    CUresult synchronise();

    /// All work that its streams are given from now on waits for a fence (cuCtxWaitEvent), also that of streams that it does
    /// not have yet.
    void hold_until(const FencePtr& fence);

    /// Modules of the context, so that its end is theirs. The key is the library's or the module's handle.
    void own_module(uint64_t key, std::shared_ptr<Module> module);
    std::shared_ptr<Module> module_of(uint64_t key) const;
    void drop_module(uint64_t key);

    CUresult enable_peer(Context& peer);
    CUresult disable_peer(Context& peer);

    // Settings that calls read and write; none changes what work does.
    std::atomic<uint32_t> flags;
    std::atomic<int> cache_config{CU_FUNC_CACHE_PREFER_NONE};
    std::atomic<int> shared_config{CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE};
    std::atomic<uint64_t> l2_fetch_granularity{64}, persisting_l2{0}, pending_launches{2048};
    std::atomic<uint32_t> attach_count{1};  // cuCtxAttach
    std::atomic<bool> printf_ran{false};    // a kernel that prints was launched: the size of its buffer is settled

    // Counted by cuDevicePrimaryCtxRetain and Release; guarded by the process's primary mutex.
    uint32_t retain_count = 0;

private:
    void set_sticky(CUresult result);

    Device& m_device;
    const bool m_primary;
    const uint64_t m_id;
    CUcontext m_handle = nullptr;
    std::shared_ptr<QueueGroup> m_group;
    CallGate m_gate;
    uint64_t m_cost_bytes = 0;  // charged to the device while it is active
    std::atomic<bool> m_active{false}, m_ended{false};
    std::atomic<int> m_sticky{CUDA_SUCCESS};

    OwnedStreams m_streams;

    mutable Mutex m_mutex;
    std::shared_ptr<Stream> m_legacy WL_GUARDED_BY(m_mutex);
    std::map<uint64_t, std::shared_ptr<Module>> m_modules WL_GUARDED_BY(m_mutex);
    std::set<uint64_t> m_peers WL_GUARDED_BY(m_mutex);  // ids of contexts whose memory this one may touch
    std::map<uint64_t, int> m_peer_devices WL_GUARDED_BY(m_mutex);
};

/// A number that no other context, or green one, of the process has.
uint64_t new_context_id();

/// What a handle of a context names: a context, or the green context that it was converted from, in whose primary context work
/// is done. Neither: nothing is current. Shared: destroyed ones stay recognisable.
struct NamedContext {
    std::shared_ptr<Context> context;
    std::shared_ptr<GreenContext> green;

    explicit operator bool() const { return context != nullptr; }
    CUcontext handle() const;
    uint64_t id() const;
};
/// @errors  invalid context
CUresult find_named_context(CUcontext handle, NamedContext& named);

/// What belongs to a thread. Reached through a pointer that is never destroyed in the main thread, because calls come after
/// its thread-local objects have gone.
struct ThreadState {
    std::vector<NamedContext> contexts;  // the stack of current contexts
    uint32_t per_thread_default = 0;     // depth of entries under which stream 0 is the thread's own
    CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    std::unordered_map<uint64_t, std::shared_ptr<Stream>> default_streams;  // by the id of a context, or of a green one
    uint64_t number = 0;                                                    // unique in the process
};
ThreadState& thread_state();

/// The calling thread's current context, usable for work: invalid context (there is none), context is destroyed, or the
/// context's sticky error. The pointer is good for the rest of the call.
CUresult current_context(Context*& context);
/// The same without regard to sticky errors.
CUresult current_context_even_failed(Context*& context);
/// The green context that the calling thread's current context was converted from; null: it is an ordinary one.
std::shared_ptr<GreenContext> current_green();

}  // namespace warpline::softgpu::driver
