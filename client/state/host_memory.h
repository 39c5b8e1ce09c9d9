// The host memory that CUDA knows of.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "common/base/mutex.h"

namespace warpline::client {

enum class HostOrigin : uint8_t { allocated, registered };

/// Host memory that the program asked CUDA for, or told CUDA about. It is ordinary memory of this process: copies to and from
/// it are staged by the protocol.
struct HostRange {
    uint64_t base = 0;
    uint64_t size_bytes = 0;
    uint64_t context = 0;
    uint64_t buffer_id = 0;
    unsigned flags = 0;
    HostOrigin origin = HostOrigin::allocated;
    int device = 0;
};

class HostMemory {
public:
    /// Page-aligned, zeroed memory; nullptr if there is none.
    void* allocate(uint64_t size_bytes, uint64_t context, int device, unsigned flags) WL_EXCLUDES(m_mutex);
    /// False if the address is not the start of an allocation.
    bool free(void* address) WL_EXCLUDES(m_mutex);

    enum class Registered : uint8_t { ok, overlaps };
    Registered register_range(HostRange range) WL_EXCLUDES(m_mutex);
    bool unregister(void* address) WL_EXCLUDES(m_mutex);

    /// The range that contains the address.
    std::optional<HostRange> find(uint64_t address) const WL_EXCLUDES(m_mutex);

private:
    std::map<uint64_t, HostRange>::const_iterator containing(uint64_t address) const WL_REQUIRES(m_mutex);

    mutable Mutex m_mutex;  // protects the ranges
    std::map<uint64_t, HostRange> m_ranges WL_GUARDED_BY(m_mutex);
    uint64_t m_next_buffer_id WL_GUARDED_BY(m_mutex) = 1ull << 40;  // apart from those of device memory
};

}  // namespace warpline::client
