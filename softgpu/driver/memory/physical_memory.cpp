// Physical memory: a piece of the device's store, or a file of its own that can be shared.
#include "softgpu/driver/memory/physical_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "softgpu/driver/device/device.h"
#include "softgpu/driver/device/physical_store.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

PhysicalMemory::PhysicalMemory(Device& device, uint64_t size_bytes, const CUmemAllocationProp& properties)
    : m_device(device), m_size_bytes(size_bytes), m_properties(properties) {
    // Asked for, not granted: who reads the properties back is told so.
    m_properties.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_NONE;
}

std::shared_ptr<PhysicalMemory> PhysicalMemory::create(Device& device, uint64_t size_bytes,
                                                       const CUmemAllocationProp& properties) {
    std::shared_ptr<PhysicalMemory> memory(new PhysicalMemory(device, size_bytes, properties));
    if (properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
        if (!device.charge(size_bytes)) return nullptr;
        memory->m_charged = true;
    }
    if ((properties.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0) {
        memory->m_shared = SharedFile::create(SharedKind::allocation, size_bytes, {properties.location, device.uuid()});
        return memory->m_shared != nullptr ? memory : nullptr;
    }
    memory->m_in_store = device.physical().allocate(size_bytes, &memory->m_offset);
    return memory->m_in_store ? memory : nullptr;
}

CUresult PhysicalMemory::import(int fd, std::shared_ptr<PhysicalMemory>& memory) {
    SharedFilePtr file = SharedFile::adopt(fd, SharedKind::allocation);
    if (file == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Device* device = process().device(file->device());
    if (device == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    properties.location = file->location();
    if (properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE) properties.location.id = device->ordinal();
    memory.reset(new PhysicalMemory(*device, file->data_bytes(), properties));
    memory->m_shared = std::move(file);
    return CUDA_SUCCESS;
}

PhysicalMemory::~PhysicalMemory() {
    if (m_charged) m_device.refund(m_size_bytes);
    if (m_in_store) m_device.physical().free(m_offset, m_size_bytes);
}

bool PhysicalMemory::map_at(uint64_t address, uint64_t size_bytes, uint64_t offset) const {
    if (m_shared != nullptr) return m_shared->map_at(address, size_bytes, offset);
    void* mapped = mmap(reinterpret_cast<void*>(address), size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                        m_device.physical().fd(), static_cast<off_t>(m_offset + offset));
    return mapped != MAP_FAILED;
}

int PhysicalMemory::export_fd() const { return m_shared != nullptr ? m_shared->duplicate() : -1; }

}  // namespace warpline::softgpu::driver
