// The file that physical memory is pieces of.
#include "softgpu/driver/device/physical_store.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/file_size.h"

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
    if (m_free.take(size_bytes, offset)) return true;
    if (!resize_file(m_fd, m_end + size_bytes)) return false;
    *offset = m_end;
    m_end += size_bytes;
    return true;
}

void PhysicalStore::free(uint64_t offset, uint64_t size_bytes) {
    MutexLock lock(m_mutex);
    fallocate(m_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(size_bytes));
    m_free.put(offset, size_bytes);
}

}  // namespace warpline::softgpu::driver
