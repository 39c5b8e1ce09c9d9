// Reserved addresses, mappings and their access.
#include "softgpu/driver/memory/vmm.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>

#include "common/log/log.h"
#include "softgpu/driver/memory/physical_memory.h"
#include "softgpu/driver/process/process.h"
#include "softgpu/driver/space/heap.h"
#include "softgpu/driver/space/memory_in_use.h"
#include "softgpu/exec/api.h"

namespace warpline::softgpu::driver {

namespace {

constexpr int k_reserve_flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

/// Reserves exactly there, or not at all.
bool reserve_at(uint64_t address, uint64_t size_bytes) {
    void* wanted = reinterpret_cast<void*>(address);
    void* got = mmap(wanted, size_bytes, PROT_NONE, k_reserve_flags | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == MAP_FAILED) return false;
    if (got == wanted) return true;
    munmap(got, size_bytes);
    return false;
}

uint64_t reserve_anywhere(uint64_t size_bytes, uint64_t alignment_bytes) {
    uint64_t span = size_bytes + alignment_bytes;
    if (span < size_bytes) return 0;
    void* got = mmap(nullptr, span, PROT_NONE, k_reserve_flags, -1, 0);
    if (got == MAP_FAILED) return 0;
    auto start = reinterpret_cast<uint64_t>(got);
    uint64_t address = round_up(start, alignment_bytes), end = start + span;
    if (address != start) munmap(got, address - start);
    if (end != address + size_bytes) munmap(reinterpret_cast<void*>(address + size_bytes), end - address - size_bytes);
    return address;
}

/// What lies below is the driver's to give out, whatever is asked for; the end is that of the addresses that a process has.
constexpr uint64_t k_first_hint = 0x307000000, k_end_of_addresses = (uint64_t{1} << 47) - 4096;

/// Where drivers are seen to put reservations of their own choice: low, far from what the process has mapped. 0 if that is
/// taken.
uint64_t reserve_low(uint64_t size_bytes, uint64_t alignment_bytes) {
    constexpr uint64_t first = 0x302000000, step = uint64_t{4} << 30;
    constexpr int k_attempts = 1024;
    for (int i = 0; i < k_attempts; ++i) {
        const uint64_t address = round_up(first + static_cast<uint64_t>(i) * step, alignment_bytes);
        if (address + size_bytes < address) return 0;
        if (reserve_at(address, size_bytes)) return address;
    }
    return 0;
}

/// Of reservations from which allocations are made, as gpu-server's: what lies before the first, for kernels to read (DB-18).
/// False: something else is there.
constexpr uint64_t k_large_bytes = uint64_t{4} << 30;

bool open_front(uint64_t address) {
    if (!reserve_at(address, k_chunk_bytes)) return false;
    if (mprotect(reinterpret_cast<void*>(address), k_chunk_bytes, PROT_READ | PROT_WRITE) != 0) {
        munmap(reinterpret_cast<void*>(address), k_chunk_bytes);
        return false;
    }
    process().ranges.add(VisibleRanges::k_all_devices, address, k_chunk_bytes);
    return true;
}

void close_front(uint64_t address) {
    process().ranges.remove(address);
    MemoryGoing going;
    munmap(reinterpret_cast<void*>(address), k_chunk_bytes);
}

}  // namespace

VirtualMemory& VirtualMemory::instance() {
    static auto* memory = new VirtualMemory;  // leaked on purpose: calls come after static destructors
    return *memory;
}

CUresult VirtualMemory::reserve(uint64_t size_bytes, uint64_t alignment_bytes, uint64_t hint, uint64_t* address) {
    bool power = (alignment_bytes & (alignment_bytes - 1)) == 0;
    if (size_bytes == 0 || size_bytes % k_chunk_bytes != 0 || !power) return CUDA_ERROR_INVALID_VALUE;
    uint64_t alignment = std::max(alignment_bytes, k_chunk_bytes);
    // DB-10: what drivers make of a hint differs.
    const Profile::Hints hints = process().config().profile.hints;
    if (hint != 0 && hints == Profile::Hints::refused) return CUDA_ERROR_OUT_OF_MEMORY;
    if (hint % alignment != 0) return CUDA_ERROR_INVALID_VALUE;
    if (hints != Profile::Hints::honoured || hint < k_first_hint) hint = 0;
    if (hint != 0 && (hint > k_end_of_addresses || k_end_of_addresses - hint < size_bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t found = hint != 0 && reserve_at(hint, size_bytes) ? hint : 0;
    if (found == 0 && hints != Profile::Hints::honoured) found = reserve_low(size_bytes, alignment);
    if (found == 0) found = reserve_anywhere(size_bytes, alignment);
    if (found == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    // Small ones are laid out side by side by programs, which ask for addresses before one, too.
    const bool is_large = size_bytes >= k_large_bytes;
    const bool has_front = is_large && process().config().reach_before() && open_front(found - k_chunk_bytes);
    MutexLock lock(m_mutex);
    m_reservations[found] = {size_bytes, has_front};
    *address = found;
    return CUDA_SUCCESS;
}

CUresult VirtualMemory::release(uint64_t address, uint64_t size_bytes) {
    bool has_front = false;
    {
        MutexLock lock(m_mutex);
        auto found = m_reservations.find(address);
        if (found == m_reservations.end() || found->second.size_bytes != size_bytes) return CUDA_ERROR_INVALID_VALUE;
        auto mapped = m_mappings.lower_bound(address);
        if (mapped != m_mappings.end() && mapped->first < address + size_bytes) return CUDA_ERROR_INVALID_VALUE;
        has_front = found->second.has_front;
        m_reservations.erase(found);
    }
    if (has_front) close_front(address - k_chunk_bytes);
    munmap(reinterpret_cast<void*>(address), size_bytes);
    return CUDA_SUCCESS;
}

bool VirtualMemory::reserved(uint64_t address, uint64_t size_bytes, uint64_t* base, uint64_t* base_bytes) const {
    auto after = m_reservations.upper_bound(address);
    if (after == m_reservations.begin()) return false;
    auto found = std::prev(after);
    uint64_t offset = address - found->first;
    *base = found->first;
    *base_bytes = found->second.size_bytes;
    return offset <= *base_bytes && size_bytes <= *base_bytes - offset;
}

bool VirtualMemory::find_reservation(uint64_t address, uint64_t& base, uint64_t& size_bytes) const {
    MutexLock lock(m_mutex);
    return reserved(address, 1, &base, &size_bytes);
}

CUresult VirtualMemory::map(uint64_t address, uint64_t size_bytes, uint64_t offset,
                            const std::shared_ptr<PhysicalMemory>& memory, uint64_t handle) {
    if (size_bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    // What is no part of the memory is not supported, wherever it is to be.
    const bool whole_chunks = size_bytes % k_chunk_bytes == 0 && offset % k_chunk_bytes == 0;
    if (!whole_chunks || offset > memory->size_bytes() || size_bytes > memory->size_bytes() - offset)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (address % k_chunk_bytes != 0) return CUDA_ERROR_INVALID_VALUE;
    uint64_t base = 0, base_bytes = 0;
    MutexLock lock(m_mutex);
    if (!reserved(address, size_bytes, &base, &base_bytes)) return CUDA_ERROR_INVALID_VALUE;
    auto next = m_mappings.upper_bound(address);
    if (next != m_mappings.end() && next->first < address + size_bytes) return CUDA_ERROR_INVALID_VALUE;
    if (next != m_mappings.begin()) {
        auto before = std::prev(next);
        if (before->first + before->second.size_bytes > address) return CUDA_ERROR_INVALID_VALUE;
    }
    if (!memory->map_at(address, size_bytes, offset)) return CUDA_ERROR_OUT_OF_MEMORY;
    m_mappings[address] = Mapping{size_bytes, handle, memory, {}};
    auto allocation = std::make_shared<Allocation>();
    allocation->address = address;
    allocation->size_bytes = size_bytes;
    allocation->kind = MemoryKind::mapped;
    allocation->device = memory->device().ordinal();
    allocation->physical = handle;
    allocation->reserved_base = base;
    allocation->reserved_bytes = base_bytes;
    allocation->readable = allocation->writable = false;
    process().addresses.insert(allocation);
    return CUDA_SUCCESS;
}

bool VirtualMemory::whole_mappings(uint64_t address, uint64_t size_bytes, Mappings::iterator& first, Mappings::iterator& last) {
    first = last = m_mappings.find(address);
    uint64_t at = address, end = address + size_bytes;
    while (at < end) {
        if (last == m_mappings.end() || last->first != at) return false;
        at += last->second.size_bytes;
        ++last;
    }
    return at == end;
}

CUresult VirtualMemory::unmap(uint64_t address, uint64_t size_bytes) {
    if (size_bytes == 0 || address + size_bytes < address) return CUDA_ERROR_INVALID_VALUE;
    Mappings gone;  // memory is given back without the lock
    MutexLock lock(m_mutex);
    Mappings::iterator first, last;
    if (!whole_mappings(address, size_bytes, first, last)) return CUDA_ERROR_INVALID_VALUE;
    for (auto mapping = first; mapping != last; ++mapping) {
        while (!mapping->second.access.empty()) {
            int device = mapping->second.access.begin()->first;
            change_access(mapping->first, mapping->second, device, CU_MEM_ACCESS_FLAGS_PROT_NONE);
            mapping->second.access.erase(device);
        }
        process().addresses.remove(mapping->first);
    }
    {
        MemoryGoing going;
        mmap(reinterpret_cast<void*>(address), size_bytes, PROT_NONE, k_reserve_flags | MAP_FIXED, -1, 0);
    }
    while (first != last) gone.insert(m_mappings.extract(first++));
    lock.unlock();
    gone.clear();
    lock.lock();
    return CUDA_SUCCESS;
}

void VirtualMemory::change_access(uint64_t address, Mapping& mapping, int device, CUmemAccess_flags flags) {
    CUmemAccess_flags& now = mapping.access[device];
    bool had = now != CU_MEM_ACCESS_FLAGS_PROT_NONE, has = flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    now = flags;
    if (had == has || device < 0) return;
    exec::Memory& memory = process().device(device)->engine().memory();
    Result<void> result =
        has ? memory.add_range(address, mapping.size_bytes) : memory.remove_range(address, mapping.size_bytes);
    if (!result) WL_LOG(error, "softgpu", "mapping {:#x}+{:#x}: {}", address, mapping.size_bytes, result.error().what);
}

CUresult VirtualMemory::set_access(uint64_t address, uint64_t size_bytes, int device, CUmemAccess_flags flags) {
    MutexLock lock(m_mutex);
    Mappings::iterator first, last;
    if (size_bytes == 0 || !whole_mappings(address, size_bytes, first, last)) return CUDA_ERROR_INVALID_VALUE;
    for (auto mapping = first; mapping != last; ++mapping) {
        change_access(mapping->first, mapping->second, device, flags);
        bool read = false, write = false;
        for (auto [who, may] : mapping->second.access) {
            read = read || (may & CU_MEM_ACCESS_FLAGS_PROT_READ) != 0;
            write = write || may == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        }
        process().addresses.set_access(mapping->first, read, write);
    }
    return CUDA_SUCCESS;
}

CUresult VirtualMemory::access(uint64_t address, int device, CUmemAccess_flags* flags) const {
    MutexLock lock(m_mutex);
    auto after = m_mappings.upper_bound(address);
    if (after == m_mappings.begin()) return CUDA_ERROR_INVALID_VALUE;
    const auto& [base, mapping] = *std::prev(after);
    if (address - base >= mapping.size_bytes) return CUDA_ERROR_INVALID_VALUE;
    auto found = mapping.access.find(device);
    *flags = found != mapping.access.end() ? found->second : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

std::shared_ptr<PhysicalMemory> VirtualMemory::memory_at(uint64_t address, uint64_t* handle) const {
    MutexLock lock(m_mutex);
    auto after = m_mappings.upper_bound(address);
    if (after == m_mappings.begin()) return nullptr;
    const auto& [base, mapping] = *std::prev(after);
    if (address - base >= mapping.size_bytes) return nullptr;
    *handle = mapping.handle;
    return mapping.memory;
}

}  // namespace warpline::softgpu::driver
