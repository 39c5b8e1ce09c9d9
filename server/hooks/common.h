#pragma once

// What the hooks of all areas share.

#include <cstring>
#include <vector>

#include "common/log/log.h"
#include "server/session/call.h"
#include "server/session/session.h"

namespace warpline::server {

/// Of a launch: many more than there are kinds of them.
inline constexpr size_t k_max_launch_attributes = 64;

/// The CUresult that stands for a failure of ours.
inline CUresult result_of(const Error& error) { return static_cast<CUresult>(to_cu_result(error.code)); }

/// A function of the driver, or CUDA_ERROR_NOT_SUPPORTED from the hook that asks for it.
#define WL_DRIVER(call, name)                                         \
    ({                                                                \
        const auto wl_function = (call).driver()->name;               \
        if (wl_function == nullptr) return (call).missing_function(); \
        wl_function;                                                  \
    })

/// The driver's handle behind a token, or the error of a handle that is not found from the hook that asks for it.
#define WL_FIND(call, Type, kind, token)                                                 \
    ({                                                                                   \
        Type wl_handle{};                                                                \
        if (!(call).find(HandleKind::kind, token, wl_handle)) return (call).not_found(); \
        wl_handle;                                                                       \
    })

/// The same where token 0 stands for none.
#define WL_FIND_OR_NULL(call, Type, kind, token)                                                         \
    ({                                                                                                   \
        Type wl_handle{};                                                                                \
        if ((token) != 0 && !(call).find(HandleKind::kind, token, wl_handle)) return (call).not_found(); \
        wl_handle;                                                                                       \
    })

/// What the parameters of a function are (a pointer), or why that cannot be told from the hook that asks for it.
#define WL_LAYOUT(call, token)                                  \
    ({                                                          \
        const ParamLayout* wl_layout = (call).layout_of(token); \
        if (wl_layout == nullptr) return (call).not_found();    \
        wl_layout;                                              \
    })

/// The driver's CUresult, returned from the hook unless it is a success.
#define WL_CUDA(expression)                         \
    do {                                            \
        const CUresult wl_result = (expression);    \
        if (wl_result != CUDA_SUCCESS) [[unlikely]] \
            return wl_result;                       \
    } while (false)

/// Takes memory of a device from the session's limit, and has the driver make something of it: `make()`. If there is not
/// enough, what was freed before this call is waited for. The client must wait for the answer.
/// @blocks until the device has done with what was freed
template <typename Make>
CUresult make_charged(ServerCall& call, CUdevice device, uint64_t bytes, MemoryChargePtr& charge, Make&& make) {
    return call.session().freed().allocate_behind(
        call.number(),
        [&](MemoryLedger::Refusal refusal) -> CUresult {
            WL_CUDA(call.session().ledger().take(device, bytes, charge, refusal));
            const CUresult made = make();
            if (made != CUDA_SUCCESS) charge.reset();
            return made;
        },
        [&] { call.release_order(); });
}

/// True while the stream is being captured: what it is given now runs later, and perhaps more than once.
inline bool is_capturing(ServerCall& call, CUstream stream) {
    const auto function = call.driver()->cuStreamIsCapturing;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return function != nullptr && function(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/// The graph that is being captured from a stream.
inline CUresult captured_graph(ServerCall& call, CUstream stream, CUgraph& graph) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    if (const auto ask = call.driver()->cuStreamGetCaptureInfo_v2) return ask(stream, &status, &id, &graph, nullptr, nullptr);
    if (const auto ask = call.driver()->cuStreamGetCaptureInfo_v3)
        return ask(stream, &status, &id, &graph, nullptr, nullptr, nullptr);
    return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace warpline::server
