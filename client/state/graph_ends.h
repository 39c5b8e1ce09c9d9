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

/// What nodes of graphs have of the program, by the numbers under which the server knows it: copies with one end in its memory,
/// its functions, and functions of ours that stand for copies within its memory.
class GraphEnds {
public:
    using Function = std::pair<CUhostFn, void*>;

    void add_source(uint64_t id, const GraphEnd& end) WL_EXCLUDES(m_mutex) { add(m_sources, id, end); }
    void add_target(uint64_t number, const GraphEnd& end) WL_EXCLUDES(m_mutex) { add(m_targets, number, end); }
    void add_function(uint64_t id, const Function& function) WL_EXCLUDES(m_mutex) { add(m_functions, id, function); }
    /// @param told  what the program is told of the node
    void add_host_copy(uint64_t id, const CUDA_MEMCPY3D& told) WL_EXCLUDES(m_mutex) {
        add(m_host_copies, id, told);
        m_any_host_copies.store(true, std::memory_order_release);
    }
    void remove_source(uint64_t id) WL_EXCLUDES(m_mutex) { remove(m_sources, id); }
    void remove_target(uint64_t number) WL_EXCLUDES(m_mutex) { remove(m_targets, number); }
    /// The program's, or one that stands for a copy.
    void remove_function(uint64_t id) WL_EXCLUDES(m_mutex) {
        remove(m_functions, id);
        remove(m_host_copies, id);
    }
    size_t size() const WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        return m_sources.size() + m_targets.size() + m_functions.size() + m_host_copies.size();
    }
    std::optional<GraphEnd> source(uint64_t id) const WL_EXCLUDES(m_mutex) { return find(m_sources, id); }
    std::optional<GraphEnd> target(uint64_t number) const WL_EXCLUDES(m_mutex) { return find(m_targets, number); }
    std::optional<Function> function(uint64_t id) const WL_EXCLUDES(m_mutex) { return find(m_functions, id); }
    std::optional<CUDA_MEMCPY3D> host_copy(uint64_t id) const WL_EXCLUDES(m_mutex) { return find(m_host_copies, id); }
    /// True if a copy of a graph with the device's memory reads or writes any of this.
    bool meets(uint64_t address, uint64_t size_bytes) const WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        const auto spans = [&](const auto& end) { return end.second.rows.spans(address, size_bytes); };
        return std::any_of(m_sources.begin(), m_sources.end(), spans) || std::any_of(m_targets.begin(), m_targets.end(), spans);
    }
    /// True once there is any: graphs are the server's business alone before.
    bool any() const { return m_any.load(std::memory_order_acquire); }
    /// True once a node has stood for a copy within the program's memory.
    bool any_host_copies() const { return m_any_host_copies.load(std::memory_order_acquire); }

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

    std::atomic<bool> m_any{false}, m_any_host_copies{false};
    mutable Mutex m_mutex;  // protects the maps; their users know which
    std::map<uint64_t, GraphEnd> m_sources;
    std::map<uint64_t, GraphEnd> m_targets;
    std::map<uint64_t, Function> m_functions;
    std::map<uint64_t, CUDA_MEMCPY3D> m_host_copies;
};

}  // namespace warpline::client
