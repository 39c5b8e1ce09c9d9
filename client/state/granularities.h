// In which steps memory can be allocated, as far as somebody has asked.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "common/base/bytes.h"
#include "common/base/mutex.h"

namespace warpline::client {

/// Answers of cuMemGetAllocationGranularity, which do not change. @thread any
class Granularities {
public:
    /// More kinds of memory than a program has.
    static constexpr size_t k_most = 256;

    /// @param properties  bytes of the CUmemAllocationProp
    std::optional<uint64_t> find(uint32_t option, BytesView properties) const {
        MutexLock lock(m_mutex);
        const auto found = m_known.find({option, Bytes(properties.begin(), properties.end())});
        return found != m_known.end() ? std::optional(found->second) : std::nullopt;
    }
    void add(uint32_t option, BytesView properties, uint64_t granularity) {
        MutexLock lock(m_mutex);
        if (m_known.size() < k_most) m_known[{option, Bytes(properties.begin(), properties.end())}] = granularity;
    }

private:
    mutable Mutex m_mutex;
    std::map<std::pair<uint32_t, Bytes>, uint64_t> m_known WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::client
