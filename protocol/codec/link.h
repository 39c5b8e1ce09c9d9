// One connection, as far as the protocol has to do with it.
#pragma once

#include <atomic>
#include <string>

#include "common/base/mutex.h"
#include "protocol/codec/frame_reader.h"
#include "protocol/codec/heartbeat.h"
#include "protocol/codec/link_fit.h"
#include "protocol/codec/outbox.h"
#include "protocol/codec/path_meter.h"
#include "protocol/codec/traffic.h"

namespace warpline::protocol {

struct LinkOptions {
    OutboxOptions outbox;
    FrameLimits receive_limits;
    HeartbeatOptions heartbeat;
    uint32_t codecs = 0;                  ///< that payloads may arrive in
    bool fits_link = true;                ///< parts and windows follow what the link delivers
    TrafficObserver* observer = nullptr;  ///< outlives the link; null: nobody watches
};

/// The protocol's half of a lane, one connection of a session: frames in, frames out, sequence numbers, acknowledgements,
/// heartbeat. The link of the command lane has the session's outbox; those of bulk lanes share it. It has no socket and no
/// thread; net::ChannelPump has both, and net::LinkUser ties them together. It outlives the connection:
/// detach() and attach() put another one in its place.
///
/// Deals itself with Ping, Pong, acknowledgements and duplicates, and with Event.progress; everything else goes to the handler.
class Link final : private FrameSink, private LaneMeter {
public:
    /// The owner's side. All calls come from the thread that feeds received(); they must not block for long, as nothing is
    /// received meanwhile.
    class Handler {
    public:
        virtual ~Handler() = default;
        virtual Result<void> on_frame(Frame frame) = 0;
        /// See FrameSink::place_payload, for Bulk frames.
        virtual Result<Place> place_payload(uint64_t call, uint64_t offset, uint64_t total, size_t bytes) {
            (void)call, (void)offset, (void)total, (void)bytes;
            return Place{};
        }
        /// A part of a payload that lies in shared memory (share_in()): where it shall be when on_frame() is told of it.
        virtual Result<Place> take_shared(uint64_t call, uint64_t offset, uint64_t total, MutableBytesView bytes) {
            (void)call, (void)offset, (void)total, (void)bytes;
            return malformed("a payload lies in shared memory, and there is none");
        }
        /// The connection has become better or worse: for the log.
        virtual void on_level(const LinkLevelChange& change) { (void)change; }
        /// Now and then, also when nothing arrives: see tick().
        virtual void on_tick() {}
        /// The connection is lost. True: another one may come in its place, see detach(); else the sending side is closed.
        virtual bool keeps() const { return false; }
        /// It is lost for good: who sends next learns of it. What is to be said before that is said here, and perhaps again;
        /// on_ended() follows.
        virtual void on_closing(const Error& error, const std::string& explanation) { (void)error, (void)explanation; }
        /// Nothing is received any more, and the link knows it: the last that is heard of the connection.
        virtual void on_ended(const Error& error, const std::string& explanation) { (void)error, (void)explanation; }
    };

    /// The command lane's. @param handler  outlives it, as everywhere
    explicit Link(Handler& handler, LinkOptions options = {});
    /// A bulk lane's: carries parts of long payloads, both ways, and nothing else. Not attached yet.
    /// @param outbox  the session's @param lane  1 to k_max_bulk_lanes
    Link(Handler& handler, Outbox& outbox, uint16_t lane, LinkOptions options);

    Outbox& outbox() { return m_outbox; }
    uint16_t lane() const { return m_lane; }

    // --- for the reading thread ---
    MutableBytesView receive_space() { return m_reader.space(); }
    /// @param count  0: bytes came that are not complete yet; the peer is not silent
    /// @errors       malformed, version_mismatch, or the handler's; end the connection then
    Result<void> received(size_t count);
    /// The handshake has agreed on these. @thread reading
    void accept_codecs(uint32_t codecs) { m_reader.accept_codecs(codecs); }
    /// Parts of payloads from the peer may lie in this memory from now on. @thread reading
    void share_in(MutableBytesView memory) {
        m_shared_in = memory;
        // They come faster than over any socket, and each acknowledgement wakes somebody.
        m_receive.acknowledge_after(2u << 20);
        m_reader.accept_shared();
    }
    /// In all, of parts that lay there. @thread any
    uint64_t shared_bytes_received() const { return m_shared_bytes_received.load(std::memory_order_relaxed); }
    /// After received(): an acknowledgement waits that nobody has been woken for.
    bool flush_due() { return std::exchange(m_flush_due, false); }
    /// To be called now and then (several times per heartbeat interval), also when nothing arrives.
    /// @param unacknowledged_for  see Heartbeat::tick
    /// @errors                    connection_lost: the peer is silent
    Result<void> tick(Clock::time_point now, std::optional<std::chrono::milliseconds> unacknowledged_for = {});
    /// The last act of the thread that has read: the link waits for another connection, or is closed with the error.
    void connection_ended(const Error& error, const std::string& explanation);

