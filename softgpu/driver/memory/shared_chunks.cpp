// Chunks as pieces of a shared file.
#include "softgpu/driver/memory/shared_chunks.h"

#include <sys/mman.h>

#include <iterator>

#include "softgpu/driver/device/device.h"
#include "softgpu/driver/space/memory_in_use.h"

namespace warpline::softgpu::driver {

SharedChunks::SharedChunks(Device& device, SharedFilePtr file) : m_device(device), m_file(std::move(file)) {
    m_free.put(0, m_file->data_bytes());
}

bool SharedChunks::offset_of(uint64_t address, uint64_t* offset) const {
    MutexLock lock(m_mutex);
    auto after = m_chunks.upper_bound(address);
    if (after == m_chunks.begin()) return false;
    const auto& [start, chunk] = *std::prev(after);
    if (address - start >= chunk.size_bytes) return false;
    *offset = chunk.offset + (address - start);
    return true;
}

uint64_t SharedChunks::take_chunk(uint64_t size_bytes) {
    if (!m_device.charge(size_bytes)) return 0;
    MutexLock lock(m_mutex);
    Chunk chunk{0, size_bytes};
    uint64_t address = m_free.take(size_bytes, &chunk.offset) ? Device::reserve(size_bytes) : 0;
    if (address == 0 || !m_file->map_at(address, size_bytes, chunk.offset)) {
        if (address != 0) munmap(reinterpret_cast<void*>(address), size_bytes);
        m_device.refund(size_bytes);
        return 0;
    }
    m_chunks.emplace(address, chunk);
    if (!m_device.config().exact_bounds) m_device.ranges().add(m_device.ordinal(), address, size_bytes);
    return address;
}

void SharedChunks::give_chunk(uint64_t address, uint64_t size_bytes) {
    if (!m_device.config().exact_bounds) m_device.ranges().remove(address);
    {
        MemoryGoing going;
        munmap(reinterpret_cast<void*>(address), size_bytes);
    }
    {
        MutexLock lock(m_mutex);
        auto chunk = m_chunks.extract(address);
        m_file->discard(chunk.mapped().offset, size_bytes);
        m_free.put(chunk.mapped().offset, size_bytes);
    }
    m_device.refund(size_bytes);
}

}  // namespace warpline::softgpu::driver
