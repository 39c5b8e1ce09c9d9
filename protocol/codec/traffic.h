// Watching what travels, and who waits to send.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

namespace warpline::protocol {

struct Frame;
struct OutFrame;

/// What keeps a thread that has something to send.
enum class BlockedBy : uint8_t {
    credit,   ///< what the server lets be sent and not yet executed is used up
    payload,  ///< a long payload is handed to the socket out of the caller's memory
};

/// Somebody who wants to know what travels: the client's trace. Frames belong to who calls; nothing here may wait, or call the
/// link or the outbox, but for Outbox::add_ping() in received().
class TrafficObserver {
public:
    virtual ~TrafficObserver() = default;
    /// These frames, encoded, are about to be handed to the socket. @thread writing, one at a time for each lane
    virtual void taken(uint16_t lane, std::span<OutFrame* const> frames) = 0;
    /// They have been, or the connection is lost. @thread as taken()
    virtual void sent(uint16_t lane) = 0;
    /// @thread reading, one at a time for each lane
    virtual void received(uint16_t lane, const Frame& frame) = 0;
    /// The calling thread waited from here until now.
    virtual void blocked(BlockedBy by, std::chrono::steady_clock::time_point since) = 0;
};

/// Tells an observer, if there is one, how long a scope took.
class BlockedNote {
public:
    BlockedNote(TrafficObserver* observer, BlockedBy by) : m_observer(observer), m_by(by) {
        if (m_observer != nullptr) [[unlikely]]
            m_since = std::chrono::steady_clock::now();
    }
    ~BlockedNote() {
        if (m_observer != nullptr) [[unlikely]]
            m_observer->blocked(m_by, m_since);
    }
    BlockedNote(const BlockedNote&) = delete;
    BlockedNote& operator=(const BlockedNote&) = delete;

private:
    TrafficObserver* const m_observer;
    const BlockedBy m_by;
    std::chrono::steady_clock::time_point m_since;
};

}  // namespace warpline::protocol
