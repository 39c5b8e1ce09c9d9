// The socket behind a session, with its threads.
#pragma once

#include <array>
#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/identity/identity.h"
#include "client/session/bulk_lanes.h"
#include "client/session/upload_hashes.h"
#include "client/state/copy_target.h"
#include "client/state/devices.h"
#include "client/trace/traffic.h"
#include "common/base/mutex.h"
#include "common/config/switches.h"
#include "common/net/channel_pump.h"
#include "common/net/shared_memory.h"
#include "common/net/socket.h"
#include "compress/wish.h"
#include "protocol/codec/link.h"
#include "protocol/codec/preamble.h"
#include "protocol/codec/shared_bulk.h"
#include "protocol/session/arrival_order.h"
#include "protocol/session/open.h"
#include "protocol/session/resume.h"

namespace warpline::client {

class Session;
class Waiter;

/// Where to connect to, and how.
struct ConnectionSettings {
    std::string server;  ///< as net::parse_endpoint() reads it
    Identity identity;   ///< as whom
    std::chrono::milliseconds connect_timeout{10000};
    protocol::HeartbeatOptions heartbeat;
    std::chrono::milliseconds grace{0};                         ///< for another connection to take the place of a lost one
    std::chrono::milliseconds reconnect_first{100};             ///< back-off: the bound of the first random pause
    std::chrono::milliseconds reconnect_longest{5000};          ///< … and of any
    protocol::CreditLimits credit{~uint64_t{0}, ~uint64_t{0}};  ///< at most; the server says how much it allows
    compress::Wish compression;                                 ///< for both directions
    unsigned bulk_lanes = 0;                                    ///< likewise
    uint64_t bulk_lanes_after = 0;                              ///< bytes in long payloads
    config::Switches switches;                                  ///< what is done to be fast
    std::chrono::microseconds spin{0};                          ///< that a call looks for its reply before its thread sleeps
    /// For which calls gather. Between two calls of a program that copies back and forth there is less time.
    std::chrono::microseconds nap{50};
    std::chrono::microseconds longest_nap{4000};  ///< where such naps were in vain
    unsigned idle_naps = 4;                       ///< without a call, before the writer sleeps
    std::string program;
    std::string visible_devices;
    uint64_t memory_bytes = 0;  ///< the most of each device's memory that the program shall have; 0: as much as there is
    bool reported = false;      ///< somebody will tell the server of the death of this process
    uint64_t window_base = 0;
    uint64_t window_bytes = 0;
};

/// A session's connections: the command lane, a socket with its two threads and the protocol's half of it, and bulk lanes
/// beside it once much is copied. One that is lost is replaced by another one, within the grace time (docs/session.md); whoever
/// waits goes on waiting meanwhile.
class ConnectionToServer final : private protocol::Link::Handler, private BulkLanes::Owner {
public:
    /// Opens a session at the server's door, connects its first lane, and starts the threads.
    /// @errors  those of connecting and of TLS; what the server refused with
    static Result<std::unique_ptr<ConnectionToServer>> connect(Session& session, const ConnectionSettings& settings,
                                                               std::string& why);
    ~ConnectionToServer() override;

    /// Sends Hello and waits for the answer.
    ///
    /// @errors  version_mismatch, what the server refused with, deadline, connection_lost
    Result<ServerInfo> exchange_hello(const ConnectionSettings& settings, std::string& why);

    protocol::Outbox& outbox() { return m_link.outbox(); }
    protocol::Link& link() { return m_link; }
    const protocol::Link& link() const { return m_link; }
    /// Brings what is queued to the socket, and waits for a reply; reads it itself, if no other thread does so.
    /// @param schedule  CU_CTX_SCHED_…, of the call's context
    void wait_for(Waiter& waiter, unsigned schedule);
    /// A call that nobody waits for was queued: it leaves at once where calls are not to leave together.
    void note_queued() {
        if (!uses(config::Optimisation::batching)) m_pump->flush();
    }
    /// What is queued leaves now: who asks whether it is done calls nothing else, perhaps. @blocks no
    void send_now() { m_pump->flush(); }
    bool uses(config::Optimisation optimisation) const { return m_settings.switches.uses(optimisation); }

