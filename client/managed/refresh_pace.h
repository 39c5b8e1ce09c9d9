// How often two sides that work beside each other are shown what the other one has written.
#pragma once

#include <chrono>
#include <cstdint>

namespace warpline::client {

/// Every 5 ms, and every millisecond where they answer one another. Not thread-safe.
class RefreshPace {
public:
    std::chrono::milliseconds pause() const { return is_quick() ? k_quick : k_slow; }
    bool is_quick() const { return m_quiet_turns < k_patience; }
    /// Something was different in this turn.
    void note_change() { m_changed = true; }
    void end_turn() {
        m_quiet_turns = m_changed ? 0 : m_quiet_turns + 1;
        m_changed = false;
    }

    static constexpr std::chrono::milliseconds k_quick{1}, k_slow{5};
    static constexpr uint64_t k_patience = 20;

private:
    uint64_t m_quiet_turns = k_patience;
    bool m_changed = false;
};

}  // namespace warpline::client
