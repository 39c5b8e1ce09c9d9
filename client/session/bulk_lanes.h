// The connections beside a session's first one, which carry parts of long payloads.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "common/base/mutex.h"
#include "common/net/channel_pump.h"
#include "protocol/codec/link.h"

namespace warpline::client {

/// The client's bulk lanes. They are opened when a program copies much, by a thread of their own, and opened again when they
/// are lost; what is on its way over one waits for it to come back, or goes over the others when it does not. Calls need none
/// of them.
class BulkLanes {
public:
    /// What the lanes ask of the session.
    class Owner {
    public:
        /// @thread the lane's reading one, these three
        virtual Result<protocol::Place> place_part(uint16_t lane, const protocol::BulkHeader& part, size_t bytes) = 0;
        virtual Result<void> on_part(uint16_t lane, const protocol::Frame& frame) = 0;
        /// Its connection has ended: of a part that was half received nothing is being written any more.
        virtual void lane_ended(uint16_t lane) = 0;
        /// A connection for a lane, proved by the session's key.
        /// @thread the one that opens lanes @blocks up to `patience`
        virtual Result<std::unique_ptr<net::Channel>> connect_lane(uint16_t lane, uint32_t epoch,
                                                                   std::chrono::milliseconds patience) = 0;
        /// A lane has not come back, and is not opened again: the server is to be told up to which number it has been received.
        /// @thread the one that opens lanes @blocks while much is queued
        virtual void lane_given_up(uint16_t lane, uint64_t received) = 0;
        /// The session cannot go on. @thread any of the lanes'; must not wait for them
        virtual void lanes_failed(const Error& error, const std::string& why) = 0;

    protected:
        ~Owner() = default;
    };
    struct Options {
        protocol::LinkOptions link;
        std::chrono::milliseconds grace{0};  ///< for a lane to come back
        std::chrono::milliseconds reconnect_first{0};
        std::chrono::milliseconds reconnect_longest{0};
    };

    BulkLanes(Owner& owner, protocol::Outbox& outbox, const Options& options);
    ~BulkLanes();

    /// Begins to open so many that there are this many; none is closed. @thread any @blocks no
    /// @param may_end  the server takes what was on its way over a lane that does not come back over the others; else the
    ///                 session ends with it
    void open(unsigned count, const protocol::SessionId& session, bool may_end) WL_EXCLUDES(m_mutex);
    /// The server's answer for a lane that was given up. What it has not received goes over the other lanes. @thread any
    /// @errors malformed
    Result<void> server_gave_up(uint16_t lane, uint64_t received) WL_EXCLUDES(m_mutex);
    /// The server is told that the session ends: it closes them when it has what is under way. One that is lost before is
    /// opened again, after a pause.
    void expect_end() WL_EXCLUDES(m_mutex);
    /// Ends all of them, for good, and waits until their threads have let go of everything. @thread none of theirs
    void stop() WL_EXCLUDES(m_mutex);

    /// How many of the process's threads are surely ours.
    unsigned threads() const { return static_cast<unsigned>(std::max(m_threads.load(std::memory_order_relaxed), 0)); }
    unsigned up() const { return m_up.load(std::memory_order_relaxed); }
    struct Received {
        uint64_t bytes = 0, frames = 0;
    };
    Received received() const WL_EXCLUDES(m_mutex);
    /// Of those that have had a connection, by their numbers.
    std::map<uint16_t, protocol::LinkQuality> qualities() const WL_EXCLUDES(m_mutex);
    uint64_t reconnects() const { return m_reconnects.load(std::memory_order_relaxed); }

private:
    struct Lane;
    using Clock = std::chrono::steady_clock;

    void run();
    Lane* wait_for_work() WL_EXCLUDES(m_mutex);
    bool connect(Lane& lane);
    bool give_up(Lane& lane, const Error& why) WL_EXCLUDES(m_mutex);
    std::chrono::milliseconds patience_for(const Lane& lane) const WL_EXCLUDES(m_mutex);
    Result<void> attempt(Lane& lane);
    void ended(Lane& lane, const Error& error, const std::string& explanation) WL_EXCLUDES(m_mutex);

    Owner& m_owner;
    protocol::Outbox& m_outbox;
    const Options m_options;
    std::atomic<int> m_threads{0};  // rather too few: whose threads run decides what waits
    std::atomic<unsigned> m_up{0};
    std::atomic<uint64_t> m_reconnects{0};
    mutable Mutex m_mutex;
    ConditionVariable m_wake;
    unsigned m_wanted WL_GUARDED_BY(m_mutex) = 0;
    bool m_stopping WL_GUARDED_BY(m_mutex) = false;
    bool m_expects_end WL_GUARDED_BY(m_mutex) = false;
    protocol::SessionId m_session{};                                        // set before the thread that opens lanes begins
    bool m_may_end = false;                                                 // likewise
    std::array<std::unique_ptr<Lane>, protocol::k_max_bulk_lanes> m_lanes;  // made by the thread that opens them
    std::thread m_thread WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::client
