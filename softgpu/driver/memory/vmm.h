// The addresses that programs reserve and map into.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"

namespace warpline::softgpu::driver {

class PhysicalMemory;

/// Address reservations and what is mapped into them. One per process; any thread may call.
class VirtualMemory {
public:
    static VirtualMemory& instance();

    /// Reserves addresses without memory: at `hint` if it is free, else anywhere.
    CUresult reserve(uint64_t size_bytes, uint64_t alignment_bytes, uint64_t hint, uint64_t* address);
    CUresult release(uint64_t address, uint64_t size_bytes);
    CUresult map(uint64_t address, uint64_t size_bytes, uint64_t offset, const std::shared_ptr<PhysicalMemory>& memory,
                 uint64_t handle);
    /// Takes away every mapping in a range, which must not cut one in two. The caller has waited for the device.
    CUresult unmap(uint64_t address, uint64_t size_bytes);
    /// Sets what a device may do with the mappings in a range. `device` -1: the host.
    CUresult set_access(uint64_t address, uint64_t size_bytes, int device, CUmemAccess_flags flags);
    CUresult access(uint64_t address, int device, CUmemAccess_flags* flags) const;
    /// The memory that is mapped at an address, and its handle; null if there is none.
    std::shared_ptr<PhysicalMemory> memory_at(uint64_t address, uint64_t* handle) const;
    /// The reservation in which an address lies. False: none.
    bool find_reservation(uint64_t address, uint64_t& base, uint64_t& size_bytes) const;

private:
    struct Mapping {
        uint64_t size_bytes = 0;
        uint64_t handle = 0;
        std::shared_ptr<PhysicalMemory> memory;  // shared: the memory lives as long as it is mapped
        std::map<int, CUmemAccess_flags> access;
    };
    using Mappings = std::map<uint64_t, Mapping>;
    struct Reservation {
        uint64_t size_bytes = 0;
        bool has_front = false;  ///< kernels reach k_chunk_bytes before it (DB-18)
    };
    /// True if [address, address + size) lies in one reservation.
    bool reserved(uint64_t address, uint64_t size_bytes, uint64_t* base, uint64_t* base_bytes) const WL_REQUIRES(m_mutex);
    /// The mappings that fill a range without gaps and without going beyond it; false if they do not.
    bool whole_mappings(uint64_t address, uint64_t size_bytes, Mappings::iterator& first, Mappings::iterator& last)
        WL_REQUIRES(m_mutex);
    void change_access(uint64_t address, Mapping& mapping, int device, CUmemAccess_flags flags) WL_REQUIRES(m_mutex);

    mutable Mutex m_mutex;
    std::map<uint64_t, Reservation> m_reservations WL_GUARDED_BY(m_mutex);  // by address
    Mappings m_mappings WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::softgpu::driver
