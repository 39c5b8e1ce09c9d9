#pragma once

// What comes over several connections, and takes effect in the order of one. The only place that decides when it does. Pure: no
// clock, no lock, no socket; tests/unit/protocol/lanes_model_test.cpp explores it exhaustively.

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include "common/base/result.h"
#include "protocol/codec/preamble.h"

namespace warpline::protocol {

/// The order of effects at the receiver of a session: items of the command lane take effect in their order, and one that tells
/// of a payload not before the parts of it have arrived, over whichever lane. Whoever takes an item asks has_arrived() or
/// is_in_hand(), and if it has to wait, it and all behind it wait here.
///
/// @thread  one at a time
template <typename Item>
class ArrivalOrder {
public:
    struct Limits {
        uint64_t waiting_bytes = 64u << 20;  ///< of items that wait for parts, or for the lane of some to come back: see full()
        size_t payloads = 65536;             ///< of which parts have arrived, and nothing has told of them
    };

    ArrivalOrder() = default;
    explicit ArrivalOrder(Limits limits) : m_limits(limits) {}

    /// An item of the command lane. `take(Item&)` returns whether it took effect; if not, it leaves the item as it is.
    /// @param bytes  that it takes while it waits @errors  those of `take`
    template <typename Take>
    Result<void> arrived(Item item, uint64_t bytes, Take&& take) {
        if (m_waiting.empty() && WL_TRY(take(item))) return {};
        m_waiting_bytes += bytes;
        if (m_waiting_bytes > k_moving_factor * m_limits.waiting_bytes)
            return Error{Code::quota, "the server does not send the parts of a lane that was given up"};
        m_waiting.push_back({std::move(item), bytes});
        return {};
    }

    /// A lane is given up: what was on its way over it comes over another one, which may be the command lane, behind what waits
    /// for it. Until parts_moved() more is taken from there than full() allows otherwise.
    void lane_given_up() { ++m_lanes_moving; }
    /// What the other side had for one of these lanes has come, or comes over a lane that nothing holds up.
    void parts_moved() { --m_lanes_moving; }

    /// A part of this call's payload is being received straight to where it belongs.
    void part_begins(uint16_t lane, uint64_t call) { m_in_hand[lane] = call; }
    /// It has come, or one that was not placed. What waited for it takes effect. @errors quota, and as arrived()
    template <typename Take>
    Result<void> part_arrived(uint16_t lane, uint64_t call, uint64_t bytes, Take&& take) {
        m_in_hand[lane] = 0;
        m_arrived[call] += bytes;
        if (m_arrived.size() > m_limits.payloads)
            return Error{Code::quota, "the server sends parts of more payloads than were asked for"};
        return take_waiting(take);
    }
    /// The lane's connection has ended: a part that was half received comes again. @errors as arrived()
    template <typename Take>
    Result<void> lane_ended(uint16_t lane, Take&& take) {
        m_in_hand[lane] = 0;
        return take_waiting(take);
    }

    /// True if so many bytes of a call's payload have come in parts.
    bool has_arrived(uint64_t call, uint64_t part_bytes) const {
        if (part_bytes == 0) return true;
        const auto found = m_arrived.find(call);
        return found != m_arrived.end() && found->second >= part_bytes;
    }
    /// True if a part of it is being received: whoever is told of it next may not find it written to later.
    bool is_in_hand(uint64_t call) const {
        for (const uint64_t in_hand : m_in_hand)
            if (in_hand == call) return true;
        return false;
    }
    /// The last that was told of a call has taken effect.
    void forget(uint64_t call) { m_arrived.erase(call); }

    /// So much waits that no more should be taken from the command lane. What waits there is for parts on other lanes: those of
    /// its own come before what tells of them.
    bool full() const { return m_lanes_moving == 0 && m_waiting_bytes > m_limits.waiting_bytes; }
    bool empty() const { return m_waiting.empty(); }
    size_t payloads() const { return m_arrived.size(); }

private:
    struct Waiting {
        Item item;
        uint64_t bytes;
    };

    template <typename Take>
    Result<void> take_waiting(Take&& take) {
        while (!m_waiting.empty()) {
            if (!WL_TRY(take(m_waiting.front().item))) return {};
            m_waiting_bytes -= m_waiting.front().bytes;
            m_waiting.pop_front();
        }
        return {};
    }

    /// How much more may wait while parts move to another lane: what a sender has queued on the command lane before them, and
    /// what it queues until it hears that they have to move.
    static constexpr uint64_t k_moving_factor = 4;

    Limits m_limits;
    unsigned m_lanes_moving = 0;
    std::deque<Waiting> m_waiting;  // of the command lane
    uint64_t m_waiting_bytes = 0;
    std::map<uint64_t, uint64_t> m_arrived;         // bytes in parts, by call
    std::array<uint64_t, k_max_lanes> m_in_hand{};  // whose part is being received; 0: none
};

}  // namespace warpline::protocol