    /// How often another connection has taken the place of a lost one.
    uint64_t reconnects() const { return m_reconnects.load(std::memory_order_relaxed) + m_bulk.reconnects(); }
    /// Threads of the process that are surely ours. @thread any
    unsigned threads() const { return k_command_lane_threads + m_bulk.threads() + m_hashes.threads(); }
    /// Over all lanes. @thread any
    uint64_t bytes_received() const { return m_link.bytes_received() + m_bulk.received().bytes; }
    std::map<uint16_t, protocol::LinkQuality> bulk_link_qualities() const { return m_bulk.qualities(); }
    uint64_t frames_received() const { return m_link.frames_received() + m_bulk.received().frames; }
    /// A payload of this size is sent or received in parts: when there have been many, bulk lanes are opened. @thread any
    void note_long_payload(uint64_t bytes);

    /// A payload of this size is about to be sent in parts. @thread any
    void note_upload(uint64_t bytes) {
        m_hashes.expect();
        note_long_payload(bytes);
    }

    /// Part of the memory that the function with this number sends. @blocks while much is queued
    void send_host_data(uint64_t id, uint64_t offset, BytesView bytes);
    /// Tells the server that the program's function has returned.
    void host_call_done(uint64_t id);
    /// Says goodbye after all that is queued, and ends both threads; waits a bounded time for the server to hear it.
    /// @return  true if it has
    bool finish();
    /// Ends the connection, if it has not ended, and waits for its threads.
    void join();

    static constexpr size_t k_chunk_bytes = 1024 * 1024;  ///< larger payloads are streamed

private:
    ConnectionToServer(Session& session, const ConnectionSettings& settings);
    Result<void> on_frame(protocol::Frame frame) override;
    Result<protocol::Place> place_payload(uint64_t call, uint64_t offset, uint64_t total, size_t bytes) override;
    Result<protocol::Place> take_shared(uint64_t call, uint64_t offset, uint64_t total, MutableBytesView bytes) override;
    void on_level(const protocol::LinkLevelChange& change) override;
    bool keeps() const override;
    void on_tick() override;
    bool suffers_from_losses() const;
    void on_closing(const Error& error, const std::string& explanation) override WL_EXCLUDES(m_order_mutex);
    void on_ended(const Error& error, const std::string& explanation) override WL_EXCLUDES(m_order_mutex);
    /// What waited for the connection is taken as it ends. @errors what the server ended the session with, malformed
    Result<void> take_the_rest() WL_EXCLUDES(m_order_mutex);

    // BulkLanes::Owner; the first two for the command lane as well
    Result<protocol::Place> place_part(uint16_t lane, const protocol::BulkHeader& part, size_t bytes) override
        WL_EXCLUDES(m_order_mutex);
    Result<void> on_part(uint16_t lane, const protocol::Frame& frame) override WL_EXCLUDES(m_order_mutex);
    void lane_ended(uint16_t lane) override WL_EXCLUDES(m_order_mutex);
    Result<std::unique_ptr<net::Channel>> connect_lane(uint16_t lane, uint32_t epoch,
                                                       std::chrono::milliseconds patience) override;
    void lane_given_up(uint16_t lane, uint64_t received) override WL_EXCLUDES(m_order_mutex);
    void lanes_failed(const Error& error, const std::string& why) override;

    /// Takes a frame, if what it tells of has arrived. False: it has to wait, and stays as it is. For m_order, as taker().
    Result<bool> take(protocol::Frame& frame) WL_REQUIRES(m_order_mutex);
    auto taker() {
        return [this](protocol::Frame& frame) WL_NO_THREAD_SAFETY_ANALYSIS { return take(frame); };
    }
    void agree_on_codecs(compress::CodecSet of_server);
    Result<void> on_hello_reply(const protocol::Frame& frame);
    Result<void> take_shared_memory(BytesView hello_reply);
    /// Both ends may map the same memory.
    bool may_share() const { return m_endpoint.is_local() && uses(config::Optimisation::shm); }
    Result<bool> on_reply(protocol::Frame& frame) WL_REQUIRES(m_order_mutex);
    Result<bool> on_event(const protocol::Frame& frame) WL_REQUIRES(m_order_mutex);
    Result<bool> on_copy_done(wire::CopyDone::Reader done, BytesView payload) WL_REQUIRES(m_order_mutex);
    std::string goodbye() WL_EXCLUDES(m_order_mutex);

