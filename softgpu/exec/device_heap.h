// malloc() and free() of device code.
#pragma once

#include <cstdint>
#include <map>

#include "common/base/mutex.h"
#include "softgpu/exec/memory.h"

namespace warpline::softgpu::exec {

/// The heap behind malloc() and free() in device code: one range of device memory, made when it is first used.
class DeviceHeap {
public:
    DeviceHeap(MemoryImpl& memory, uint64_t size_bytes) : m_memory(memory), m_size(size_bytes) {}
    ~DeviceHeap();

    /// Takes effect if nothing has been allocated yet.
    void set_size(uint64_t size_bytes);
    /// Address of size_bytes bytes, aligned to 16; 0 if the heap is full.
    uint64_t allocate(uint64_t size_bytes);
    /// False if `address` is not allocated. Null is fine.
    bool free(uint64_t address);

private:
    MemoryImpl& m_memory;
    Mutex m_mutex;
    uint64_t m_size WL_GUARDED_BY(m_mutex);
    uint64_t m_base WL_GUARDED_BY(m_mutex) = 0;
    std::map<uint64_t, uint64_t> m_free WL_GUARDED_BY(m_mutex);  ///< begin -> size
    std::map<uint64_t, uint64_t> m_used WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::softgpu::exec
