// Streams that wait for what the program may do later.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "common/base/mutex.h"

namespace warpline::client {

/// False if work that a stream is given now comes before or beside work of another one, as streams have it.
/// @param stream, earlier_stream  tokens
/// @param number  of the call that gave the other one its work @param joined  the newest call that may have made streams wait
/// for each other
constexpr bool may_come_behind(uint64_t stream, uint64_t earlier_stream, uint64_t number, uint64_t joined) {
    constexpr uint64_t k_special = 2;  // default streams, for which others wait
    const bool is_apart = number >= joined && earlier_stream > k_special && stream > k_special;
    return !is_apart || earlier_stream == stream;
}

/// Waits for values in memory that streams were given: the program may write the value at any time, and before it what comes
/// behind the wait.
///
/// @thread  any
class Gates {
public:
    struct Gate {
        uint64_t stream = 0;   ///< token
        uint64_t scope = 0;    ///< token of the context whose stream that is, if it is a default one
        uint64_t context = 0;  ///< token of that in which the work is done
        uint64_t number = 0;   ///< of the call
    };

    /// A graph has such waits: whoever launches one may give its stream some from now on.
    void note_in_graph() { m_in_graphs.store(true, std::memory_order_release); }
    bool any_in_graphs() const { return m_in_graphs.load(std::memory_order_acquire); }

    /// The last one of its stream.
    void add(const Gate& gate) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        std::erase_if(m_gates, [&](const Gate& known) { return known.stream == gate.stream && known.scope == gate.scope; });
        m_gates.push_back(gate);
        m_count.store(m_gates.size(), std::memory_order_release);
    }
    /// True if `holds(gate)` is of any; those of which `is_over(gate)` is are forgotten.
    template <typename IsOver, typename Holds>
    bool any(IsOver&& is_over, Holds&& holds) WL_EXCLUDES(m_mutex) {
        if (m_count.load(std::memory_order_acquire) == 0) [[likely]]
            return false;
        MutexLock lock(m_mutex);
        std::erase_if(m_gates, is_over);
        m_count.store(m_gates.size(), std::memory_order_release);
        return std::any_of(m_gates.begin(), m_gates.end(), holds);
    }

private:
    std::atomic<bool> m_in_graphs{false};
    std::atomic<size_t> m_count{0};  // written under the mutex, read without it
    Mutex m_mutex;
    std::vector<Gate> m_gates WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::client
