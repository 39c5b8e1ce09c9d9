#pragma once

// What the generated exported functions are made of.

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "client/abi/process.h"
#include "client/call/call.h"
#include "client/managed/held_signals.h"
#include "client/session/session.h"
#include "client/state/called.h"
#include "client/trace/trace.h"
#include "common/base/bytes.h"
#include "cuda/abi/dev_resource.h"
#include "cuda/abi/driver_log.h"

#define WL_EXPORT extern "C" __attribute__((visibility("default"), used))

namespace warpline::client {

using cuda::CallClass;
using cuda::CallId;

/// What an exception that left a hook means; logged. Nothing is thrown into the program.
CUresult result_of_exception() noexcept;

/// What a call of the program's goes through. @param name  as the program calls it
template <typename F>
CUresult enter(const char* name, F&& body) noexcept {
    static constinit CalledFunction s_function;  // F is another type in each exported function
    if (!s_function.called.load(std::memory_order_relaxed)) [[unlikely]]
        note_called(s_function, name);
    const held_signals::Hold hold;
    trace::CallScope scope(name);
    try {
        return scope.returns(cuda::abi::noted(name, body()));
    } catch (...) {
        return scope.returns(cuda::abi::noted(name, result_of_exception()));
    }
}

/// Why the current context cannot be used: there is none, or it is destroyed, or reset.
inline CUresult no_context(const Call& call, const Context* found) {
    const bool ended = found ? found->ended.load(std::memory_order_relaxed) : call.context != 0;
    return ended ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
}

/// True if the server has shown a device with this ordinal.
bool is_device(CUdevice ordinal);

inline ThreadState& count_call(CallClass call_class) {
    ThreadState& thread = this_thread();
    auto& count = thread.calls[static_cast<size_t>(call_class)];
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return thread;
}

/// What a kernel's failure in the call's context leaves of it; CUDA_SUCCESS if there was none.
inline CUresult failure_of(const Call& call) {
    const CUresult failed = call.session.sticky_error(call.context);
    if (failed != CUDA_SUCCESS || call.converted == 0) [[likely]]
        return failed;
    return call.session.sticky_error(call.converted);
}

/// CUDA_SUCCESS if the calling thread has a current context that is alive, and no kernel has failed in it for good.
inline CUresult check_context(const Call& call) {
    const Context* context = call.current();
    if (!context || !context->active()) return no_context(call, context);
    if (call.converted != 0 && !call.state.contexts.find(call.converted)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return failure_of(call);
}

/// What becomes of a call on a stream that is being captured: a node, or an error that breaks the capture.
enum class InCapture : uint8_t { node, refused };

// --- stream capture (client/graph/capture.cpp); these are asked before every call that a capture may concern ---

/// @errors  stream capture implicit, invalidated, unsupported
CUresult check_capture_slow(const Call& call, CUstream stream, InCapture in_capture);
inline CUresult check_capture(const Call& call, CUstream stream, InCapture in_capture) {
    return call.state.captures.any() ? check_capture_slow(call, stream, in_capture) : CUDA_SUCCESS;
}
/// For calls that may wait for the device, and therefore break a capture: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED if one is
/// broken by this.
CUresult check_unsafe_call(const Call& call);

/// The result for a handle that is not one of ours: contexts have a code of their own, and what graphs and texture references
/// are made of is a value like any other.
template <HandleKind kind>
constexpr CUresult bad_handle() {
    switch (kind) {
        case HandleKind::context: return CUDA_ERROR_INVALID_CONTEXT;
        case HandleKind::graph:
        case HandleKind::graph_node:
        case HandleKind::graph_exec:
        case HandleKind::user_object:
        case HandleKind::tex_ref:
        case HandleKind::surf_ref: return CUDA_ERROR_INVALID_VALUE;
        default: return CUDA_ERROR_INVALID_HANDLE;
    }
}

/// What is answered to a handle that names nothing. NVIDIA's driver asks streams, events and texture references for their
/// context before anything else: in an object of another kind it finds none.
template <HandleKind kind>
CUresult unknown_handle(uint64_t token) {
    if constexpr (kind == HandleKind::context) return token == 0 ? bad_handle<kind>() : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if constexpr (kind == HandleKind::tex_ref) return token == 0 ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_CONTEXT;
    if constexpr (kind == HandleKind::surf_ref) return token == 0 ? CUDA_ERROR_INVALID_HANDLE : bad_handle<kind>();
    const uint64_t named = token >> 48;
    const bool of_other_kind =
        named != 0 && named <= static_cast<uint64_t>(cuda::k_last_handle_kind) && !cuda::abi::token_is(kind, token);
    const bool has_context = kind == HandleKind::stream || kind == HandleKind::event;
    return has_context && of_other_kind ? CUDA_ERROR_CONTEXT_IS_DESTROYED : bad_handle<kind>();
}

/// What a stream gives whose green context has been destroyed: the driver's version decides.
CUresult detached_stream();

template <HandleKind kind>
CUresult check_handle(const Call& call, uint64_t token, bool null_ok) {
    if (token == 0 && null_ok) return CUDA_SUCCESS;
    if (kind == HandleKind::stream && token <= 2) {
        if (token == 2) call.thread.used_own_stream = true;
        return CUDA_SUCCESS;
    }
    const auto* found = call.state.table<kind>().find(token);
    if constexpr (kind == HandleKind::stream) {
        if (found && found->detached.load(std::memory_order_relaxed)) return detached_stream();
    }
    return found ? CUDA_SUCCESS : unknown_handle<kind>(token);
}

template <HandleKind kind>
auto make_object(Call& call) {
    auto made = call.state.table<kind>().make();
    if (made) made.object->context = call.context;
    return made;
}

template <typename T>
std::span<const uint64_t> tokens_of(T* handles, size_t count) {
    static_assert(sizeof(T) == sizeof(uint64_t));
    return handles ? std::span<const uint64_t>(reinterpret_cast<const uint64_t*>(handles), count) : std::span<const uint64_t>();
}

template <typename T>
BytesView struct_bytes(T* value) {
    return value ? as_bytes(value, sizeof(T)) : BytesView();
}

template <typename T>
BytesView array_bytes(T* values, size_t count) {
    if constexpr (std::is_void_v<T>) {
        return values ? as_bytes(values, count) : BytesView();
    } else {
        return values ? as_bytes(values, count * sizeof(T)) : BytesView();
    }
}

inline std::string_view text_or_empty(const char* text) { return text ? std::string_view(text) : std::string_view(); }

template <typename T>
void copy_struct(T* out, const Bytes& from) {
    if (from.empty()) return;  // its address is null then, which memcpy does not take
    std::memcpy(out, from.data(), std::min(sizeof(T), from.size()));
}

template <typename T>
void copy_array(T* out, size_t count, const Bytes& from) {
    if (from.empty()) return;  // as above
    size_t element = 1;
    if constexpr (!std::is_void_v<T>) element = sizeof(T);
    std::memcpy(out, from.data(), std::min(count * element, from.size()));
}

}  // namespace warpline::client
