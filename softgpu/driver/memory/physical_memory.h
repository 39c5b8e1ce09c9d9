// Physical memory, which programs map themselves.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "cuda/abi/cuda_types.h"
#include "softgpu/driver/share/shared_file.h"

namespace warpline::softgpu::driver {

class Device;

/// What cuMemCreate makes. Lives until it is released and no longer mapped.
class PhysicalMemory {
public:
    /// Null if the device is full.
    static std::shared_ptr<PhysicalMemory> create(Device& device, uint64_t size_bytes, const CUmemAllocationProp& properties);
    /// From a descriptor that a process exported, this or another. Errors: invalid value (it is no such memory), not supported
    /// (this process does not have the device).
    static CUresult import(int fd, std::shared_ptr<PhysicalMemory>& memory);
    ~PhysicalMemory();

    uint64_t size_bytes() const { return m_size_bytes; }
    Device& device() const { return m_device; }
    const CUmemAllocationProp& properties() const { return m_properties; }
    /// Makes [offset, offset + size) appear at an address, in place of what is there.
    bool map_at(uint64_t address, uint64_t size_bytes, uint64_t offset) const;
    /// A new descriptor for the memory, or -1. Only for memory that was created to be shared.
    int export_fd() const;

    /// References by handle: cuMemCreate and cuMemRetainAllocationHandle add one, cuMemRelease takes one.
    std::atomic<uint32_t> handle_references{1};

private:
    PhysicalMemory(Device& device, uint64_t size_bytes, const CUmemAllocationProp& properties);

    Device& m_device;
    const uint64_t m_size_bytes;
    CUmemAllocationProp m_properties;
    SharedFilePtr m_shared;  // shareable memory has its own file
    uint64_t m_offset = 0;
    bool m_charged = false;   // against the device's size
    bool m_in_store = false;  // a piece of the device's store, at m_offset
};

}  // namespace warpline::softgpu::driver
