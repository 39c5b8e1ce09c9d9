#pragma once

// What one side of a session has to say, in order, and what of it the other side may not have yet. The only place that decides
// what is sent again after a connection was lost. Pure: no clock, no lock, no socket;
// tests/unit/protocol/session_model_test.cpp explores it exhaustively.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace warpline::protocol {

/// The sending half of a session's sequence of ordered items. Numbers begin with 1, have no gaps, and go on from connection to
/// connection. An item stays here until the other side says that it has it.
///
/// @thread  one at a time
template <typename Item>
class ItemSender {
public:
    /// An item on its way out. The pointer is good until the next push().
    struct Next {
        uint64_t number;
        Item* item;
    };

    /// @param retain_limit_bytes  no further item leaves while so much is sent and not acknowledged; one item always may
    explicit ItemSender(uint64_t retain_limit_bytes) : m_limit_bytes(retain_limit_bytes) {}

    /// Queues an item. @return its number
    uint64_t push(Item item, uint64_t bytes) {
        if (m_next - m_first == m_ring.size()) grow();
        Entry& entry = at(m_next);
        entry.item = std::move(item);
        entry.bytes = bytes;
        m_unsent_bytes += bytes;
        return m_next++;
    }

    /// True if take() would give an item: there is one, a connection is there, and not too much is unacknowledged.
    bool can_take() const { return m_attached && m_cursor < m_next && may_leave(m_cursor); }
    /// The next item for the connection. Only if can_take().
    Next take() {
        Entry& entry = at(m_cursor);
        m_unsent_bytes -= entry.bytes;
        m_sent_bytes += entry.bytes;
        if (m_cursor <= m_highest_sent) ++m_sent_again;
        m_highest_sent = std::max(m_highest_sent, m_cursor);
        return {m_cursor++, &entry.item};
    }

    /// The other side has everything up to this number: `release(Item)` gets what is no longer needed.
    ///
    /// @errors  malformed: acknowledges what was never sent
    template <typename Release>
    Result<void> acknowledge(uint64_t number, Release&& release) {
        if (number > m_highest_sent) return Error{Code::malformed, "a frame is acknowledged that was not sent"};
        for (; m_first <= number; ++m_first) {
            Entry& entry = at(m_first);
            // One that is to be sent again may be acknowledged before: by what the other side received when it was sent first.
            (m_first < m_cursor ? m_sent_bytes : m_unsent_bytes) -= entry.bytes;
            release(std::exchange(entry.item, Item{}));
        }
        m_cursor = std::max(m_cursor, m_first);
        return {};
    }

    /// The item with this number, if it is not acknowledged yet; else null.
    Item* find(uint64_t number) { return number >= m_first && number < m_next ? &at(number).item : nullptr; }

    /// The connection is lost: nothing leaves until attach().
    void detach() { m_attached = false; }

    /// There is another connection, whose other side has received everything up to this number: what comes after it is sent
    /// again.
    ///
    /// @errors  malformed: it claims what was never sent, or has forgotten what it had
    template <typename Release>
    Result<void> attach(uint64_t received, Release&& release) {
        if (received + 1 < m_first) return Error{Code::malformed, "a peer has forgotten what it acknowledged"};
        auto known = acknowledge(received, release);
        if (!known.ok()) return known;
        m_cursor = m_first;
        m_unsent_bytes += std::exchange(m_sent_bytes, 0);
        m_attached = true;
        return {};
    }

    /// There will be no further connection. The other side has received everything up to this number; what comes after it is
    /// given to `move(Item)`, in order, and is no item of this sequence any more.
    ///
    /// @errors  malformed: as attach()
    template <typename Release, typename Move>
    Result<void> give_up(uint64_t received, Release&& release, Move&& move) {
        detach();
        if (received + 1 < m_first) return Error{Code::malformed, "a peer has forgotten what it acknowledged"};
        auto known = acknowledge(received, release);
        if (!known.ok()) return known;
        for (; m_first < m_next; ++m_first) move(std::exchange(at(m_first).item, Item{}));
        m_cursor = m_first;
        m_sent_bytes = m_unsent_bytes = 0;
        return {};
    }

    bool attached() const { return m_attached; }
    /// Nothing waits to be sent.
    bool drained() const { return m_cursor == m_next; }
    /// True if a new item would not have to wait for acknowledgements.
    bool has_room() const { return m_sent_bytes < m_limit_bytes; }
    /// Bytes that wait to be sent, for the first time or again.
    uint64_t unsent_bytes() const { return m_unsent_bytes; }
    /// Bytes that were sent and are not acknowledged.
    uint64_t unacknowledged_bytes() const { return m_sent_bytes; }
    uint64_t acknowledged() const { return m_first - 1; }
    uint64_t highest_sent() const { return m_highest_sent; }
    /// Items that were sent more than once.
    uint64_t sent_again() const { return m_sent_again; }

private:
    struct Entry {
        Item item{};
        uint64_t bytes = 0;
    };

    Entry& at(uint64_t number) { return m_ring[number & (m_ring.size() - 1)]; }
    const Entry& at(uint64_t number) const { return m_ring[number & (m_ring.size() - 1)]; }
    bool may_leave(uint64_t number) const {
        return number <= m_highest_sent || m_sent_bytes == 0 || m_sent_bytes + at(number).bytes <= m_limit_bytes;
    }
    void grow() {
        std::vector<Entry> larger(m_ring.empty() ? 16 : m_ring.size() * 2);
        for (uint64_t number = m_first; number < m_next; ++number) larger[number & (larger.size() - 1)] = std::move(at(number));
        m_ring = std::move(larger);
    }

    uint64_t m_limit_bytes;
    std::vector<Entry> m_ring;    // a power of two; what is between m_first and m_next lives in it, at its number
    uint64_t m_first = 1;         // not acknowledged
    uint64_t m_cursor = 1;        // goes out next
    uint64_t m_next = 1;          // is free
    uint64_t m_highest_sent = 0;  // on any connection
    uint64_t m_sent_bytes = 0;    // of [m_first, m_cursor)
    uint64_t m_unsent_bytes = 0;  // of [m_cursor, m_next)
    uint64_t m_sent_again = 0;
    bool m_attached = true;
};

}  // namespace warpline::protocol
