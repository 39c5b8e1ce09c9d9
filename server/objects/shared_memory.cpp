// Device memory that other sessions of the tenant have, too.
#include <algorithm>

#include "server/objects/device_memory.h"

namespace warpline::server {

CUresult DeviceMemory::retain(uint64_t address, uint64_t bytes, CUmemGenericAllocationHandle& memory, uint64_t& base,
                              uint64_t& mapped_bytes) const {
    if (m_driver->cuMemRetainAllocationHandle == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    MutexLock lock(m_mutex);
    const auto it = containing(address);
    const bool own = it != m_ranges.end() && it->second.device >= 0 && !it->second.allocated && !it->second.imported;
    if (!own || bytes == 0 || bytes > it->second.bytes - (address - it->first)) return CUDA_ERROR_INVALID_VALUE;
    base = it->first;
    mapped_bytes = it->second.bytes;
    // NOLINTNEXTLINE: an address of the device's, which the driver takes as a pointer
    return m_driver->cuMemRetainAllocationHandle(&memory, reinterpret_cast<void*>(base));
}

CUresult DeviceMemory::map_imported(uint64_t address, uint64_t bytes, CUmemGenericAllocationHandle memory, CUdevice device,
                                    CUdevice accessor) {
    const bool aligned = address % k_block_bytes == 0 && bytes % k_block_bytes == 0 && bytes > 0;
    if (!aligned || !in_window(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
    MutexLock lock(m_mutex);
    if (overlaps(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (m_ranges.size() + m_poisoned.size() >= k_max_ranges) return CUDA_ERROR_OUT_OF_MEMORY;
    std::vector<CUdevice> accessors = accessors_of(device, Reach::peers);
    // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS: whoever opens it may use it.
    if (std::find(accessors.begin(), accessors.end(), accessor) == accessors.end()) accessors.push_back(accessor);
    if (const CUresult mapped = m_driver->cuMemMap(address, bytes, 0, memory, 0); mapped != CUDA_SUCCESS) return mapped;
    if (const CUresult set = set_access(address, bytes, accessors, CU_MEM_ACCESS_FLAGS_PROT_READWRITE); set != CUDA_SUCCESS) {
        m_driver->cuMemUnmap(address, bytes);
        return set;
    }
    Range range{bytes, device};
    range.imported = true;
    range.charge = m_ledger.borrow(device, bytes);
    m_ranges[address] = std::move(range);
    return CUDA_SUCCESS;
}

}  // namespace warpline::server
