// Retaining primary contexts, and translating the client's numbers of devices.
#include "server/objects/contexts.h"

#include <algorithm>

#include "server/driver/primary_context.h"

namespace warpline::server {

namespace {

/// What the calling thread has made current.
struct Current {
    uint64_t epoch = 0;
    uint64_t token = 0;
    CUcontext converted = nullptr;  // if that is one of a green context
    CUcontext base = nullptr;       // and its primary one
};
thread_local Current t_current;

}  // namespace

Contexts::Contexts(const Driver& driver, const std::vector<DeviceSnapshot>& devices, HandleTable& handles)
    : m_driver(driver), m_devices(devices), m_handles(handles), m_primary(devices.size(), nullptr) {
    // Another session of this process (a test's) may have used the thread before.
    static std::atomic<uint64_t> sessions{0};
    m_epoch = (sessions.fetch_add(1) + 1) << 32;
}

CUresult Contexts::find(uint64_t token, CUcontext& context) {
    if (const auto entry = m_handles.find(HandleKind::context, token)) {
        context = reinterpret_cast<CUcontext>(entry->value);
        return CUDA_SUCCESS;
    }
    for (size_t i = 0; i < m_devices.size(); ++i) {
        if (token != primary_token(m_devices[i].device)) continue;
        MutexLock lock(m_mutex);
        if (m_primary[i] == nullptr) {
            const CUresult result = retain_primary(m_driver, m_devices[i].driver_device, m_primary[i]);
            if (result != CUDA_SUCCESS) {
                m_primary[i] = nullptr;
                return result;
            }
        }
        context = m_primary[i];
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_CONTEXT;
}

uint64_t Contexts::base_of_entry(uint64_t token) const {
    const auto entry = m_handles.find(HandleKind::context, token);
    const auto green = entry ? m_handles.find(HandleKind::green_context, entry->owner) : std::nullopt;
    return green ? green->owner : token;
}

CUcontext Contexts::current_base(const Driver& driver) {
    CUcontext context = nullptr;
    if (driver->cuCtxGetCurrent != nullptr) driver->cuCtxGetCurrent(&context);
    return context != nullptr && context == t_current.converted ? t_current.base : context;
}

bool Contexts::is_made(uint64_t token) {
    if (m_handles.find(HandleKind::context, token)) return true;
    MutexLock lock(m_mutex);
    for (size_t i = 0; i < m_devices.size(); ++i) {
        if (token == primary_token(m_devices[i].device)) return m_primary[i] != nullptr;
    }
    return false;
}

CUresult Contexts::make_current(uint64_t token) {
    const uint64_t epoch = m_epoch.load(std::memory_order_acquire);
    if (t_current.epoch == epoch && t_current.token == token) return CUDA_SUCCESS;
    CUcontext context = nullptr;
    if (token != 0) {
        const CUresult found = find(token, context);
        if (found != CUDA_SUCCESS) return found;
    }
    if (m_driver->cuCtxSetCurrent == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    Current current{epoch, token};
    if (const uint64_t base = base_of(token); base != token) {
        current.converted = context;
        if (const CUresult found = find(base, current.base); found != CUDA_SUCCESS) return found;
    }
    const CUresult result = m_driver->cuCtxSetCurrent(context);
    t_current = result == CUDA_SUCCESS ? current : Current{};
    return result;
}

bool Contexts::device_of(uint64_t token, CUdevice& device) {
    for (const DeviceSnapshot& known : m_devices) {
        if (token == primary_token(known.device)) {
            device = known.device;
            return true;
        }
    }
    if (!m_handles.find(HandleKind::context, token)) return false;
    CUdevice found = 0;
    return make_current(token) == CUDA_SUCCESS && m_driver->cuCtxGetDevice != nullptr &&
           m_driver->cuCtxGetDevice(&found) == CUDA_SUCCESS && client_device(found, device);
}

uint64_t Contexts::token_of(CUcontext context) {
    if (context == nullptr) return 0;
    const uint64_t made = m_handles.token_of(HandleKind::context, reinterpret_cast<uint64_t>(context));
    if (made != 0) return made;
    MutexLock lock(m_mutex);
    const auto primary = std::find(m_primary.begin(), m_primary.end(), context);
    return primary != m_primary.end() ? primary_token(m_devices[static_cast<size_t>(primary - m_primary.begin())].device) : 0;
}

bool Contexts::driver_device(CUdevice device, CUdevice& found) const {
    if (device < 0 || static_cast<size_t>(device) >= m_devices.size()) return false;
    found = m_devices[static_cast<size_t>(device)].driver_device;
    return true;
}

bool Contexts::client_device(CUdevice driver_device, CUdevice& found) const {
    for (const DeviceSnapshot& known : m_devices) {
        if (known.driver_device != driver_device) continue;
        found = known.device;
        return true;
    }
    return false;
}

void Contexts::forget_current() { m_epoch.fetch_add(1, std::memory_order_release); }

void Contexts::primary_was_reset(CUdevice device) {
    {
        MutexLock lock(m_mutex);
        for (size_t i = 0; i < m_devices.size(); ++i) {
            if (m_devices[i].device == device) m_primary[i] = nullptr;
        }
    }
    forget_current();
}

}  // namespace warpline::server
