// Mapping, freeing and checking the addresses that a client names.
#include "server/objects/device_memory.h"

#include <algorithm>

#include "common/log/log.h"
#include "cuda/abi/error_names.h"

namespace warpline::server {

namespace {

/// The ranges, taken together, in which the thread found what it asked about last.
struct Recent {
    uint64_t epoch = 0;
    uint64_t begin = 0, end = 0;
};
thread_local Recent t_recent;

}  // namespace

DeviceMemory::DeviceMemory(const Driver& driver, const std::vector<DeviceSnapshot>& devices, MemoryLedger& ledger)
    : m_driver(driver), m_devices(devices), m_ledger(ledger), m_credit(driver, ledger) {
    static std::atomic<uint64_t> objects{0};
    m_epoch = (objects.fetch_add(1) + 1) * k_epochs;
}

Result<DeviceMemory::Window> DeviceMemory::reserve_window(Window wanted, AddressSpace space) {
    for (const DeviceSnapshot& device : m_devices) {
        if (!device.attributes.empty() && device.attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) == 0)
            return Error{Code::unsupported, "a device has no virtual memory management"};
    }
    m_window = WL_TRY(reserve_address_window(m_driver, wanted, space));
    return m_window;
}

void DeviceMemory::release_window() {
    release_address_window(m_driver, m_window);
    m_window = {};
}

