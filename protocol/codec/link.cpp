// What becomes of each frame that arrives.
#include "protocol/codec/link.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace warpline::protocol {

namespace {

constexpr unsigned k_first_round_trips = 3;

int64_t nanoseconds(Clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

const PartRange& parts_of(uint16_t lane) { return lane == k_command_lane ? k_command_parts : k_bulk_parts; }

}  // namespace

Result<BulkHeader> read_bulk_header(BytesView body, size_t payload_bytes) {
    return read_message<wire::Bulk>(body, [&](wire::Bulk::Reader bulk) -> Result<BulkHeader> {
        BulkHeader header{bulk.getCall(), bulk.getOffset(), bulk.getTotal(), bulk.getKeep()};
        if (payload_bytes == 0) return malformed("a part of a payload is empty");
        if (header.offset > header.total || payload_bytes > header.total - header.offset)
            return malformed("a part of a payload lies outside of it");
        return header;
    });
}

Link::Link(Handler& handler, LinkOptions options)
    : Link(handler, std::make_unique<Outbox>(options.outbox), nullptr, k_command_lane, options) {}

Link::Link(Handler& handler, Outbox& outbox, uint16_t lane, LinkOptions options)
    : Link(handler, nullptr, &outbox, lane, options) {}

Link::Link(Handler& handler, std::unique_ptr<Outbox> own, Outbox* shared, uint16_t lane, const LinkOptions& options)
    : m_handler(handler),
      m_observer(options.observer),
      m_lane(lane),
      m_first_window_bytes(options.outbox.window_bytes),
      m_most_part_bytes(lane == k_command_lane ? options.outbox.part_bytes : options.outbox.bulk_part_bytes),
      m_fits_link(options.fits_link),
      m_own_outbox(std::move(own)),
      m_outbox(shared != nullptr ? *shared : *m_own_outbox),
      m_reader(*this, options.receive_limits),
      m_heartbeat(options.heartbeat, Clock::now()),
      m_last_sent_ns(nanoseconds(Clock::now())),
      m_encoder(m_outbox.encoding(), *this),
      m_rates(Clock::now()) {
    m_reader.accept_codecs(options.codecs);
    MutexLock lock(m_quality_mutex);
    m_heartbeat.describe(m_quality);
}

Result<void> Link::received(size_t count) {
    m_bytes_received.fetch_add(count, std::memory_order_relaxed);
    m_heartbeat.received(Clock::now(), count == 0 ? Heartbeat::Came::part : Heartbeat::Came::whole);
    if (m_heartbeat.has_change()) [[unlikely]]
        tell_level();
    if (m_lane == k_command_lane) m_outbox.note_command_traffic();
    let_calls_pass(m_reading);
    if (count == 0) return {};
    return m_reader.commit(count);
}

/// On a bulk lane, between two pieces: ciphers and copies keep processors busy for milliseconds, and where those are few, each
/// thread that a call wakes would wait for them. Nothing is given away while there are no calls.
void Link::let_calls_pass(Courtesy& courtesy) {
    // A call is seen here when it has left or come; who is to be let pass may have been woken by the one before.
    constexpr unsigned k_pieces = 50;
    if (m_lane == k_command_lane) return;
    const uint64_t now = m_outbox.command_traffic();
    if (std::exchange(courtesy.traffic, now) != now) courtesy.pieces = k_pieces;
    if (courtesy.pieces == 0) return;
    --courtesy.pieces;
    std::this_thread::yield();
}

Result<void> Link::tick(Clock::time_point now, std::optional<std::chrono::milliseconds> unacknowledged_for) {
    m_heartbeat.sent(Clock::time_point(std::chrono::nanoseconds(m_last_sent_ns.load(std::memory_order_relaxed))));
    const Heartbeat::Action action = m_heartbeat.tick(now, unacknowledged_for);
    note_quality(now);
    set_window(now);
    if (m_heartbeat.has_change()) tell_level();
    m_handler.on_tick();
    switch (action) {
        case Heartbeat::Action::none: break;
        case Heartbeat::Action::ping: m_outbox.add_ping(m_lane); break;
        case Heartbeat::Action::lost:
            return Error{Code::connection_lost, "the other side has been silent, or in the middle of something, for too long"};
    }
    return {};
}

void Link::set_window(Clock::time_point now) {
    if (m_lane == k_command_lane) m_outbox.note_round_trip(m_heartbeat.minimum_round_trip_us());
    m_path.look(now, m_outbox.delivered_bytes(m_lane), m_outbox.round_trip_us());
    const uint64_t bytes = std::max(m_kernel.capacity_bytes, m_path.capacity_bytes());
    m_fit = fit_to_link(parts_of(m_lane), m_most_part_bytes, m_fits_link ? least_cost(m_outbox.deliveries(m_lane).costs) : 0);
    // Twice: what is sent fills the path while the acknowledgement of what was sent before comes back. It grows as long as more
    // of it makes the connection faster.
    uint64_t window_bytes = m_first_window_bytes;
    if (m_outbox.encoding().shared() != nullptr) {
        // What lies in shared memory waits in no queue, and is acknowledged in larger portions.
        m_outbox.set_window(m_lane, window_bytes);
    } else if (bytes != 0) {
        window_bytes = m_fit.least_window_bytes + 2 * bytes;
        m_outbox.set_window(m_lane, window_bytes, m_fit.part_bytes);
    }
    MutexLock lock(m_quality_mutex);
    m_quality.part_bytes = m_fit.part_bytes;
    m_quality.window_bytes = window_bytes;
    m_quality.kernel = m_kernel;
}

void Link::measure_round_trip() {
    m_asked_ns.store(nanoseconds(Clock::now()), std::memory_order_relaxed);
    m_outbox.add_ping(m_lane);
}

void Link::tell_level() {
    if (auto change = m_heartbeat.take_change()) m_handler.on_level(*change);
}

RateWindow::Totals Link::totals() const { return {m_outbox.wire_bytes(m_lane), bytes_received()}; }

void Link::note_quality(Clock::time_point now) {
    const RateWindow::Totals totals = this->totals();
    MutexLock lock(m_quality_mutex);
    m_heartbeat.describe(m_quality);
    m_rates.add(now, totals);
}

LinkQuality Link::quality() const {
    const Clock::time_point now = Clock::now();
    const RateWindow::Totals totals = this->totals();
    MutexLock lock(m_quality_mutex);
    LinkQuality quality = m_quality;
    const RateWindow::Totals rates = m_rates.rate(now, totals);
    quality.sent_bytes_per_s = rates.sent_bytes;
    quality.received_bytes_per_s = rates.received_bytes;
    return quality;
}

bool Link::take_output(std::vector<BytesView>& views) {
    m_taken.clear();
    if (!m_outbox.take(m_lane, m_taken, m_received_sequence.load(std::memory_order_relaxed))) return false;
    m_encoder.encode(m_taken, views);
    if (m_observer != nullptr) [[unlikely]]
        m_observer->taken(m_lane, m_taken);
    if (m_lane == k_command_lane) m_outbox.note_command_traffic();
    m_last_sent_ns.store(nanoseconds(Clock::now()), std::memory_order_relaxed);
    return true;
}

void Link::output_sent() {
    // Before anybody else may have the frames.
    if (m_observer != nullptr) [[unlikely]]
        m_observer->sent(m_lane);
    m_outbox.sent(m_lane);
}

void Link::connection_ended(const Error& error, const std::string& explanation) {
    if (m_handler.keeps()) {
        detach();
    } else {
        m_handler.on_closing(error, explanation);
        close(error, true);
    }
    m_handler.on_ended(error, explanation);
}

void Link::detach() {
    m_outbox.detach(m_lane);
    m_reader.reset();
}

Result<void> Link::attach(uint64_t received) {
    // What this side has is told in the handshake: the new connection owes nothing.
    m_receive.acknowledgement_left();
    m_heartbeat.restart(Clock::now());
    m_last_sent_ns.store(nanoseconds(Clock::now()), std::memory_order_relaxed);
    WL_TRY(m_outbox.attach(m_lane, received));
    m_acknowledged = std::max(m_acknowledged, received);
    return {};
}

void Link::announce_end(Code code, std::string_view reason) {
    auto body = build_message<wire::Close>([&](wire::Close::Builder close) {
        close.setReason(kj::StringPtr(std::string(reason).c_str()));
        close.setCode(static_cast<uint16_t>(code));
    });
    if (body.ok()) (void)m_outbox.add_body(FrameKind::close, std::move(*body));
}

void Link::say_goodbye(Code code, std::string_view reason) {
    announce_end(code, reason);
    m_outbox.close(Error{Code::shutting_down, "the connection has been closed"}, false);
}

void Link::refuse(const Error& error, const std::string& explanation) {
    m_handler.on_closing(error, explanation);
    say_goodbye(error.code, error.what);
}

Result<Place> Link::place_payload(const FrameHeader& header, BytesView body) {
    // A duplicate must not be written over what the program has done with its memory since.
    if (header.sequence <= m_receive.received()) return Place{};
    BulkHeader bulk = WL_TRY(read_bulk_header(body, header.payload_raw_bytes));
    return m_handler.place_payload(bulk.call, bulk.offset, bulk.total, header.payload_raw_bytes);
}

Result<Place> Link::shared_payload(const FrameHeader& header, BytesView body, uint64_t where) {
    const size_t bytes = header.payload_raw_bytes;
    if (where > m_shared_in.size() || bytes > m_shared_in.size() - where)
        return malformed("a payload lies outside of the shared memory");
    if (header.sequence <= m_receive.received()) return Place{};
    BulkHeader bulk = WL_TRY(read_bulk_header(body, bytes));
    m_shared_bytes_received.fetch_add(bytes, std::memory_order_relaxed);
    return m_handler.take_shared(bulk.call, bulk.offset, bulk.total, m_shared_in.subspan(where, bytes));
}

Result<void> Link::on_frame(Frame frame) {
    const FrameHeader& header = frame.header;
    m_frames_received.fetch_add(1, std::memory_order_relaxed);
    if (m_observer != nullptr) [[unlikely]]
        m_observer->received(m_lane, frame);
    if (header.acknowledgement > m_acknowledged) {
        WL_TRY(m_outbox.acknowledge(m_lane, header.acknowledgement));
        m_acknowledged = header.acknowledgement;
    }
    if (WL_TRY(m_receive.accept(header)) == ReceiveState::Verdict::duplicate) return {};
    m_received_sequence.store(m_receive.received(), std::memory_order_relaxed);
    if (header.codec != 0)
        m_outbox.encoding().count_received(static_cast<compress::Codec>(header.codec),
                                           {header.decoded_bytes(), header.payload_bytes});
    if (m_receive.acknowledgement_due()) {
        m_receive.acknowledgement_left();
        // Where nothing else may wait to leave, who reads writes it: that saves a change of threads for each part.
        m_flush_due = m_lane != k_command_lane || !m_shared_in.empty();
        m_outbox.add_pong(m_lane, 0, m_flush_due ? Urgency::caller : Urgency::writer);
    }
    if (WL_TRY(handle_own(frame))) return {};
    if (m_lane != k_command_lane && header.kind != FrameKind::bulk)
        return malformed("a frame is on a lane where none is allowed");
    return m_handler.on_frame(std::move(frame));
}

// True if the frame is no matter of the handler's.
Result<bool> Link::handle_own(const Frame& frame) {
    switch (frame.header.kind) {
        case FrameKind::ping:
            if (!frame.body.empty() || frame.header.payload_bytes != 0) return malformed("a Ping is not empty");
            m_outbox.add_pong(m_lane, frame.header.timestamp_us);
            return true;
        case FrameKind::pong: {
            uint64_t echo_us = 0;
            if (frame.body.size() != sizeof echo_us || !read_at(frame.body.view(), 0, echo_us))
                return malformed("a Pong has a wrong size");
            const Clock::time_point now = Clock::now();
            const int64_t asked_ns = m_asked_ns.exchange(0, std::memory_order_relaxed);
            if (asked_ns != 0) m_heartbeat.asked(Clock::time_point(std::chrono::nanoseconds(asked_ns)));
            m_heartbeat.pong(echo_us, now);
            // A processor that does something else may have made the first ones long.
            if (asked_ns != 0 && ++m_first_round_trips < k_first_round_trips) measure_round_trip();
            if (echo_us != 0) note_quality(now);
            return true;
        }
        case FrameKind::event:
            return read_message<wire::Event>(frame.body.view(), [&](wire::Event::Reader event) -> Result<bool> {
                if (event.which() == wire::Event::OFFERED) {
                    // At once, also where what the program sees waits for parts on other lanes: bytes are held back for it.
                    const auto answer = event.getOffered();
                    WL_TRY(m_outbox.offered(answer.getCall(), answer.getOffset(), answer.getCount(), answer.getHas(),
                                            answer.getOnlyAsks()));
                    return true;
                }
                if (event.which() != wire::Event::PROGRESS) return false;
                const auto report = event.getProgress();
                WL_TRY(m_outbox.slots_freed(report.getFreedSlots()));
                WL_TRY(m_outbox.progress(report.getCalls(), report.getBytes()));
                return true;
            });
        case FrameKind::resume: return Error{Code::unsupported, "this version does not resume sessions"};
        default: return false;
    }
}

}  // namespace warpline::protocol
