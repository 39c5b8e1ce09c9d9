#include "server/session/functions.h"

namespace warpline::server {

bool Functions::bind_kernel(uint64_t token, CUkernel kernel, uint64_t library) {
    return m_handles.bind(HandleKind::function, token, {reinterpret_cast<uint64_t>(kernel), library, true});
}

bool Functions::bind_function(uint64_t token, CUfunction function, uint64_t module) {
    return m_handles.bind(HandleKind::function, token, {reinterpret_cast<uint64_t>(function), module, false});
}

CUfunction Functions::function(uint64_t token, uint64_t context, CUresult& why) {
    why = CUDA_ERROR_INVALID_HANDLE;
    const auto entry = m_handles.find(HandleKind::function, token);
    if (!entry) return nullptr;
    if (!entry->kernel) return reinterpret_cast<CUfunction>(entry->value);
    {
        MutexLock lock(m_mutex);
        const auto known = m_found.find({token, context});
        if (known != m_found.end()) return known->second;
    }
    // Without the lock: the driver may load the kernel's image now, which can wait for the device.
    CUfunction found = nullptr;
    const auto kernel = reinterpret_cast<CUkernel>(entry->value);
    if (m_driver->cuKernelGetFunction == nullptr) return nullptr;
    if (const CUresult result = m_driver->cuKernelGetFunction(&found, kernel); result != CUDA_SUCCESS) {
        why = result;
        return nullptr;
    }
    MutexLock lock(m_mutex);
    if (m_found.size() >= m_sweep_at) sweep();
    m_found[{token, context}] = found;
    return found;
}

CUkernel Functions::kernel(uint64_t token) {
    const auto entry = m_handles.find(HandleKind::function, token);
    return entry && entry->kernel ? reinterpret_cast<CUkernel>(entry->value) : nullptr;
}

uint64_t Functions::token_of(CUkernel kernel, CUfunction function) {
    if (kernel != nullptr) return m_handles.token_of(HandleKind::function, reinterpret_cast<uint64_t>(kernel));
    const uint64_t known = m_handles.token_of(HandleKind::function, reinterpret_cast<uint64_t>(function));
    if (known != 0) return known;
    MutexLock lock(m_mutex);
    for (const auto& [key, found] : m_found) {
        if (found == function) return key.first;
    }
    return 0;
}

void Functions::sweep() {
    std::erase_if(m_found, [this](const auto& item) { return !m_handles.find(HandleKind::function, item.first.first); });
    m_sweep_at = m_found.size() * 2 + 1024;
}

void Functions::context_ended(uint64_t context) {
    MutexLock lock(m_mutex);
    std::erase_if(m_found, [context](const auto& item) { return item.first.second == context; });
}

}  // namespace warpline::server