    /// A few Pings leave, one after the other, while nothing waits in queues yet: what the way holds follows from the shortest
    /// round trip. Once. @thread any
    void measure_round_trip();
    /// What the kernel knows of the way to the peer. @thread reading
    void set_path(const KernelPath& path) { m_kernel = path; }
    /// What the socket may have and not have sent; 0: as many bytes as it likes. @thread reading
    uint64_t unsent_bytes() const { return m_fit.unsent_bytes; }

    // --- for the writing thread ---
    bool wait_for_output() { return m_outbox.wait(m_lane); }
    void wake_writer() { m_outbox.poke(m_lane); }
    bool take_output(std::vector<BytesView>& views);
    void output_sent();
    /// To be called between pieces of a long output.
    void between_pieces() { let_calls_pass(m_writing); }
    bool may_flush() const { return m_outbox.small_enough_to_flush(m_lane); }

    // --- another connection in the place of one that is lost: while no thread reads or writes ---
    /// What was half received is forgotten, what is not acknowledged waits to be sent again. Wakes the writing thread, which
    /// ends.
    void detach();
    /// @param received  the highest sequence number that the peer says it has
    /// @errors          malformed
    Result<void> attach(uint64_t received);
    /// The highest sequence number that has been received, and handed on.
    uint64_t received_sequence() const { return m_receive.received(); }

    /// Ends the sending side: see Outbox::close.
    void close(Error error, bool abandon) { m_outbox.close(error, abandon); }
    /// Sends Close with a reason, after all that is queued, and ends the sending side.
    void say_goodbye(Code code, std::string_view reason);
    /// Says goodbye because of what the peer has sent. @thread reading
    void refuse(const Error& error, const std::string& explanation);
    /// Only sends Close: the connection stays until the peer ends it, which so can say all that it has to say.
    void announce_end(Code code, std::string_view reason);

    /// As it was at the last look at the clock, and the rates of now. @thread any
    LinkQuality quality() const WL_EXCLUDES(m_quality_mutex);
    uint64_t bytes_received() const { return m_bytes_received.load(std::memory_order_relaxed); }
    uint64_t frames_received() const { return m_frames_received.load(std::memory_order_relaxed); }
    bool at_boundary() const { return m_reader.at_boundary(); }

private:
    Result<void> on_frame(Frame frame) override;
    Result<Place> place_payload(const FrameHeader& header, BytesView body) override;
    Result<Place> shared_payload(const FrameHeader& header, BytesView body, uint64_t where) override;
    Deliveries deliveries() const override { return m_outbox.deliveries(m_lane); }
    void renew(uint8_t way) override { m_outbox.renew_delivery(m_lane, way); }
    Result<bool> handle_own(const Frame& frame);
    /// What a thread of a bulk lane has seen of the command lane.
    struct Courtesy {
        uint64_t traffic = 0;
        unsigned pieces = 0;  ///< after which it still lets others pass
    };
    void let_calls_pass(Courtesy& courtesy);
    void tell_level();
    void note_quality(Clock::time_point now) WL_EXCLUDES(m_quality_mutex);
    void set_window(Clock::time_point now);
    RateWindow::Totals totals() const;

    Link(Handler& handler, std::unique_ptr<Outbox> own, Outbox* shared, uint16_t lane, const LinkOptions& options);

    Handler& m_handler;
    TrafficObserver* const m_observer;
    const uint16_t m_lane;
    const uint64_t m_first_window_bytes;
    const uint32_t m_most_part_bytes;
    const bool m_fits_link;
    const std::unique_ptr<Outbox> m_own_outbox;  // the command lane's
    Outbox& m_outbox;
    FrameReader m_reader;
    ReceiveState m_receive;  // the reading thread's
    Heartbeat m_heartbeat;   // the reading thread's
    std::atomic<uint64_t> m_received_sequence{
        0};  // written by the reading thread, read by the writing one; nothing depends on its order
    std::atomic<int64_t> m_last_sent_ns{0};  // written by the writing thread, read by the reading one; likewise
    std::atomic<int64_t> m_asked_ns{0};      // when the first Ping was asked for, until its Pong comes; 0: it was not
    std::atomic<uint64_t> m_bytes_received{0};
    std::atomic<uint64_t> m_frames_received{0};
    std::atomic<uint64_t> m_shared_bytes_received{0};
    MutableBytesView m_shared_in;      // the reading thread's
    KernelPath m_kernel;               // the reading thread's
    PathMeter m_path;                  // likewise
    LinkFit m_fit;                     // likewise
    unsigned m_first_round_trips = 0;  // likewise
    uint64_t m_acknowledged = 0;       // the reading thread's: the last one passed on
    Courtesy m_reading;                // the reading thread's
    bool m_flush_due = false;          // likewise
    Courtesy m_writing;                // the writing thread's
    FrameEncoder m_encoder;            // likewise, and
    std::vector<OutFrame*> m_taken;    // likewise
    mutable Mutex m_quality_mutex;     // taken a few times per second, not per frame
    LinkQuality m_quality WL_GUARDED_BY(m_quality_mutex);
    RateWindow m_rates WL_GUARDED_BY(m_quality_mutex);
};

/// Reads the fields of a Bulk frame's body.
/// @errors  malformed: also if the part lies outside of the whole
Result<BulkHeader> read_bulk_header(BytesView body, size_t payload_bytes);

}  // namespace warpline::protocol
