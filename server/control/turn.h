// Whose turn it is, while more sessions are at work than processors serve well at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace warpline::server {

/// What supervisor and worker tell each other of a session's turn, in memory that both have mapped. A worker that writes what
/// it likes there gets a turn that others would have had, or takes one that it was not given, and no more.
struct TurnCell {
    std::atomic<uint32_t> is_over;  ///< written by the supervisor: others have their turn
    std::atomic<uint32_t> waits;    ///< written by the worker: it has calls to execute, and waits for its turn
};

/// The supervisor's side. @blocks no
void give_turn(TurnCell& cell);
inline void take_turn(TurnCell& cell) { cell.is_over.store(1, std::memory_order_relaxed); }

/// The worker's side.
class Turn {
public:
    /// How long a worker waits for a supervisor that does not come to it. Then it goes on, whosesoever turn it is.
    static constexpr std::chrono::milliseconds k_patience{10'000};

    explicit Turn(TurnCell& cell, std::chrono::milliseconds patience = k_patience) : m_cell(cell), m_patience(patience) {}

    /// @thread any @blocks no
    bool is_over() const { return m_cell.is_over.load(std::memory_order_relaxed) != 0 && !m_waits_no_more.load(); }
    /// Waits for the next one. @blocks until then, and no longer than the patience @thread one at a time
    void await();
    /// From now on nobody waits. @thread any @blocks no
    void wait_no_more();

private:
    TurnCell& m_cell;
    const std::chrono::milliseconds m_patience;
    std::atomic<bool> m_waits_no_more{false};
};

}  // namespace warpline::server
