// Allocating host memory, and finding the range that an address lies in.
#include "client/state/host_memory.h"

#include <sys/mman.h>

#include <iterator>

namespace warpline::client {

namespace {
constexpr uint64_t k_page_bytes = 4096;
uint64_t whole_pages(uint64_t size_bytes) { return (size_bytes + k_page_bytes - 1) & ~(k_page_bytes - 1); }
}  // namespace

void* HostMemory::allocate(uint64_t size_bytes, uint64_t context, int device, unsigned flags) {
    if (size_bytes > UINT64_MAX - k_page_bytes) return nullptr;
    void* address = ::mmap(nullptr, whole_pages(size_bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) return nullptr;
    HostRange range;
    range.base = reinterpret_cast<uint64_t>(address);
    range.size_bytes = size_bytes;
    range.context = context;
    range.flags = flags;
    range.device = device;
    MutexLock lock(m_mutex);
    range.buffer_id = m_next_buffer_id++;
    m_ranges.emplace(range.base, range);
    return address;
}

bool HostMemory::free(void* address) {
    uint64_t size_bytes = 0;
    {
        MutexLock lock(m_mutex);
        auto it = m_ranges.find(reinterpret_cast<uint64_t>(address));
        if (it == m_ranges.end() || it->second.origin != HostOrigin::allocated) return false;
        size_bytes = it->second.size_bytes;
        m_ranges.erase(it);
    }
    ::munmap(address, whole_pages(size_bytes));
    return true;
}

HostMemory::Registered HostMemory::register_range(HostRange range) {
    MutexLock lock(m_mutex);
    auto next = m_ranges.upper_bound(range.base);
    if (next != m_ranges.end() && next->first - range.base < range.size_bytes) return Registered::overlaps;
    if (containing(range.base) != m_ranges.end()) return Registered::overlaps;
    range.origin = HostOrigin::registered;
    range.buffer_id = m_next_buffer_id++;
    m_ranges.emplace(range.base, range);
    return Registered::ok;
}

bool HostMemory::unregister(void* address) {
    MutexLock lock(m_mutex);
    auto it = m_ranges.find(reinterpret_cast<uint64_t>(address));
    if (it == m_ranges.end() || it->second.origin != HostOrigin::registered) return false;
    m_ranges.erase(it);
    return true;
}

std::map<uint64_t, HostRange>::const_iterator HostMemory::containing(uint64_t address) const {
    auto it = m_ranges.upper_bound(address);
    if (it == m_ranges.begin()) return m_ranges.end();
    --it;
    return address - it->first < it->second.size_bytes ? it : m_ranges.end();
}

std::optional<HostRange> HostMemory::find(uint64_t address) const {
    MutexLock lock(m_mutex);
    auto it = containing(address);
    if (it == m_ranges.end()) return std::nullopt;
    return it->second;
}

}  // namespace warpline::client
