// A map by address, behind a lock.
#include "softgpu/driver/space/address_map.h"

namespace warpline::softgpu::driver {

void AddressMap::insert_locked(const AllocationPtr& allocation) {
    allocation->id = m_next_id++;
    m_by_address[allocation->address] = allocation;
}

void AddressMap::insert(const AllocationPtr& allocation) {
    MutexLock lock(m_mutex);
    insert_locked(allocation);
}

bool AddressMap::insert_apart(const AllocationPtr& allocation) {
    MutexLock lock(m_mutex);
    if (overlaps_locked(allocation->address, allocation->size_bytes)) return false;
    insert_locked(allocation);
    return true;
}

AllocationPtr AddressMap::remove(uint64_t address) {
    MutexLock lock(m_mutex);
    auto found = m_by_address.find(address);
    if (found == m_by_address.end()) return nullptr;
    AllocationPtr allocation = found->second;
    m_by_address.erase(found);
    return allocation;
}

AllocationPtr AddressMap::find_locked(uint64_t address) const {
    auto after = m_by_address.upper_bound(address);
    if (after == m_by_address.begin()) return nullptr;
    const AllocationPtr& candidate = std::prev(after)->second;
    return candidate->holds(address) ? candidate : nullptr;
}

AllocationPtr AddressMap::find(uint64_t address) const {
    MutexLock lock(m_mutex);
    return find_locked(address);
}

bool AddressMap::covers(uint64_t address, uint64_t size_bytes, Access access) const {
    MutexLock lock(m_mutex);
    while (size_bytes != 0) {
        AllocationPtr piece = find_locked(address);
        if (piece == nullptr || !(access == Access::read ? piece->readable : piece->writable)) return false;
        uint64_t left = piece->size_bytes - (address - piece->address);
        if (size_bytes <= left) return true;
        address += left;
        size_bytes -= left;
    }
    return true;
}

bool AddressMap::overlaps_locked(uint64_t address, uint64_t size_bytes) const {
    if (find_locked(address) != nullptr) return true;
    auto next = m_by_address.lower_bound(address);
    return next != m_by_address.end() && next->first - address < size_bytes;
}

bool AddressMap::overlaps(uint64_t address, uint64_t size_bytes) const {
    MutexLock lock(m_mutex);
    return overlaps_locked(address, size_bytes);
}

void AddressMap::set_access(uint64_t address, bool readable, bool writable) {
    MutexLock lock(m_mutex);
    auto found = m_by_address.find(address);
    if (found == m_by_address.end()) return;
    found->second->readable = readable;
    found->second->writable = writable;
}

std::vector<AllocationPtr> AddressMap::in_range(uint64_t address, uint64_t size_bytes) const {
    std::vector<AllocationPtr> found;
    MutexLock lock(m_mutex);
    for (auto at = m_by_address.lower_bound(address); at != m_by_address.end() && at->first - address < size_bytes; ++at) {
        found.push_back(at->second);
    }
    return found;
}

std::vector<AllocationPtr> AddressMap::remove_if(const std::function<bool(const Allocation&)>& matches) {
    std::vector<AllocationPtr> removed;
    MutexLock lock(m_mutex);
    for (auto at = m_by_address.begin(); at != m_by_address.end();) {
        if (matches(*at->second)) {
            removed.push_back(at->second);
            at = m_by_address.erase(at);
        } else {
            ++at;
        }
    }
    return removed;
}

}  // namespace warpline::softgpu::driver
