// What programs said about managed memory.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"

namespace warpline::softgpu::driver {

/// What cuMemAdvise and cuMemPrefetchAsync said about pieces of managed memory. It changes nothing but what
/// cuMemRangeGetAttribute answers, because host and devices share the memory. Any thread may call.
class AdviceMap {
public:
    struct Advice {
        bool read_mostly = false;
        CUmemLocation preferred{CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};
        CUmemLocation prefetched{CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};
        std::set<int> accessed_by;  // ordinals, CU_DEVICE_CPU for the host
    };
    static AdviceMap& instance();

    template <typename Change>
    void change(uint64_t address, uint64_t size_bytes, Change change) {
        MutexLock lock(m_mutex);
        for (Advice* advice : pieces(address, address + size_bytes)) change(*advice);
    }
    /// The advice for each piece of a range; pieces without any are defaults.
    std::vector<Advice> read(uint64_t address, uint64_t size_bytes) const;
    void forget(uint64_t address, uint64_t size_bytes);

private:
    struct Piece {
        uint64_t end = 0;
        Advice advice;
    };
    void split(uint64_t at) WL_REQUIRES(m_mutex);
    std::vector<Advice*> pieces(uint64_t begin, uint64_t end) WL_REQUIRES(m_mutex);

    mutable Mutex m_mutex;
    std::map<uint64_t, Piece> m_pieces WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::softgpu::driver
