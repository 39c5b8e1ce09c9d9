// What programs say about pieces of managed memory, and what they are told of it again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"

namespace warpline::cuda::abi {

/// The location that an ordinal means in calls from before there were locations: CU_DEVICE_CPU is the host.
CUmemLocation location_of(CUdevice device);

/// Whether a piece of advice says something of a place.
bool names_location(CUmem_advise advice);

/// Whether memory can be advised to be at a place.
/// @param has_device  tells of an ordinal whether a device has it
/// @errors            invalid device; invalid value: a type of place that there is not
template <typename HasDevice>
CUresult check_location(const CUmemLocation& location, HasDevice has_device) {
    switch (location.type) {
        case CU_MEM_LOCATION_TYPE_DEVICE: return has_device(location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
        case CU_MEM_LOCATION_TYPE_HOST:
        case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT: return CUDA_SUCCESS;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

/// The ranges of one call, and where each of them shall be: a location serves from its index up to that of the next one.
struct PrefetchBatch {
    const CUdeviceptr* addresses = nullptr;
    const size_t* sizes = nullptr;
    size_t count = 0;
    const CUmemLocation* locations = nullptr;
    const size_t* first_of = nullptr;  ///< of each location, the first range
    size_t location_count = 0;

    /// @param prefetch  is given each range's address, its bytes and its location, until it gives an error
    /// @errors          invalid value: no locations, more than ranges, or the first one not for the first range
    template <typename Prefetch>
    CUresult each(Prefetch prefetch) const {
        if (!locations || !first_of || location_count == 0 || location_count > count || first_of[0] != 0) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        for (size_t i = 0, at = 0; i < count; ++i) {
            if (at + 1 < location_count && first_of[at + 1] == i) ++at;
            const CUresult result = prefetch(addresses[i], sizes[i], locations[at]);
            if (result != CUDA_SUCCESS) return result;
        }
        return CUDA_SUCCESS;
    }
};

/// What cuMemAdvise and cuMemPrefetchAsync said, by whole pages of 4 KiB, and what cuMemRangeGetAttribute tells of it. The
/// ranges are managed memory: who calls has seen to that. Any thread may call.
class MemoryAdvice {
public:
    /// @param location  one that check_location() takes, if the advice names one
    /// @errors          invalid value: no such advice
    CUresult advise(uint64_t address, uint64_t size_bytes, CUmem_advise advice, const CUmemLocation& location)
        WL_EXCLUDES(m_mutex);
    void note_prefetch(uint64_t address, uint64_t size_bytes, const CUmemLocation& location) WL_EXCLUDES(m_mutex);
    /// Writes the answer for a whole range: what all its pieces agree on, else the attribute's default.
    /// @errors  invalid value: no such attribute, or `data_bytes` is not what the attribute has
    CUresult read(void* data, size_t data_bytes, CUmem_range_attribute attribute, uint64_t address, uint64_t size_bytes) const
        WL_EXCLUDES(m_mutex);
    /// The memory goes.
    void forget(uint64_t address, uint64_t size_bytes) WL_EXCLUDES(m_mutex);

private:
    struct Piece {
        bool read_mostly = false;
        CUmemLocation preferred{CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};
        CUmemLocation prefetched{CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};
        std::set<int> accessed_by;  // ordinals; CU_DEVICE_CPU for the host
    };
    struct Entry {
        uint64_t end = 0;
        Piece piece;
    };
    template <typename Change>
    void change(uint64_t address, uint64_t size_bytes, Change change) WL_EXCLUDES(m_mutex);
    std::vector<Piece> pieces_of(uint64_t address, uint64_t size_bytes) const WL_EXCLUDES(m_mutex);
    void split(uint64_t at) WL_REQUIRES(m_mutex);
    static CUmemLocation common(const std::vector<Piece>& pieces, CUmemLocation Piece::*member);
    static CUresult list_accessors(const std::vector<Piece>& pieces, void* data, size_t data_bytes);

    mutable Mutex m_mutex;
    std::map<uint64_t, Entry> m_pieces WL_GUARDED_BY(m_mutex);  // by their begin
};

}  // namespace warpline::cuda::abi
