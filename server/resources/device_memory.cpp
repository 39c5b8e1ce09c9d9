#include "server/resources/device_memory.h"

#include <algorithm>

#include "common/log/log.h"
#include "cuda/abi/error_names.h"

namespace warpline::server {

namespace {

constexpr uint64_t k_smallest_window_bytes = uint64_t{1} << 32;
constexpr uint64_t k_largest_window_bytes = uint64_t{1} << 44;
// Where neither Linux nor a driver puts things of its own, should the client's proposal be taken here. Below 2^46, which every
// driver can reserve.
constexpr uint64_t k_other_hints[] = {0x240000000000, 0x280000000000, 0x2c0000000000,
                                      0x300000000000, 0x340000000000, 0x380000000000};

/// The ranges, taken together, in which the thread found what it asked about last.
struct Recent {
    uint64_t epoch = 0;
    uint64_t begin = 0, end = 0;
};
thread_local Recent t_recent;

bool has_virtual_memory(const Driver& driver) {
    return driver->cuMemAddressReserve != nullptr && driver->cuMemCreate != nullptr && driver->cuMemMap != nullptr &&
           driver->cuMemSetAccess != nullptr && driver->cuMemUnmap != nullptr && driver->cuMemRelease != nullptr;
}

}  // namespace

DeviceMemory::DeviceMemory(const Driver& driver, const std::vector<DeviceSnapshot>& devices, SessionCounters& counters)
    : m_driver(driver), m_devices(devices), m_counters(counters) {
    static std::atomic<uint64_t> objects{0};
    m_epoch = (objects.fetch_add(1) + 1) * k_epochs;
}

CUdeviceptr DeviceMemory::reserve_at(uint64_t hint, uint64_t bytes, bool exactly) {
    CUdeviceptr address = 0;
    if (m_driver->cuMemAddressReserve(&address, bytes, k_block_bytes, hint, 0) != CUDA_SUCCESS) return 0;
    if (!exactly || address == hint) return address;
    // Wherever the driver found room, the client probably has something of its own.
    if (m_driver->cuMemAddressFree != nullptr) m_driver->cuMemAddressFree(address, bytes);
    return 0;
}

Result<DeviceMemory::Window> DeviceMemory::reserve_window(Window wanted) {
    if (!has_virtual_memory(m_driver)) return Error{Code::unsupported, "this driver has no virtual memory management"};
    const uint64_t largest = std::clamp(wanted.bytes, k_smallest_window_bytes, k_largest_window_bytes) & ~(k_block_bytes - 1);
    const uint64_t hint = wanted.address & ~(k_block_bytes - 1);
    for (uint64_t bytes = largest; bytes >= k_smallest_window_bytes; bytes /= 2) {
        CUdeviceptr address = hint != 0 ? reserve_at(hint, bytes, true) : 0;
        for (size_t i = 0; address == 0 && i < std::size(k_other_hints); ++i)
            address = reserve_at(k_other_hints[i], bytes, true);
        if (address == 0) continue;
        m_window = {address, bytes};
        return m_window;
    }
    for (uint64_t bytes = largest; bytes >= k_smallest_window_bytes; bytes /= 2) {
        const CUdeviceptr address = reserve_at(0, bytes, false);
        if (address == 0) continue;
        m_window = {address, bytes};
        return m_window;
    }
    return Error{Code::alloc_failed, "no range of addresses for device memory"};
}

void DeviceMemory::release_window() {
    if (m_window.bytes != 0 && m_driver->cuMemAddressFree != nullptr)
        m_driver->cuMemAddressFree(m_window.address, m_window.bytes);
    m_window = {};
}

CUresult DeviceMemory::map(uint64_t address, uint64_t bytes, CUdevice device) {
    const bool aligned = address % k_block_bytes == 0 && bytes % k_block_bytes == 0 && bytes > 0;
    const bool known = device >= 0 && static_cast<size_t>(device) < m_devices.size();
    if (!aligned || !known || !in_window(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
    MutexLock lock(m_mutex);
    if (overlaps(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (m_ranges.size() + m_poisoned.size() >= k_max_ranges) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = create_and_map(address, bytes, device, accessors_of(device));
    if (result != CUDA_SUCCESS) {
        m_poisoned[address] = {bytes, device};
        return result;
    }
    m_poisoned.erase(address);
    m_ranges[address] = {bytes, device};
    m_counters.device_bytes.fetch_add(bytes, std::memory_order_relaxed);
    return CUDA_SUCCESS;
}

CUresult DeviceMemory::create_and_map(uint64_t address, uint64_t bytes, CUdevice device, std::vector<CUdevice> accessors) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = m_devices[static_cast<size_t>(device)].driver_device;
    CUmemGenericAllocationHandle memory{};
    CUresult result = m_driver->cuMemCreate(&memory, bytes, &properties, 0);
    if (result != CUDA_SUCCESS) return result;
    result = m_driver->cuMemMap(address, bytes, 0, memory, 0);
    // The mapping keeps the memory alive from here on.
    m_driver->cuMemRelease(memory);
    if (result != CUDA_SUCCESS) return result;
    result = set_access(address, bytes, accessors, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    if (result != CUDA_SUCCESS) m_driver->cuMemUnmap(address, bytes);
    return result;
}

CUresult DeviceMemory::set_access(uint64_t address, uint64_t bytes, const std::vector<CUdevice>& accessors,
                                  CUmemAccess_flags flags) {
    std::vector<CUmemAccessDesc> access;
    for (CUdevice accessor : accessors) {
        CUmemAccessDesc& one = access.emplace_back();
        one.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        one.location.id = m_devices[static_cast<size_t>(accessor)].driver_device;
        one.flags = flags;
    }
    return m_driver->cuMemSetAccess(address, bytes, access.data(), access.size());
}

std::vector<CUdevice> DeviceMemory::accessors_of(CUdevice device) const {
    std::vector<CUdevice> accessors{device};
    const auto peers = m_peers.find(device);
    if (peers != m_peers.end()) accessors.insert(accessors.end(), peers->second.begin(), peers->second.end());
    const auto sharing = m_pool_peers.find(device);
    if (sharing == m_pool_peers.end()) return accessors;
    for (const auto& [peer, pools] : sharing->second) {
        const bool known = std::find(accessors.begin(), accessors.end(), peer) != accessors.end();
        if (!pools.empty() && !known) accessors.push_back(peer);
    }
    return accessors;
}

CUresult DeviceMemory::unmap(uint64_t address, uint64_t bytes) {
    if (bytes == 0 || !in_window(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
    MutexLock lock(m_mutex);
    // A poisoned block is only forgotten. Otherwise the range must be made of whole blocks of ours, without a gap.
    const auto poisoned = m_poisoned.find(address);
    if (poisoned != m_poisoned.end() && poisoned->second.bytes == bytes) {
        m_poisoned.erase(poisoned);
        return CUDA_SUCCESS;
    }
    const auto first = m_ranges.find(address);
    auto it = first;
    uint64_t end = address;
    while (end - address < bytes && it != m_ranges.end() && it->first == end && it->second.device >= 0) {
        end += it->second.bytes;
        ++it;
    }
    if (end - address != bytes) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    for (auto block = first; block != it; ++block) {
        const CUresult one = m_driver->cuMemUnmap(block->first, block->second.bytes);
        if (one != CUDA_SUCCESS && result == CUDA_SUCCESS) result = one;
    }
    m_ranges.erase(first, it);
    forgot();
    m_counters.device_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    m_credit_stale = true;
    return result;
}

void DeviceMemory::add_range(uint64_t address, uint64_t bytes, uint64_t owner) {
    if (address == 0 || bytes == 0 || bytes > UINT64_MAX - address) return;
    MutexLock lock(m_mutex);
    const auto known = m_ranges.find(address);
    if (known != m_ranges.end() && known->second.bytes == bytes && known->second.owner == owner) return;
    forget(address, bytes);
    if (overlaps(address, bytes) || m_ranges.size() >= k_max_ranges) return;
    m_ranges[address] = {bytes, -1, owner};
    if (owner != 0) m_owned[owner].push_back(address);
}

/// Of what is not ours to unmap, everything that lies in there, be it in part.
void DeviceMemory::forget(uint64_t address, uint64_t bytes) {
    auto it = m_ranges.lower_bound(address);
    if (it != m_ranges.begin() && address - std::prev(it)->first < std::prev(it)->second.bytes) --it;
    while (it != m_ranges.end() && (it->first < address || it->first - address < bytes))
        it = it->second.device < 0 ? m_ranges.erase(it) : std::next(it);
    forgot();
}

void DeviceMemory::forget_owned(uint64_t address, uint64_t owner) {
    const auto found = m_ranges.find(address);
    if (found != m_ranges.end() && found->second.owner == owner) m_ranges.erase(found);
    forgot();
}

bool DeviceMemory::is_clients_own(uint64_t address, uint64_t bytes) const {
    if (bytes == 0 || bytes > UINT64_MAX - address) return false;
    MutexLock lock(m_mutex);
    uint64_t end = address;
    for (auto it = m_ranges.find(address); end < address + bytes; ++it) {
        if (it == m_ranges.end() || it->first != end || it->second.device >= 0) return false;
        end += it->second.bytes;
    }
    return end == address + bytes;
}

void DeviceMemory::remove_ranges(uint64_t address, uint64_t bytes) {
    MutexLock lock(m_mutex);
    forget(address, bytes);
}

bool DeviceMemory::contains(uint64_t address, uint64_t bytes) const {
    if (bytes > UINT64_MAX - address) return false;
    const Recent& recent = t_recent;
    if (recent.epoch == m_epoch.load(std::memory_order_acquire) && address >= recent.begin && address < recent.end &&
        bytes <= recent.end - address) {
        return true;
    }
    MutexLock lock(m_mutex);
    auto it = m_ranges.upper_bound(address);
    if (it == m_ranges.begin()) return false;
    --it;
    if (address - it->first >= it->second.bytes) return false;
    const uint64_t begin = it->first;
    uint64_t end = it->first + it->second.bytes;
    while (end < address + bytes) {
        ++it;
        if (it == m_ranges.end() || it->first != end) return false;
        end += it->second.bytes;
    }
    t_recent = {m_epoch.load(std::memory_order_relaxed), begin, end};
    return true;
}

CUresult DeviceMemory::refusal(uint64_t address) const {
    MutexLock lock(m_mutex);
    auto it = m_poisoned.upper_bound(address);
    if (it != m_poisoned.begin() && address - std::prev(it)->first < std::prev(it)->second.bytes)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    return CUDA_ERROR_INVALID_VALUE;
}

bool DeviceMemory::overlaps(uint64_t address, uint64_t bytes) const {
    const auto next = m_ranges.lower_bound(address);
    if (next != m_ranges.end() && next->first - address < bytes) return true;
    return next != m_ranges.begin() && address - std::prev(next)->first < std::prev(next)->second.bytes;
}

CUresult DeviceMemory::open_to_peer(CUdevice owner, CUdevice peer) {
    MutexLock lock(m_mutex);
    std::vector<CUdevice>& peers = m_peers[owner];
    if (std::find(peers.begin(), peers.end(), peer) != peers.end()) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    for (const auto& [address, range] : m_ranges) {
        if (range.device != owner) continue;
        const CUresult result = set_access(address, range.bytes, {peer}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        if (result != CUDA_SUCCESS) return result;
    }
    peers.push_back(peer);
    return CUDA_SUCCESS;
}

CUresult DeviceMemory::close_to_peer(CUdevice owner, CUdevice peer) {
    MutexLock lock(m_mutex);
    std::vector<CUdevice>& peers = m_peers[owner];
    const auto found = std::find(peers.begin(), peers.end(), peer);
    if (found == peers.end()) return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    peers.erase(found);
    if (!m_pool_peers[owner][peer].empty()) return CUDA_SUCCESS;  // its pools are shared still
    for (const auto& [address, range] : m_ranges) {
        if (range.device == owner) set_access(address, range.bytes, {peer}, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    }
    return CUDA_SUCCESS;
}

CUresult DeviceMemory::share_pool(CUdevice owner, CUdevice peer, uint64_t pool, bool on) {
    MutexLock lock(m_mutex);
    const auto enabled = m_peers.find(owner);
    const bool open =
        enabled != m_peers.end() && std::find(enabled->second.begin(), enabled->second.end(), peer) != enabled->second.end();
    std::set<uint64_t>& pools = m_pool_peers[owner][peer];
    const bool had = !pools.empty();
    on ? static_cast<void>(pools.insert(pool)) : static_cast<void>(pools.erase(pool));
    if (open || had == !pools.empty()) return CUDA_SUCCESS;
    for (const auto& [address, range] : m_ranges) {
        if (range.device != owner) continue;
        const CUresult result =
            set_access(address, range.bytes, {peer}, on ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE);
        if (result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
}

uint64_t DeviceMemory::free_bytes() {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    if (m_driver->cuMemGetInfo_v2 != nullptr && m_driver->cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS)
        return free_bytes;
    return 0;
}

uint64_t DeviceMemory::first_credit(uint64_t wanted_bytes) {
    uint64_t smallest = UINT64_MAX;
    for (const DeviceSnapshot& device : m_devices) smallest = std::min(smallest, device.free_bytes);
    MutexLock lock(m_mutex);
    // Half: what the client uses without asking must be there, also when other sessions allocate at the same time.
    m_credit_target = m_devices.empty() ? 0 : static_cast<int64_t>(std::min(smallest / 2, wanted_bytes) & ~(k_block_bytes - 1));
    m_credit = m_credit_target;
    return static_cast<uint64_t>(m_credit);
}

uint64_t DeviceMemory::take_new_credit() {
    MutexLock lock(m_mutex);
    if (!m_credit_stale || m_credit >= m_credit_target / 2) return 0;
    m_credit_stale = false;
    const auto target = std::min<int64_t>(m_credit_target, static_cast<int64_t>(free_bytes() / 2 & ~(k_block_bytes - 1)));
    if (target <= m_credit) return 0;
    const int64_t added = target - m_credit;
    m_credit = target;
    return static_cast<uint64_t>(added);
}

void DeviceMemory::credit_used(uint64_t bytes) {
    MutexLock lock(m_mutex);
    m_credit -= static_cast<int64_t>(std::min<uint64_t>(bytes, uint64_t{1} << 50));
    m_credit_stale = true;
}

}  // namespace warpline::server
