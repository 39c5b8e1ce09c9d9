// Counts what a client may allocate without asking.
#include "server/objects/memory_credit.h"

#include <algorithm>

namespace warpline::server {

namespace {

constexpr uint64_t k_block_bytes = uint64_t{2} << 20;  // what is mapped comes in blocks of this
constexpr uint64_t k_most_credit_bytes = uint64_t{1} << 50;

}  // namespace

uint64_t MemoryCredit::free_bytes() const {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    if (m_driver->cuMemGetInfo_v2 == nullptr || m_driver->cuMemGetInfo_v2(&free_bytes, &total_bytes) != CUDA_SUCCESS) return 0;
    return free_bytes;
}

int64_t MemoryCredit::target(CUdevice device) const {
    const uint64_t free = std::min(free_bytes(), m_ledger.left(device));
    return std::min(m_most_bytes, static_cast<int64_t>(free / 2 & ~(k_block_bytes - 1)));
}

uint64_t MemoryCredit::at_start(const DeviceSnapshot& device, uint64_t most_bytes) {
    m_most_bytes = static_cast<int64_t>(std::min(most_bytes, k_most_credit_bytes) & ~(k_block_bytes - 1));
    unsigned flags = 0;
    int active = 1;
    if (m_driver->cuDevicePrimaryCtxGetState != nullptr)
        m_driver->cuDevicePrimaryCtxGetState(device.driver_device, &flags, &active);
    CUcontext context = nullptr;
    const bool can = m_driver->cuDevicePrimaryCtxRetain != nullptr && m_driver->cuCtxSetCurrent != nullptr;
    if (active == 0 || !can) return 0;
    if (m_driver->cuDevicePrimaryCtxRetain(&context, device.driver_device) != CUDA_SUCCESS) return 0;
    m_driver->cuCtxSetCurrent(context);
    const int64_t granted = target(device.device);
    m_driver->cuCtxSetCurrent(nullptr);
    if (m_driver->cuDevicePrimaryCtxRelease_v2 != nullptr) m_driver->cuDevicePrimaryCtxRelease_v2(device.driver_device);
    MutexLock lock(m_mutex);
    m_credit[device.device].left = granted;
    return static_cast<uint64_t>(granted);
}

void MemoryCredit::used(CUdevice device, uint64_t bytes) {
    MutexLock lock(m_mutex);
    Credit& credit = m_credit[device];
    credit.left -= static_cast<int64_t>(std::min(bytes, k_most_credit_bytes));
    credit.stale = true;
    m_news.store(true, std::memory_order_relaxed);
}

void MemoryCredit::freed(CUdevice device) {
    MutexLock lock(m_mutex);
    m_credit[device].stale = true;
    m_news.store(true, std::memory_order_relaxed);
}

uint64_t MemoryCredit::replace(CUdevice device) {
    const int64_t granted = target(device);
    MutexLock lock(m_mutex);
    m_credit[device] = {granted, false};
    return static_cast<uint64_t>(granted);
}

bool MemoryCredit::stale(CUdevice device) const {
    MutexLock lock(m_mutex);
    const auto found = m_credit.find(device);
    return found != m_credit.end() && found->second.stale && found->second.left < m_most_bytes / 2;
}

uint64_t MemoryCredit::renew(CUdevice device) {
    m_news.store(false, std::memory_order_relaxed);
    if (!stale(device)) return 0;
    const int64_t wanted = target(device);
    MutexLock lock(m_mutex);
    Credit& credit = m_credit[device];
    credit.stale = false;
    if (wanted <= credit.left) return 0;
    const int64_t added = wanted - credit.left;
    credit.left = wanted;
    return static_cast<uint64_t>(added);
}

}  // namespace warpline::server
