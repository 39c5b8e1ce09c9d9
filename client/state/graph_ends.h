// What nodes of graphs have of the program, by the server's numbers for it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "client/state/copy_target.h"
#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"

namespace warpline::client {

/// One end of a graph's copy in the program's memory: its rows, and how the program described it.
struct GraphEnd {
    CopyTarget rows;
    const void* host = nullptr;
    size_t x = 0, y = 0, z = 0, pitch = 0, height = 0;

    /// From the first to the last byte that the rows touch.
    uint64_t span_bytes() const {
        return (rows.slices - 1) * rows.slice_pitch_bytes + (rows.rows - 1) * rows.pitch_bytes + rows.row_bytes;
    }
};

/// What nodes of graphs have of the program, by the numbers under which the server knows it: host copies and host functions.
class GraphEnds {
public:
    using Function = std::pair<CUhostFn, void*>;

    void add_source(uint64_t id, const GraphEnd& end) WL_EXCLUDES(m_mutex) { add(m_sources, id, end); }
    void add_target(uint64_t number, const GraphEnd& end) WL_EXCLUDES(m_mutex) { add(m_targets, number, end); }
    void add_function(uint64_t id, const Function& function) WL_EXCLUDES(m_mutex) { add(m_functions, id, function); }
    void remove_source(uint64_t id) WL_EXCLUDES(m_mutex) { remove(m_sources, id); }
    void remove_target(uint64_t number) WL_EXCLUDES(m_mutex) { remove(m_targets, number); }
    void remove_function(uint64_t id) WL_EXCLUDES(m_mutex) { remove(m_functions, id); }
    size_t size() const WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        return m_sources.size() + m_targets.size() + m_functions.size();
    }
    std::optional<GraphEnd> source(uint64_t id) const WL_EXCLUDES(m_mutex) { return find(m_sources, id); }
    std::optional<GraphEnd> target(uint64_t number) const WL_EXCLUDES(m_mutex) { return find(m_targets, number); }
    std::optional<Function> function(uint64_t id) const WL_EXCLUDES(m_mutex) { return find(m_functions, id); }
    /// True if a copy of a graph reads or writes any of this memory.
    bool meets(uint64_t address, uint64_t size_bytes) const WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        const auto spans = [&](const auto& end) { return end.second.rows.spans(address, size_bytes); };
        return std::any_of(m_sources.begin(), m_sources.end(), spans) || std::any_of(m_targets.begin(), m_targets.end(), spans);
    }
    /// True once there is any: graphs are the server's business alone before.
    bool any() const { return m_any.load(std::memory_order_acquire); }

private:
    template <typename T>
    void add(std::map<uint64_t, T>& map, uint64_t id, const T& value) {
        MutexLock lock(m_mutex);
        map.insert_or_assign(id, value);
        m_any.store(true, std::memory_order_release);
    }
    template <typename T>
    void remove(std::map<uint64_t, T>& map, uint64_t id) {
        MutexLock lock(m_mutex);
        map.erase(id);
    }
    template <typename T>
    std::optional<T> find(const std::map<uint64_t, T>& map, uint64_t id) const {
        MutexLock lock(m_mutex);
        const auto found = map.find(id);
        return found != map.end() ? std::make_optional(found->second) : std::nullopt;
    }

    std::atomic<bool> m_any{false};
    mutable Mutex m_mutex;  // protects the maps; their users know which
    std::map<uint64_t, GraphEnd> m_sources;
    std::map<uint64_t, GraphEnd> m_targets;
    std::map<uint64_t, Function> m_functions;
};

}  // namespace warpline::client
