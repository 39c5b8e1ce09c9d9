// Moves a chunk into a file that takes its place.
#include "softgpu/driver/share/exported_chunks.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "softgpu/driver/space/heap.h"
#include "softgpu/driver/space/memory_in_use.h"
#include "softgpu/exec/rounding.h"

namespace warpline::softgpu::driver {

namespace {

bool all_zero(const uint8_t* page) { return page[0] == 0 && std::memcmp(page, page + 1, k_page_bytes - 1) == 0; }

/// Pages that hold nothing stay holes of the file.
bool copy_into(const SharedFile& file, uint64_t from, uint64_t size_bytes, uint64_t offset) {
    uint64_t window = file.map_anywhere(size_bytes, offset);
    if (window == 0) return false;
    for (uint64_t at = 0; at < size_bytes; at += k_page_bytes) {
        const auto* page = reinterpret_cast<const uint8_t*>(from + at);
        if (!all_zero(page)) std::memcpy(reinterpret_cast<void*>(window + at), page, k_page_bytes);
    }
    munmap(reinterpret_cast<void*>(window), size_bytes);
    return true;
}

}  // namespace

SharedFilePtr ExportedChunks::share(const SharedOwner& owner, uint64_t chunk, uint64_t size_bytes) {
    MutexLock lock(m_mutex);
    if (auto found = m_files.find(chunk); found != m_files.end()) return found->second;
    SharedFilePtr file = SharedFile::create(SharedKind::chunk, size_bytes, owner);
    if (file == nullptr) return nullptr;
    KernelsStopped stopped;
    MemoryGoing going;
    // In steps, so that no more than a granule is there twice. A step that fails leaves memory that is as good as before.
    for (uint64_t done = 0; done < size_bytes; done += k_chunk_bytes) {
        uint64_t step = std::min(k_chunk_bytes, size_bytes - done);
        if (!copy_into(*file, chunk + done, step, done) || !file->map_at(chunk + done, step, done)) return nullptr;
    }
    m_files.emplace(chunk, file);
    return file;
}

void ExportedChunks::forget(uint64_t chunk) {
    SharedFilePtr gone;  // closed without the lock
    MutexLock lock(m_mutex);
    auto found = m_files.find(chunk);
    if (found == m_files.end()) return;
    gone = std::move(found->second);
    m_files.erase(found);
}

}  // namespace warpline::softgpu::driver