    /// Has the server open a session, and connects its first lane: four round trips. @errors as connect()
    Result<std::unique_ptr<net::Channel>> open_session(std::string& why);
    /// The handshake of a lane's socket, which is connected. If the session has gone, the door answers.
    /// @errors as Identity::greet()
    Result<std::unique_ptr<net::Channel>> open_lane(net::Socket socket, uint16_t lane, uint32_t epoch,
                                                    std::chrono::milliseconds timeout, std::string& why);
    void join_recovery() WL_EXCLUDES(m_recovery_mutex);
    /// The process ends: no further attempt to connect.
    void leave() WL_EXCLUDES(m_recovery_mutex, m_order_mutex);
    /// The recovery thread's: connects until the session goes on, or is known to be over, or the grace time is.
    void recover(const std::string& why_lost);
    /// One attempt. True: the session goes on. @errors unknown_handle: the server says that the session has ended
    Result<void> resume(std::chrono::steady_clock::time_point deadline, std::string& why);
    /// Waits before an attempt. False if the process ends meanwhile.
    bool pause(unsigned attempt, std::chrono::steady_clock::time_point deadline) WL_EXCLUDES(m_recovery_mutex);
    void end(const Error& error, const std::string& text);

    struct HelloAnswer;

    Session& m_session;
    const ConnectionSettings m_settings;
    net::Endpoint m_endpoint;
    net::SharedMemory m_shared;  // these two since Hello was answered, if there is any; written by the reading thread
    std::optional<protocol::SharedSlots> m_slots;
    const std::unique_ptr<trace::Traffic> m_traffic;  // null: no trace is written
    protocol::Link m_link;
    std::unique_ptr<net::ChannelPump> m_pump;
    protocol::SessionId m_session_id{};      // these two since the session was opened
    protocol::SessionKey m_key{};            //
    std::atomic<bool> m_established{false};  // since Hello was answered; read by the receiving thread
    std::atomic<bool> m_leaving{false};      // the process ends: nothing is worth another connection
    std::atomic<uint64_t> m_reconnects{0};
    uint32_t m_epoch = 0;  // of the newest lane; the recovery thread's, of which there is one at a time
    Mutex m_recovery_mutex;
    ConditionVariable m_recovery_wake;
    std::thread m_recovery WL_GUARDED_BY(m_recovery_mutex);
    std::unique_ptr<HelloAnswer> m_hello;
    std::string m_address;
    static constexpr unsigned k_command_lane_threads = 2;

    // What comes over several lanes takes effect in the order of the command lane, and not before the parts that it tells of.
    Mutex m_order_mutex;
    ConditionVariable m_order_changed;  // no longer full, or the process ends
    protocol::ArrivalOrder<protocol::Frame> m_order WL_GUARDED_BY(m_order_mutex);
    std::string m_goodbye WL_GUARDED_BY(m_order_mutex);                           // what the server said when it closed
    std::array<std::optional<CopyTarget>, protocol::k_max_lanes> m_part_targets;  // each its lane's: of the Bulk frame at hand
    std::array<bool, protocol::k_max_lanes> m_part_is_placed{};                   // likewise: it is where it shall be

    std::atomic<uint64_t> m_long_payload_bytes{0};
    std::atomic<unsigned> m_bulk_lanes_wanted{0};  // since Hello was answered, these three
    std::atomic<unsigned> m_bulk_lanes_most{0};
    std::atomic<bool> m_lanes_may_end{false};
    bool m_widened = false;  // the reading thread's
    std::promise<void> m_ended;
    BulkLanes m_bulk;
    UploadHashes m_hashes;
};

}  // namespace warpline::client