CUresult DeviceMemory::map(uint64_t address, uint64_t bytes, CUdevice device, Reach reach, MemoryLedger::Refusal refusal) {
    const bool aligned = address % k_block_bytes == 0 && bytes % k_block_bytes == 0 && bytes > 0;
    const bool known = device >= 0 && static_cast<size_t>(device) < m_devices.size();
    if (!aligned || !known || !in_window(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
    MutexLock lock(m_mutex);
    if (overlaps(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (m_ranges.size() + m_poisoned.size() >= k_max_ranges) return CUDA_ERROR_OUT_OF_MEMORY;
    Range range{bytes, device, 0, false, false, reach};
    MemoryChargePtr charge;
    CUresult result = m_ledger.take(device, bytes, charge, refusal);
    if (result == CUDA_SUCCESS) result = create_and_map(address, bytes, device, accessors_of(device, reach));
    if (result != CUDA_SUCCESS) {
        m_poisoned[address] = range;
        return result;
    }
    m_poisoned.erase(address);
    range.charge = std::move(charge);
    m_ranges[address] = std::move(range);
    return CUDA_SUCCESS;
}

CUresult DeviceMemory::create(uint64_t bytes, CUdevice device, CUmemGenericAllocationHandle& memory) const {
    const DeviceSnapshot& on = m_devices[static_cast<size_t>(device)];
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = on.driver_device;
    // Memory is shared by who was made for it only, and a program does not say that beforehand.
    if (m_shareable && on.attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) != 0) {
        properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        if (m_driver->cuMemCreate(&memory, bytes, &properties, 0) == CUDA_SUCCESS) return CUDA_SUCCESS;
        // Perhaps there are no descriptors left.
        properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    }
    return m_driver->cuMemCreate(&memory, bytes, &properties, 0);
}

CUresult DeviceMemory::create_and_map(uint64_t address, uint64_t bytes, CUdevice device, std::vector<CUdevice> accessors) {
    CUmemGenericAllocationHandle memory{};
    CUresult result = create(bytes, device, memory);
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

std::vector<CUdevice> DeviceMemory::accessors_of(CUdevice device, Reach reach) const {
    std::vector<CUdevice> accessors{device};
    if (reach == Reach::every_device) {
        const CUdevice owner = m_devices[static_cast<size_t>(device)].driver_device;
        for (CUdevice other = 0; static_cast<size_t>(other) < m_devices.size(); ++other) {
            int can = 0;
            const CUdevice asked = m_devices[static_cast<size_t>(other)].driver_device;
            if (other != device && m_driver->cuDeviceCanAccessPeer(&can, asked, owner) == CUDA_SUCCESS && can != 0)
                accessors.push_back(other);
        }
        return accessors;
    }
    const std::vector<CUdevice> peers = m_peers.peers_of(device);
    accessors.insert(accessors.end(), peers.begin(), peers.end());
    return accessors;
}

CUresult DeviceMemory::allocate(uint64_t bytes, CUdevice device, uint64_t& address, MemoryLedger::Refusal refusal) {
    if (m_driver->cuMemAlloc_v2 == nullptr || m_driver->cuMemFree_v2 == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    MemoryChargePtr charge;
    CUresult result = m_ledger.take(device, bytes, charge, refusal);
    if (result != CUDA_SUCCESS) return result;
    CUdeviceptr made = 0;
    result = m_driver->cuMemAlloc_v2(&made, bytes);
    if (result != CUDA_SUCCESS) return result;
    MutexLock lock(m_mutex);
    if (m_ranges.size() + m_poisoned.size() >= k_max_ranges) {
        m_driver->cuMemFree_v2(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    m_ranges[made] = {bytes, device, 0, true, false, Reach::peers, false, std::move(charge)};
    address = made;
    return CUDA_SUCCESS;
}

CUresult DeviceMemory::retire(uint64_t address, uint64_t bytes, Retired& what) {
    what = Retired::nothing;
    if (bytes == 0 || bytes > UINT64_MAX - address) return CUDA_ERROR_INVALID_VALUE;
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
    while (end - address < bytes && it != m_ranges.end() && it->first == end && it->second.device >= 0 && !it->second.retired) {
        end += it->second.bytes;
        ++it;
    }
    if (end - address != bytes) return CUDA_ERROR_INVALID_VALUE;
    for (auto block = first; block != it; ++block) block->second.retired = true;
    forgot();
    what = first->second.allocated ? Retired::allocated : Retired::mapped;
    return CUDA_SUCCESS;
}

CUresult DeviceMemory::unmap_retired(uint64_t address, uint64_t bytes) {
    Ranges blocks;
    {
        MutexLock lock(m_mutex);
        auto it = m_ranges.find(address);
        while (it != m_ranges.end() && it->first - address < bytes && it->second.retired) {
            blocks.insert(*it);
            // What the driver gets back it may give to the next caller before it returns; nobody can have a place of the window
            // before the client knows.
            it = it->second.allocated ? m_ranges.erase(it) : std::next(it);
        }
    }
    CUresult result = CUDA_SUCCESS;
    CUcontext context = nullptr;
    if (m_driver->cuCtxGetCurrent != nullptr) m_driver->cuCtxGetCurrent(&context);
    for (const auto& [base, block] : blocks) {
        CUresult one = CUDA_SUCCESS;  // what a context had allocated has gone with it
        if (!block.allocated) {
            one = m_driver->cuMemUnmap(base, block.bytes);
        } else if (context != nullptr) {
            one = m_driver->cuMemFree_v2(base);
        }
        if (one != CUDA_SUCCESS && result == CUDA_SUCCESS) result = one;
    }
    MutexLock lock(m_mutex);
    for (auto& [base, block] : blocks) {
        if (!block.allocated) m_ranges.erase(base);
        block.charge.reset();
        m_credit.freed(block.device);
    }
    return result;
}

CUresult DeviceMemory::unmap(uint64_t address, uint64_t bytes) {
    Retired what = Retired::nothing;
    const CUresult result = retire(address, bytes, what);
    return what != Retired::nothing ? unmap_retired(address, bytes) : result;
}

void DeviceMemory::add_range(uint64_t address, uint64_t bytes, uint64_t owner, MemoryChargePtr charge) {
    if (address == 0 || bytes == 0 || bytes > UINT64_MAX - address) return;
    MutexLock lock(m_mutex);
    const auto known = m_ranges.find(address);
    if (known != m_ranges.end() && known->second.bytes == bytes && known->second.owner == owner) {
        if (known->second.device < 0) known->second.charge = std::move(charge);
        return;
    }
    forget(address, bytes);
    if (overlaps(address, bytes) || m_ranges.size() >= k_max_ranges) return;
    m_ranges[address] = {bytes, -1, owner, false, false, Reach::peers, false, std::move(charge)};
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

DeviceMemory::Ranges::const_iterator DeviceMemory::containing(uint64_t address) const {
    auto it = m_ranges.upper_bound(address);
    if (it == m_ranges.begin()) return m_ranges.end();
    --it;
    return address - it->first < it->second.bytes && !it->second.retired ? it : m_ranges.end();
}

bool DeviceMemory::contains(uint64_t address, uint64_t bytes) const {
    if (bytes > UINT64_MAX - address) return false;
    const Recent& recent = t_recent;
    if (recent.epoch == m_epoch.load(std::memory_order_acquire) && address >= recent.begin && address < recent.end &&
        bytes <= recent.end - address) {
        return true;
    }
    MutexLock lock(m_mutex);
    auto it = containing(address);
    if (it == m_ranges.end()) return false;
    const uint64_t begin = it->first;
    uint64_t end = it->first + it->second.bytes;
    while (end < address + bytes) {
        ++it;
        if (it == m_ranges.end() || it->first != end || it->second.retired) return false;
        end += it->second.bytes;
    }
    t_recent = {m_epoch.load(std::memory_order_relaxed), begin, end};
    return true;
}

bool DeviceMemory::is_own(uint64_t address) const {
    MutexLock lock(m_mutex);
    const auto it = containing(address);
    return it != m_ranges.end() && it->second.device >= 0;
}

CUdevice DeviceMemory::owner_of(uint64_t address) const {
    MutexLock lock(m_mutex);
    const auto it = containing(address);
    return it != m_ranges.end() ? it->second.device : -1;
}

CUresult DeviceMemory::refusal(uint64_t address) const {
    MutexLock lock(m_mutex);
    auto it = m_poisoned.upper_bound(address);
    if (it != m_poisoned.begin() && address - std::prev(it)->first < std::prev(it)->second.bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_ERROR_INVALID_VALUE;
}

bool DeviceMemory::overlaps(uint64_t address, uint64_t bytes) const {
    const auto next = m_ranges.lower_bound(address);
    if (next != m_ranges.end() && next->first - address < bytes) return true;
    return next != m_ranges.begin() && address - std::prev(next)->first < std::prev(next)->second.bytes;
}

bool DeviceMemory::is_open(CUdevice owner, CUdevice device) const {
    MutexLock lock(m_mutex);
    return owner == device || m_peers.is_open(owner, device);
}

CUresult DeviceMemory::follow_peers(CUdevice owner, CUdevice peer, bool was_open) {
    const bool open = m_peers.is_open(owner, peer);
    if (open == was_open) return CUDA_SUCCESS;
    const CUmemAccess_flags flags = open ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    for (const auto& [address, range] : m_ranges) {
        if (range.device != owner || !range.follows_peers()) continue;
        const CUresult result = set_access(address, range.bytes, {peer}, flags);
        if (open && result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
}

CUresult DeviceMemory::open_to_peer(const PeerAccess::Leave& leave) {
    MutexLock lock(m_mutex);
    const bool was_open = m_peers.is_open(leave.owner, leave.peer);
    const bool is_new = m_peers.let(leave);
    const CUresult result = follow_peers(leave.owner, leave.peer, was_open);
    if (result == CUDA_SUCCESS || !is_new) return result;
    m_peers.end(leave);
    static_cast<void>(follow_peers(leave.owner, leave.peer, true));
    return result;
}

void DeviceMemory::close_to_peer(const PeerAccess::Leave& leave) {
    MutexLock lock(m_mutex);
    const bool was_open = m_peers.is_open(leave.owner, leave.peer);
    m_peers.end(leave);
    static_cast<void>(follow_peers(leave.owner, leave.peer, was_open));
}

void DeviceMemory::context_ended(uint64_t context, PeerAccess::Ending ending) {
    MutexLock lock(m_mutex);
    for (const PeerAccess::Leave& leave : m_peers.ended_by(context, ending)) {
        const bool was_open = m_peers.is_open(leave.owner, leave.peer);
        m_peers.end(leave);
        static_cast<void>(follow_peers(leave.owner, leave.peer, was_open));
    }
}

CUresult DeviceMemory::share_pool(CUdevice owner, CUdevice peer, uint64_t pool, bool on) {
    MutexLock lock(m_mutex);
    const bool was_open = m_peers.is_open(owner, peer);
    m_peers.share_pool(owner, peer, pool, on);
    return follow_peers(owner, peer, was_open);
}

void DeviceMemory::device_was_reset(CUdevice device) {
    if (m_driver->cuMemRetainAllocationHandle == nullptr) return;
    MutexLock lock(m_mutex);
    m_reset.insert(device);
    m_was_reset.store(true, std::memory_order_relaxed);
}

void DeviceMemory::restore(CUdevice device) {
    MutexLock lock(m_mutex);
    if (m_reset.erase(device) == 0) return;
    m_was_reset.store(!m_reset.empty(), std::memory_order_relaxed);
    bool reserved = false;
    for (auto it = m_ranges.begin(); it != m_ranges.end();) {
        const auto [address, range] = *it;
        CUmemGenericAllocationHandle memory{};
        const bool concerned = range.device == device && !range.allocated && !range.retired;
        // NOLINTNEXTLINE: an address of the device's, which the driver takes as a pointer
        if (!concerned || m_driver->cuMemRetainAllocationHandle(&memory, reinterpret_cast<void*>(address)) == CUDA_SUCCESS) {
            if (concerned) m_driver->cuMemRelease(memory);
            ++it;
            continue;
        }
        // What another session has made is not to be had again.
        CUresult made = range.imported ? CUDA_ERROR_INVALID_VALUE
                                       : create_and_map(address, range.bytes, device, accessors_of(device, range.reach));
        if (made != CUDA_SUCCESS && made != CUDA_ERROR_OUT_OF_MEMORY && !reserved && !range.imported) {
            // Perhaps the addresses themselves have gone.
            CUdeviceptr again = 0;
            reserved = m_driver->cuMemAddressReserve(&again, m_window.bytes + m_window.unused_bytes, k_block_bytes,
                                                     m_window.address, 0) == CUDA_SUCCESS;
            if (again == m_window.address)
                made = create_and_map(address, range.bytes, device, accessors_of(device, range.reach));
        }
        if (made == CUDA_SUCCESS) {
            ++it;
            continue;
        }
        WL_LOG(warn, "memory", "{} bytes cannot be mapped again after a reset: {}", range.bytes,
               cuda::abi::error_name_for_log(made));
        m_poisoned[address] = {range.bytes, range.device, 0, false, false, range.reach, range.imported};
        it = m_ranges.erase(it);
    }
}

}  // namespace warpline::server
