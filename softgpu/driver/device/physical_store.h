// Where a device's physical memory comes from.
#pragma once

#include <cstdint>

#include "common/base/mutex.h"
#include "softgpu/driver/space/pieces.h"

namespace warpline::softgpu::driver {

/// The physical memory of a device behind the calls of virtual memory management: one sparse file in memory, so that the same
/// bytes can be mapped at several addresses without a file descriptor for each allocation. Any thread may call.
class PhysicalStore {
public:
    PhysicalStore() = default;
    ~PhysicalStore();

    /// A piece of the file; false if the file cannot be made or grown.
    bool allocate(uint64_t size_bytes, uint64_t* offset);
    /// The bytes are given back to the machine and read as zeros when they are allocated again.
    void free(uint64_t offset, uint64_t size_bytes);
    int fd() const;

private:
    mutable Mutex m_mutex;
    int m_fd WL_GUARDED_BY(m_mutex) = -1;
    uint64_t m_end WL_GUARDED_BY(m_mutex) = 0;
    Pieces m_free WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::softgpu::driver
