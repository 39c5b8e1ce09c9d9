// Pools whose memory other processes map.
#include <bit>

#include "softgpu/driver/memory/checks.h"
#include "softgpu/driver/memory/imported_memory.h"
#include "softgpu/driver/memory/memory_pool.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

constexpr uint64_t k_pointer_magic = 0x31726574'6e696f50;

/// What CUmemPoolPtrExportData holds.
struct ExportedPointer {
    uint64_t magic = k_pointer_magic;
    SharedId pool{};
    uint64_t offset = 0, size_bytes = 0;
    uint64_t reserved[3]{};
};
static_assert(sizeof(ExportedPointer) == sizeof(CUmemPoolPtrExportData));

}  // namespace

std::shared_ptr<MemoryPool> MemoryPool::create(Device& device, const CUmemPoolProps& properties) {
    if (properties.handleTypes == CU_MEM_HANDLE_TYPE_NONE) return std::make_shared<MemoryPool>(device, properties, false);
    uint64_t bytes = round_up(device.total_bytes(), k_chunk_bytes);
    SharedFilePtr file = SharedFile::create(SharedKind::pool, bytes, {properties.location, device.uuid()});
    return file != nullptr ? std::make_shared<MemoryPool>(device, properties, std::move(file), false) : nullptr;
}

CUresult MemoryPool::import(int fd, std::shared_ptr<MemoryPool>& pool) {
    SharedFilePtr file = SharedFile::adopt(fd, SharedKind::pool);
    if (file == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Device* device = process().device(file->device());
    if (device == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device->ordinal()};
    pool = std::make_shared<MemoryPool>(*device, properties, std::move(file), true);
    return CUDA_SUCCESS;
}

int MemoryPool::export_fd() {
    const int fd = m_chunks != nullptr ? m_chunks->file()->duplicate() : -1;
    if (fd >= 0) m_exported = true;
    return fd;
}

CUresult MemoryPool::export_pointer(const Allocation& allocation, CUmemPoolPtrExportData* data) const {
    ExportedPointer pointer;
    if (m_imported || !m_exported.load() || !m_chunks->offset_of(allocation.address, &pointer.offset)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pointer.pool = m_chunks->file()->id();
    pointer.size_bytes = allocation.size_bytes;
    note_shared(allocation.address);
    *data = std::bit_cast<CUmemPoolPtrExportData>(pointer);
    return CUDA_SUCCESS;
}

CUresult MemoryPool::import_pointer(const CUmemPoolPtrExportData& data, AllocationPtr& allocation) {
    const auto pointer = std::bit_cast<ExportedPointer>(data);
    if (!m_imported || pointer.magic != k_pointer_magic || pointer.pool != m_chunks->file()->id())
        return CUDA_ERROR_INVALID_VALUE;
    allocation = std::make_shared<Allocation>();
    allocation->kind = MemoryKind::pool;
    allocation->device = m_device.ordinal();
    allocation->pool = m_handle;
    CU_TRY(map_imported(*m_chunks->file(), pointer.offset, pointer.size_bytes, allocation));
    m_used += pointer.size_bytes;
    return CUDA_SUCCESS;
}

}  // namespace warpline::softgpu::driver
