// What stream captures forbid while they go on.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "client/state/graph_memory.h"
#include "client/state/user_objects.h"
#include "common/base/function_ref.h"
#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"

namespace warpline::client {

struct Stream;

/// The captures that are going on, and what they forbid meanwhile.
///
/// Which calls a capture forbids depends on its mode and on the mode of the calling thread, which only this side knows
/// (CUDA Driver API 13.0, cuStreamBeginCapture and cuThreadExchangeStreamCaptureMode).
class Captures {
public:
    struct Capture {
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
        uint32_t thread = 0;     ///< number of the thread that began it
        uint64_t context = 0;    ///< of the stream that began it
        uint64_t graph = 0;      ///< token, if the program has named the graph or has been told of it
        bool owns_graph = true;  ///< the program has not named it: it ends with a capture that fails
        bool broken = false;     ///< a forbidden call came: it can only be ended
        bool memory = false;     ///< it allocates or frees
    };

    void begin(uint64_t id, const Capture& capture) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        m_active.emplace(id, Active{capture, {}, {}, {}});
        m_count.store(m_active.size(), std::memory_order_release);
    }
    void end(uint64_t id) WL_EXCLUDES(m_mutex) {
        decltype(m_active)::node_type over;  // what it kept is given up without the lock
        MutexLock lock(m_mutex);
        over = m_active.extract(id);
        m_count.store(m_active.size(), std::memory_order_release);
    }
    /// One is about to begin, for the first time perhaps.
    void announce() { m_ever.store(true, std::memory_order_release); }
    /// True if one has begun in this process.
    bool ever() const { return m_ever.load(std::memory_order_acquire); }
    bool any() const { return m_count.load(std::memory_order_acquire) != 0; }
    std::optional<Capture> find(uint64_t id) const WL_EXCLUDES(m_mutex) {
        if (id == 0 || !any()) return std::nullopt;
        MutexLock lock(m_mutex);
        auto it = m_active.find(id);
        return it == m_active.end() ? std::nullopt : std::make_optional(it->second.capture);
    }
    bool active(uint64_t id) const { return find(id).has_value(); }
    /// Those that streams of a context began.
    std::vector<uint64_t> of_context(uint64_t context) const WL_EXCLUDES(m_mutex) {
        std::vector<uint64_t> ids;
        MutexLock lock(m_mutex);
        for (const auto& [id, active] : m_active) {
            if (active.capture.context == context) ids.push_back(id);
        }
        return ids;
    }

    /// True while a capture adds to this graph.
    bool adds_to(uint64_t graph) const WL_EXCLUDES(m_mutex) {
        if (!any()) return false;
        MutexLock lock(m_mutex);
        return std::any_of(m_active.begin(), m_active.end(),
                           [graph](const auto& one) { return one.second.capture.graph == graph; });
    }

    /// The program is told of the graph.
    void note_graph(uint64_t id, uint64_t graph) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        if (auto it = m_active.find(id); it != m_active.end()) it->second.capture.graph = graph;
    }

    /// An allocation was captured, or the end of one. @param note  what becomes of the graph's memory
    void note_memory(uint64_t id, FunctionRef<void(MemoryNodes&)> note) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        auto it = m_active.find(id);
        if (it == m_active.end()) return;
        it->second.capture.memory = true;
        note(it->second.memory);
    }
    MemoryNodes memory(uint64_t id) const WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        auto it = m_active.find(id);
        return it != m_active.end() ? it->second.memory : MemoryNodes();
    }

    /// What a node has of the program that was captured belongs to the captured graph.
    void keep(uint64_t id, UserReferencesPtr references) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        if (auto it = m_active.find(id); it != m_active.end()) it->second.kept.push_back(std::move(references));
    }
    std::vector<UserReferencesPtr> kept(uint64_t id) const WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        auto it = m_active.find(id);
        return it != m_active.end() ? it->second.kept : std::vector<UserReferencesPtr>();
    }

    // A stream for which the legacy default stream of its context waits takes part, or does not any more.
    void add_blocking(uint64_t id, const Stream* stream, uint64_t context) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        if (auto it = m_active.find(id); it != m_active.end()) it->second.blocking[stream] = context;
    }
    void leave(uint64_t id, const Stream* stream) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        if (auto it = m_active.find(id); it != m_active.end()) it->second.blocking.erase(stream);
    }

    /// A call came that cannot be captured: the capture can only be ended.
    void break_off(uint64_t id) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        if (auto it = m_active.find(id); it != m_active.end()) it->second.capture.broken = true;
    }
    /// True if the legacy default stream of a context cannot be used.
    bool holds_up_legacy(uint64_t context) const WL_EXCLUDES(m_mutex) {
        if (!any()) return false;
        MutexLock lock(m_mutex);
        return std::any_of(m_active.begin(), m_active.end(), [&](const auto& one) { return holds_up(one.second, context); });
    }
    /// The same for a use of it, which breaks the captures that are concerned.
    bool break_for_legacy(uint64_t context) WL_EXCLUDES(m_mutex) {
        bool concerned = false;
        MutexLock lock(m_mutex);
        for (auto& [id, active] : m_active) {
            if (!holds_up(active, context)) continue;
            active.capture.broken = true;
            concerned = true;
        }
        return concerned;
    }

    /// A call concerns all streams of a context: true if some are captured, which breaks their captures.
    bool break_for_context(uint64_t context) WL_EXCLUDES(m_mutex) {
        bool concerned = false;
        if (!any()) return false;
        MutexLock lock(m_mutex);
        for (auto& [id, active] : m_active) {
            if (active.capture.context != context) continue;
            active.capture.broken = true;
            concerned = true;
        }
        return concerned;
    }

    /// A call that is potentially unsafe during capture (it may wait for the device) comes from a thread: true if a capture
    /// forbids it, which breaks that capture.
    bool forbid_unsafe_call(uint32_t thread, CUstreamCaptureMode thread_mode) WL_EXCLUDES(m_mutex) {
        if (!any() || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
        bool forbidden = false;
        MutexLock lock(m_mutex);
        for (auto& [id, active] : m_active) {
            Capture& capture = active.capture;
            bool global = capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
            bool own = capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture.thread == thread;
            if (!global && !own) continue;
            capture.broken = true;
            forbidden = true;
        }
        return forbidden;
    }

private:
    struct Active {
        Capture capture;
        std::map<const Stream*, uint64_t> blocking;  // streams for which the legacy one of their context waits
        std::vector<UserReferencesPtr> kept;
        MemoryNodes memory;
    };
    static bool holds_up(const Active& active, uint64_t context) {
        return std::any_of(active.blocking.begin(), active.blocking.end(),
                           [context](const auto& stream) { return stream.second == context; });
    }

    std::atomic<bool> m_ever{false};
    std::atomic<size_t> m_count{0};
    mutable Mutex m_mutex;  // protects the map
    std::map<uint64_t, Active> m_active WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::client
