// Free pieces by address, behind a lock; the first that fits is taken.
#include "softgpu/exec/device_heap.h"

#include <algorithm>

namespace warpline::softgpu::exec {

constexpr uint64_t k_unit = 16;

DeviceHeap::~DeviceHeap() {
    MutexLock lock(m_mutex);
    if (m_base != 0) m_memory.free(m_base, m_size);
}

void DeviceHeap::set_size(uint64_t size_bytes) {
    MutexLock lock(m_mutex);
    if (m_base == 0) m_size = std::max<uint64_t>(size_bytes, 4096);
}

uint64_t DeviceHeap::allocate(uint64_t size_bytes) {
    MutexLock lock(m_mutex);
    if (size_bytes == 0 || size_bytes > m_size) return 0;
    if (m_base == 0) {
        m_base = m_memory.allocate(m_size, 4096);
        if (m_base == 0) return 0;
        m_free[m_base] = m_size;
    }
    uint64_t size = (size_bytes + k_unit - 1) / k_unit * k_unit;
    auto fits = std::find_if(m_free.begin(), m_free.end(), [&](const auto& entry) { return entry.second >= size; });
    if (fits == m_free.end()) return 0;
    auto [address, available] = *fits;
    m_free.erase(fits);
    if (available > size) m_free[address + size] = available - size;
    m_used[address] = size;
    return address;
}

bool DeviceHeap::free(uint64_t address) {
    if (address == 0) return true;
    MutexLock lock(m_mutex);
    auto found = m_used.find(address);
    if (found == m_used.end()) return false;
    uint64_t size = found->second;
    m_used.erase(found);
    auto next = m_free.lower_bound(address);
    if (next != m_free.end() && next->first == address + size) {
        size += next->second;
        next = m_free.erase(next);
    }
    if (next != m_free.begin()) {
        auto before = std::prev(next);
        if (before->first + before->second == address) {
            before->second += size;
            return true;
        }
    }
    m_free[address] = size;
    return true;
}

}  // namespace warpline::softgpu::exec
