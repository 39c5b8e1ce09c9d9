// The contexts and devices of a session.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "common/base/mutex.h"
#include "server/driver/inventory.h"
#include "server/objects/handle_table.h"

namespace warpline::server {

/// The contexts of a session. Those of cuCtxCreate are in the handle table; primary contexts have their tokens from the start
/// and are retained when they are first used. In the handle table is also what green contexts were converted to, which is the
/// green context's there: it has default streams of its own, and everything else is the primary context's.
///
/// @thread  any
class Contexts {
public:
    Contexts(const Driver& driver, const std::vector<DeviceSnapshot>& devices, HandleTable& handles);

    /// The token of a device's primary context, as HelloReply tells it.
    static uint64_t primary_token(CUdevice device) { return make_token(HandleKind::context, 1, static_cast<uint32_t>(device)); }

    /// The driver's context behind a token; a primary one is retained if it is not yet. @errors CUDA_ERROR_INVALID_CONTEXT and
    /// what the driver says of a primary context that cannot be made
    CUresult find(uint64_t token, CUcontext& context);

    /// The context that work in a context is done in: the primary one of what a green context was converted to; else itself.
    uint64_t base_of(uint64_t token) const {
        if (token - primary_token(0) < m_devices.size()) [[likely]]
            return token;
        return base_of_entry(token);
    }
    /// The calling thread's current context in the driver, by the same rule.
    static CUcontext current_base(const Driver& driver);

    /// False for a primary context that is not retained, and for what is no context.
    bool is_made(uint64_t token);

    /// Makes a context the calling thread's current one, unless it is already. Token 0: none.
    CUresult make_current(uint64_t token);

    /// The driver's number of a device, by the client's. False if there is no such device.
    bool driver_device(CUdevice device, CUdevice& found) const;
    /// The client's number of a device, by the driver's.
    bool client_device(CUdevice driver_device, CUdevice& found) const;

    /// The token of a context that the driver has named. 0: it has none.
    uint64_t token_of(CUcontext context);

    /// The device of a context, as the client counts. False if there is no such context.
    bool device_of(uint64_t token, CUdevice& device);

    /// A context has been destroyed, or a primary one reset: no thread has it current any more, as far as we know.
    void forget_current();
    /// After cuDevicePrimaryCtxReset: it is retained again at its next use.
    void primary_was_reset(CUdevice device);

private:
    uint64_t base_of_entry(uint64_t token) const;

    const Driver& m_driver;
    const std::vector<DeviceSnapshot>& m_devices;
    HandleTable& m_handles;
    std::atomic<uint64_t> m_epoch{1};  // what threads believe to be current counts only in the epoch in which they learned it
    Mutex m_mutex;
    std::vector<CUcontext> m_primary WL_GUARDED_BY(m_mutex);  // by ordinal; null: not retained
};

}  // namespace warpline::server
