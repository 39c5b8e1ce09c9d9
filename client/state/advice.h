// What programs said about pieces of managed memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"

namespace warpline::client {

/// What cuMemAdvise and cuMemPrefetchAsync said, by whole pages: for cuMemRangeGetAttribute. Any thread may call.
class Advice {
public:
    struct Piece {
        bool read_mostly = false;
        CUmemLocation preferred{CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};
        CUmemLocation prefetched{CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};
        std::set<int> accessed_by;  ///< ordinals; CU_DEVICE_CPU for the host
    };
    /// Applies a change to all pieces of a range.
    template <typename Change>
    void change(uint64_t address, uint64_t size_bytes, Change change) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        const uint64_t begin = address / k_page * k_page, end = (address + size_bytes + k_page - 1) / k_page * k_page;
        split(begin);
        split(end);
        for (uint64_t at = begin; at < end;) {
            const auto found = m_pieces.lower_bound(at);
            if (found == m_pieces.end() || found->first > at) {
                const uint64_t until = found == m_pieces.end() ? end : std::min(end, found->first);
                change(m_pieces.emplace(at, Entry{until, {}}).first->second.piece);
                at = until;
            } else {
                change(found->second.piece);
                at = found->second.end;
            }
        }
    }
    /// Of each piece of a range; what was never spoken of is a piece without advice.
    std::vector<Piece> read(uint64_t address, uint64_t size_bytes) const WL_EXCLUDES(m_mutex);
    void forget(uint64_t address, uint64_t size_bytes) WL_EXCLUDES(m_mutex);

private:
    static constexpr uint64_t k_page = 4096;
    struct Entry {
        uint64_t end = 0;
        Piece piece;
    };
    void split(uint64_t at) WL_REQUIRES(m_mutex);

    mutable Mutex m_mutex;
    std::map<uint64_t, Entry> m_pieces WL_GUARDED_BY(m_mutex);  // by their begin
};

}  // namespace warpline::client
