// Maps other processes' files, and counts who uses them.
#include "softgpu/driver/memory/imported_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "softgpu/driver/process/process.h"
#include "softgpu/driver/space/memory_in_use.h"
#include "softgpu/exec/rounding.h"

namespace warpline::softgpu::driver {

CUresult map_imported(const SharedFile& file, uint64_t offset, uint64_t size_bytes, const AllocationPtr& described) {
    if (size_bytes == 0 || offset > file.data_bytes() || size_bytes > file.data_bytes() - offset)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t into_page = offset % k_page_bytes;
    uint64_t mapped = file.map_anywhere(round_up(into_page + size_bytes, k_page_bytes), offset - into_page);
    if (mapped == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    described->address = mapped + into_page;
    described->size_bytes = size_bytes;
    process().addresses.insert(described);
    // Exactly these bytes: what lies beside them is the other process's.
    process().ranges.add(described->device, described->address, size_bytes);
    return CUDA_SUCCESS;
}

void unmap_imported(const Allocation& allocation) {
    process().ranges.remove(allocation.address);
    uint64_t into_page = allocation.address % k_page_bytes;
    MemoryGoing going;
    munmap(reinterpret_cast<void*>(allocation.address - into_page), round_up(into_page + allocation.size_bytes, k_page_bytes));
}

ImportedMemory& ImportedMemory::instance() {
    static auto* memory = new ImportedMemory;  // leaked on purpose: calls come after static destructors
    return *memory;
}

CUresult ImportedMemory::open(const ExportedMemory& exported, const Device& accessor, CUcontext owner, Again again,
                              uint64_t* address) {
    if (exported.magic != ExportedMemory::k_magic || exported.reserved != 0) return CUDA_ERROR_INVALID_HANDLE;
    auto handle = reinterpret_cast<uint64_t>(owner);
    Key key{exported.file[0], exported.file[1], exported.offset, exported.allocation, handle};
    MutexLock lock(m_mutex);
    if (auto found = m_opened.find(key); found != m_opened.end()) {
        if (again == Again::refused) return CUDA_ERROR_ALREADY_MAPPED;
        ++found->second.uses;
        *address = found->second.address;
        return CUDA_SUCCESS;
    }
    SharedFilePtr file = SharedFile::open(exported.pid, exported.fd, SharedKind::chunk, exported.file);
    if (file == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (exported.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
    Device* device = process().device(file->device());
    if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    auto allocation = std::make_shared<Allocation>();
    allocation->kind = MemoryKind::imported;
    allocation->device = device->ordinal();
    allocation->context = handle;
    CUresult result = map_imported(*file, exported.offset, exported.size_bytes, allocation);
    if (result == CUDA_ERROR_INVALID_VALUE) return CUDA_ERROR_INVALID_HANDLE;
    if (result != CUDA_SUCCESS) return CUDA_ERROR_MAP_FAILED;
    Opened opened{allocation->address, 1, accessor.ordinal(), device->ordinal()};
    process().ranges.allow_peer(opened.accessor, opened.owner);
    m_opened.emplace(key, opened);
    *address = opened.address;
    return CUDA_SUCCESS;
}

CUresult ImportedMemory::release(uint64_t address, bool* last) {
    MutexLock lock(m_mutex);
    auto found =
        std::find_if(m_opened.begin(), m_opened.end(), [address](const auto& at) { return at.second.address == address; });
    if (found == m_opened.end() || found->second.uses == 0) return CUDA_ERROR_INVALID_VALUE;
    *last = --found->second.uses == 0;
    if (*last) {
        process().ranges.deny_peer(found->second.accessor, found->second.owner);
        m_opened.erase(found);
    }
    return CUDA_SUCCESS;
}

void ImportedMemory::close(const Allocation& allocation) {
    {
        MutexLock lock(m_mutex);
        auto found = std::find_if(m_opened.begin(), m_opened.end(),
                                  [&](const auto& at) { return at.second.address == allocation.address; });
        if (found != m_opened.end()) {
            process().ranges.deny_peer(found->second.accessor, found->second.owner);
            m_opened.erase(found);
        }
    }
    unmap_imported(allocation);
}

}  // namespace warpline::softgpu::driver
