// The connection of the one client that a worker serves.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "common/base/mutex.h"
#include "common/net/channel_pump.h"
#include "common/net/shared_memory.h"
#include "protocol/codec/call_receiver.h"
#include "protocol/codec/link.h"
#include "protocol/codec/shared_bulk.h"
#include "protocol/session/resume.h"
#include "server/session/session.h"
#include "server/worker/bulk_lane.h"
#include "server/worker/handshake.h"
#include "server/worker/output_capture.h"

namespace warpline::server {

/// What a connection asks of the worker that it lives in.
class ConnectionHost {
public:
    virtual ~ConnectionHost() = default;
    /// The client has said Hello, and has its session from now on. @thread reader
    virtual void begins(const BegunMessage& message) = 0;
    /// The session is about to begin, with these devices. @thread reader
    virtual void session_sees(const std::vector<DeviceSnapshot>& visible) = 0;
    /// The client has said goodbye: over() follows when its calls have been executed. @thread reader
    virtual void closing() = 0;
    /// The connection is lost, and the session waits for another one. @thread reader; returns at once
    /// @param doubtful  it is unlikely that one comes, unless at once
    virtual void orphaned(std::string reason, bool doubtful) = 0;
    /// There is another one. @thread the worker's main one
    virtual void resumed() = 0;
    /// The program is dead, says who has the session's key: it need not be kept. @thread the worker's main one
    virtual void program_died() = 0;
    /// The client has given up a bulk lane: give_up_bulk() is to be called. @thread reader; returns at once
    virtual void lane_given_up(uint16_t lane, uint64_t received) = 0;
    /// The connection is over, or has to end. The first reason counts. @thread any; returns at once
    virtual void over(std::string reason) = 0;
};

/// The server's end of a client's connection: from Hello to Close. Everything that arrives is hostile until checked.
class ConnectionFromClient final : private protocol::Link::Handler,
                                   private BulkLane::Owner,
                                   private ClientPort,
                                   private UploadCache::Owner,
                                   private WorkSource {
public:
    struct Options {
        protocol::CreditLimits credit;
        protocol::HeartbeatOptions heartbeat;
        std::chrono::milliseconds grace{0};  ///< for a client to come back
        uint64_t memory_credit_bytes = uint64_t{1} << 30;
        uint16_t bulk_lanes = 0;            ///< that the client may open
        bool compact_calls = true;          ///< the client may say what is different from earlier ones
        bool fits_link = true;              ///< how large parts are follows the link
        bool idle_threads_read = true;      ///< a thread without a call to execute reads the next one itself
        std::chrono::microseconds spin{0};  ///< that a thread looks for a call before it sleeps
        bool compression = true;            ///< as clients wish; else none
        bool tell_executed = true;          ///< clients that ask for it when calls were executed
        bool shares_memory = true;          ///< with clients that come over a Unix socket, if they wish
        std::string server_name;
        std::string tenant;                         ///< whose session it is
        std::vector<OutputCapture::Source> output;  ///< the pipes that the driver prints into; none: not captured
        uint64_t session_memory_bytes = 0;          ///< of each device, that a session may have; 0: as much as there is
        SessionOptions session;
        UploadCache* uploads = nullptr;  ///< what keeps them; outlives the connection. Null: nothing does
    };

    /// Starts the connection's threads. @errors io
    static Result<std::unique_ptr<ConnectionFromClient>> start(std::unique_ptr<net::Channel> channel, const Driver& driver,
                                                               const std::vector<DeviceSnapshot>& devices,
                                                               SessionCounters& counters, ConnectionHost& host,
                                                               const Options& options);
    ~ConnectionFromClient() override;

    /// True once the client has said Hello: its calls may have changed the state of the driver.
    bool has_session() const { return m_begun.load(std::memory_order_acquire); }

    /// Another connection of the client's takes the place of the one before, lost or not. A refusal is told on the new one.
    /// The same request may say that the program is dead: then the host is told, and nothing goes on.
    /// @param epoch  of the connection; grows
    /// @return  true if the session goes on over it
    /// @blocks  for the threads of the connection before
    bool resume(std::unique_ptr<net::Channel> channel, uint32_t epoch, const protocol::ResumeRequest& request);

    /// A bulk lane of the session comes, or comes back. @thread the worker's main one @blocks as resume()
    void resume_bulk(std::unique_ptr<net::Channel> channel, uint16_t lane, uint32_t epoch,
                     const protocol::ResumeRequest& request);

    /// The client has given up a bulk lane, up to whose item `received` it has everything: what it has not goes over the
    /// others.
    /// @thread the worker's main one @blocks for the threads of its connection
    void give_up_bulk(uint16_t lane, uint64_t received);

    /// Tells the client why, after what is queued, and gives it a moment to read it. @blocks up to the time given
    void say_goodbye(Code code, const std::string& reason, std::chrono::milliseconds patience);
    /// Brings the shared counters up to date.
    void count_bytes();

    static constexpr uint32_t k_chunk_bytes = 256 * 1024;

private:
    ConnectionFromClient(const Driver& driver, const std::vector<DeviceSnapshot>& devices, SessionCounters& counters,
                         ConnectionHost& host, const Options& options);

    // protocol::Link::Handler
    Result<void> on_frame(protocol::Frame frame) override;
    Result<protocol::Place> place_payload(uint64_t call, uint64_t offset, uint64_t total, size_t bytes) override;
    Result<protocol::Place> take_shared(uint64_t call, uint64_t offset, uint64_t total, MutableBytesView bytes) override;
    void on_level(const protocol::LinkLevelChange& change) override;
    void on_tick() override;
    bool keeps() const override;
    void on_ended(const Error& error, const std::string& explanation) override;

    // BulkLane::Owner
    Result<protocol::Place> place_part(size_t bytes) override;
    Result<void> on_part(protocol::Frame frame) override;
    void lane_misbehaved(const Error& error) override { did_misbehave(error.what); }

    // ClientPort
    protocol::Outbox& outbox() override { return m_link.outbox(); }
    void flush() override { m_pump->flush(); }
    void did_misbehave(const char* reason) override;
    size_t chunk_bytes() const override { return k_chunk_bytes; }
    StagingMemory* arrivals() override { return &m_arrivals; }
    uint64_t take_freed_slots() override { return m_shared_arrivals ? m_shared_arrivals->take_freed() : 0; }
    WorkSource* work_source() override { return this; }
    UploadCache* uploads() override { return m_uploads; }

    // UploadCache::Owner
    void offer_answered(const UploadOffer& offer, uint64_t has, const std::vector<int>& files) override;
    Result<void> take_found(const UploadOffer& offer, size_t chunk, int file);
    Result<void> on_offer(wire::Offer::Reader offer);

    // WorkSource
    bool begin_reading() override { return m_pump->begin_reading(); }
    bool read_until(FunctionRef<bool()> enough) override { return m_pump->read_until(enough, {m_options.spin}); }
    void end_reading() override { m_pump->end_reading(); }
    void wake_reader() override { m_pump->wake_guest(); }

    protocol::SharedLayout share_memory();
    void agree_on_codecs(const compress::Wish& wish);
    Result<void> on_hello(const protocol::Frame& frame);
    Result<void> on_event(const protocol::Frame& frame);
    Result<void> on_close();
    void stop_lanes();
    Result<void> refuse(Code code, std::string reason);
    Result<void> welcome(const HelloData& hello);
    void show_limit(uint64_t bytes);
    bool somebody_may_come(const net::Channel& lost) const;

    const Driver& m_driver;
    const std::vector<DeviceSnapshot>& m_devices;
    SessionCounters& m_counters;
    ConnectionHost& m_host;
    const Options m_options;
    UploadCache* m_uploads = nullptr;  // since the client asked for it
    net::SharedMemory m_shared;        // these three since Hello, and as long as anything lies there
    std::optional<protocol::SharedArrivals> m_shared_arrivals;
    std::optional<protocol::SharedStaging> m_shared_out;
    bool m_shared_is_locked = false;  // the reading thread's
    StagingMemory m_arrivals;         // outlives whatever was received into it
    protocol::Link m_link;
    std::vector<DeviceSnapshot> m_visible;  // those of m_devices that the client wants to see
    protocol::CallReceiver m_receiver;
    std::unique_ptr<Session> m_session;                    // made by the reading thread
    std::atomic<uint64_t> m_parts_received{0};             // bytes, over bulk lanes
    std::atomic<compress::CodecSet> m_codecs{0};           // agreed on; written before the client can open bulk lanes
    bool m_hello_seen = false;                             // the reading thread's
    bool m_closing = false;                                // the reading thread's: the client has said goodbye
    int m_program = 0;                                     // its process, if it says that it is on this machine
    bool m_reported = false;                               // the reading thread's: the death of the program will be told
    std::array<bool, protocol::k_max_lanes> m_given_up{};  // the reading thread's: bulk lanes
    uint32_t m_epoch = 0;                                  // the worker's main thread's: of the newest connection
    std::atomic<bool> m_leaving{false};                    // the worker ends the session: no other connection is waited for
    std::atomic<bool> m_begun{false};  // released when the session is made, acquired by the worker's main thread
    Mutex m_mutex;
    ConditionVariable m_ended_changed;
    bool m_ended WL_GUARDED_BY(m_mutex) = false;
    std::array<std::unique_ptr<BulkLane>, protocol::k_max_bulk_lanes> m_bulk;  // the worker's main thread's
    std::unique_ptr<net::ChannelPump> m_pump;  // last, with the lanes: their threads use all of the above
};

}  // namespace warpline::server
