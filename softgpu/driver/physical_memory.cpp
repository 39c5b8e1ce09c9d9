#include "softgpu/driver/physical_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <iterator>

#include "softgpu/driver/device.h"

namespace warpline::softgpu::driver {

PhysicalStore::~PhysicalStore() {
    if (m_fd >= 0) close(m_fd);
}

int PhysicalStore::fd() const {
    MutexLock lock(m_mutex);
    return m_fd;
}

bool PhysicalStore::allocate(uint64_t size_bytes, uint64_t* offset) {
    MutexLock lock(m_mutex);
    if (m_fd < 0) m_fd = memfd_create("softgpu-memory", MFD_CLOEXEC);
    if (m_fd < 0) return false;
    for (auto piece = m_free.begin(); piece != m_free.end(); ++piece) {
        if (piece->second < size_bytes) continue;
        *offset = piece->first;
        uint64_t left = piece->second - size_bytes;
        m_free.erase(piece);
        if (left != 0) m_free.emplace(*offset + size_bytes, left);
        return true;
    }
    if (ftruncate(m_fd, static_cast<off_t>(m_end + size_bytes)) != 0) return false;
    *offset = m_end;
    m_end += size_bytes;
    return true;
}

void PhysicalStore::free(uint64_t offset, uint64_t size_bytes) {
    MutexLock lock(m_mutex);
    fallocate(m_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(size_bytes));
    auto piece = m_free.emplace(offset, size_bytes).first;
    auto next = std::next(piece);
    if (next != m_free.end() && offset + size_bytes == next->first) {
        piece->second += next->second;
        m_free.erase(next);
    }
    if (piece == m_free.begin()) return;
    auto before = std::prev(piece);
    if (before->first + before->second != offset) return;
    before->second += piece->second;
    m_free.erase(piece);
}

PhysicalMemory::PhysicalMemory(Device& device, uint64_t size_bytes, const CUmemAllocationProp& properties)
    : m_device(device), m_size_bytes(size_bytes), m_properties(properties) {}

std::shared_ptr<PhysicalMemory> PhysicalMemory::create(Device& device, uint64_t size_bytes,
                                                       const CUmemAllocationProp& properties) {
    std::shared_ptr<PhysicalMemory> memory(new PhysicalMemory(device, size_bytes, properties));
    if (properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
        if (!device.charge(size_bytes)) return nullptr;
        memory->m_charged = true;
    }
    if ((properties.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0) {
        memory->m_own_fd = memfd_create("softgpu-shared", MFD_CLOEXEC);
        if (memory->m_own_fd < 0 || ftruncate(memory->m_own_fd, static_cast<off_t>(size_bytes)) != 0) return nullptr;
        return memory;
    }
    memory->m_in_store = device.physical().allocate(size_bytes, &memory->m_offset);
    return memory->m_in_store ? memory : nullptr;
}

std::shared_ptr<PhysicalMemory> PhysicalMemory::import(Device& device, int fd) {
    struct stat status {};
    if (fstat(fd, &status) != 0 || status.st_size <= 0 || fcntl(fd, F_GET_SEALS) < 0) return nullptr;
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device.ordinal()};
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0) return nullptr;
    std::shared_ptr<PhysicalMemory> memory(new PhysicalMemory(device, static_cast<uint64_t>(status.st_size), properties));
    memory->m_own_fd = own;
    return memory;
}

PhysicalMemory::~PhysicalMemory() {
    if (m_charged) m_device.refund(m_size_bytes);
    if (m_own_fd >= 0) close(m_own_fd);
    if (m_in_store) m_device.physical().free(m_offset, m_size_bytes);
}

bool PhysicalMemory::map_at(uint64_t address, uint64_t size_bytes, uint64_t offset) const {
    int fd = m_own_fd >= 0 ? m_own_fd : m_device.physical().fd();
    void* mapped = mmap(reinterpret_cast<void*>(address), size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                        static_cast<off_t>(m_offset + offset));
    return mapped != MAP_FAILED;
}

int PhysicalMemory::export_fd() const { return m_own_fd >= 0 ? fcntl(m_own_fd, F_DUPFD_CLOEXEC, 0) : -1; }

}  // namespace warpline::softgpu::driver
