// What hooks and generated code are given of a call while it is answered.
#pragma once

#include <cstdint>
#include <optional>

#include "client/state/copy_target.h"
#include "client/state/state.h"
#include "client/state/thread_state.h"
#include "cuda/abi/cuda_types.h"
#include "cuda/gen/call_id.gen.h"

namespace warpline::client {

class PagesAlong;
class Session;
class Watch;
struct GraphLaunch;

/// When a copy may read its source in the program's memory, where it says so (CUmemcpySrcAccessOrder).
enum class SourceAccess : uint8_t {
    as_usual,     ///< pageable memory before the call returns, page-locked memory in the order of the stream
    in_order,     ///< in the order of the stream, whatever memory it is
    during_call,  ///< before the call returns
};

/// One call of the program while it is being answered: what every hook and every generated body is given.
struct Call {
    cuda::CallId id;
    ThreadState& thread;
    Session& session;
    State& state;
    uint64_t context = 0;     ///< token of the context that it is about: the thread's current one unless a hook changes it
    bool per_thread = false;  ///< came through a _ptds or _ptsz symbol: the default stream is the thread's own
    uint64_t converted = 0;   ///< token of the context that a green one was converted to, if that is current; 0: it is not
    uint64_t number = 0;      ///< in the session's order; set when the call is queued
    uint64_t subject = 0;     ///< token of what it is about, if calls about the same are alike. Set by a hook
    /// Token of the stream that the work is given to, where pages of shared memory depend on it. Set by a hook
    uint64_t stream = k_unknown_stream;
    static constexpr uint64_t k_unknown_stream = UINT64_MAX;
    std::optional<uint64_t> known_stream() const { return stream == k_unknown_stream ? std::nullopt : std::optional(stream); }
    /// Where the bytes go that an asynchronous copy brings later (CopyDone). Set by a hook before the call is queued.
    const CopyTarget* copy_to = nullptr;
    uint64_t copy_context = 0;  ///< token of that of its stream
    uint64_t copy_stream = 0;   ///< token
    /// Who is told of the reply to a call that is issued, without waiting. Set by a hook before the call is queued.
    Watch* background = nullptr;
    /// What comes along with a wait, if it travels. Set around it (with_pages_along)
    PagesAlong* pages = nullptr;
    SourceAccess source = SourceAccess::as_usual;  ///< of a copy. Set by a hook
    bool payload_stays = false;  ///< the payload is page-locked: it is read in place, until the program takes the memory back
    bool copy_repeats = false;   ///< the copy becomes part of a graph: its bytes come after each launch
    /// What the launch of a graph will do with the program's memory. Set by a hook before the call is queued.
    const GraphLaunch* graph_launch = nullptr;

    /// What tells a stream from all others of the process: its token, the context's of a legacy default stream.
    uint64_t identity_of(uint64_t of_stream) const {
        if (of_stream > 2) [[likely]]
            return of_stream;
        if (of_stream != 2) return scope();
        constexpr uint64_t k_own = uint64_t{1} << 63;  // of a thread, in a context: no token is as large
        return k_own | uint64_t{thread.number} << 32 | static_cast<uint32_t>(scope());
    }
    /// Token of the default stream that this call means where no stream is named.
    uint64_t default_stream() const { return per_thread ? 2 : 0; }
    /// Token of the context whose default streams are meant, which travels with the call.
    uint64_t scope() const {
        if (converted == 0) [[likely]]
            return context;
        const Context* found = state.contexts.find(converted);
        return found && found->base == context ? converted : context;
    }
    /// That context, or nullptr.
    Context* scope_context() const { return state.contexts.find(scope()); }
    /// The current context, or nullptr.
    Context* current() const { return state.contexts.find(context); }
    /// Ordinal of the current context's device; 0 if there is none.
    int device() const {
        const Context* found = current();
        return found ? found->device : 0;
    }
};

/// A stream handle in a _ptsz entry: the default stream is the thread's own.
inline CUstream per_thread_stream(CUstream stream) { return stream ? stream : CU_STREAM_PER_THREAD; }

/// True for the three stream handles that are no tokens: default, legacy, per-thread.
inline bool is_special_stream(CUstream stream) { return reinterpret_cast<uint64_t>(stream) <= 2; }

/// Batches take no default stream but the thread's own.
inline bool takes_batches(CUstream stream) { return !is_special_stream(stream) || stream == CU_STREAM_PER_THREAD; }

}  // namespace warpline::client
