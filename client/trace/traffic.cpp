// Frames on their way, and the server's calls on this machine's clock.
#include "client/trace/traffic.h"

#include <algorithm>
#include <cstring>

#include "client/trace/trace.h"
#include "compress/policy.h"
#include "cuda/gen/call_id.gen.h"
#include "protocol/codec/executed.h"
#include "protocol/codec/message.h"
#include "protocol/codec/outbox.h"
#include "protocol/schema/envelope.capnp.h"

namespace warpline::client::trace {

namespace {

constexpr unsigned k_first_round_trips = 8;    // one after the other, at the start
constexpr size_t k_sampled_bytes = 32 * 1024;  // of smaller payloads a sample costs too much
constexpr size_t k_codec_offset = 6;           // docs/wire-format.md#frame-header

int64_t as_ns(uint64_t us) { return static_cast<int64_t>(us * 1000); }

constexpr const char* k_host_call = "host call";  // the server asks for a function of the program's

const char* name_of(protocol::FrameKind kind) {
    switch (kind) {
        case protocol::FrameKind::hello: return "hello";
        case protocol::FrameKind::hello_reply: return "hello reply";
        case protocol::FrameKind::batch: return "batch";
        case protocol::FrameKind::reply: return "reply";
        case protocol::FrameKind::bulk: return "part";
        case protocol::FrameKind::event: return "event";
        case protocol::FrameKind::ping: return "ping";
        case protocol::FrameKind::pong: return "pong";
        case protocol::FrameKind::close: return "close";
        default: return "frame";
    }
}

/// Which call a frame of ours belongs to.
uint64_t call_of_part(BytesView body) {
    uint64_t call = 0;
    static_cast<void>(protocol::read_message<wire::Bulk>(body, [&](wire::Bulk::Reader bulk) { call = bulk.getCall(); }));
    return call;
}

/// A frame of ours: the first call, and how many.
void describe_calls(const protocol::OutFrame& frame, Event& event) {
    const BytesView body = frame.body.view();
    if (frame.header.kind == protocol::FrameKind::bulk) {
        event.first = call_of_part(body);
        event.count = 1;
    } else if (frame.header.kind == protocol::FrameKind::batch && body.size() >= protocol::k_batch_header_bytes) {
        std::memcpy(&event.first, body.data(), sizeof event.first);
        std::memcpy(&event.count, body.data() + sizeof event.first, sizeof event.count);
    }
}

/// A frame of the server's.
void describe_calls(const protocol::Frame& frame, Event& event) {
    const BytesView body = frame.body.view();
    event.count = 1;
    if (frame.header.kind == protocol::FrameKind::bulk) {
        event.first = call_of_part(body);
    } else if (frame.header.kind == protocol::FrameKind::reply) {
        static_cast<void>(
            protocol::read_message<wire::Reply>(body, [&](wire::Reply::Reader reply) { event.first = reply.getCall(); }));
    } else if (frame.header.kind == protocol::FrameKind::event) {
        static_cast<void>(protocol::read_message<wire::Event>(body, [&](wire::Event::Reader news) {
            if (news.isCopyDone()) event.first = news.getCopyDone().getCall();
            if (news.isHostCall()) event.name = k_host_call;
        }));
    }
    if (event.first == 0) event.count = 0;
}

}  // namespace

void Traffic::measure(protocol::Outbox& outbox) {
    const compress::Wish agreed = outbox.encoding().agreed();
    if (!agreed.forced) m_codecs.store(agreed.codecs);
    m_asks.store(&outbox);
    outbox.add_ping(protocol::k_command_lane);
}

// --- to the server ---

void Traffic::taken(uint16_t lane, std::span<protocol::OutFrame* const> frames) {
    std::vector<Event>& in_hand = m_in_hand[lane];
    in_hand.clear();
    if (!is_on()) return;
    const uint64_t now = now_ns();
    for (const protocol::OutFrame* frame : frames) {
        if (frame->header.kind == protocol::FrameKind::hello) {
            MutexLock lock(m_mutex);
            m_hello_sent_ns = static_cast<int64_t>(now);
        }
        Event event;
        event.kind = EventKind::sent;
        event.name = name_of(frame->header.kind);
        event.lane = lane;
        event.codec = std::to_integer<uint8_t>(frame->wire_header[k_codec_offset]);
        event.begin_ns = now;
        event.bytes = frame->raw_bytes();
        event.wire_bytes = event.bytes - frame->saved_bytes;
        describe_calls(*frame, event);
        if (event.codec == 0) add_shares(frame->payload_view(), event);
        in_hand.push_back(event);
    }
}

/// Frames of a burst leave one after the other: the time that it took is divided among them by their bytes.
void Traffic::sent(uint16_t lane) {
    std::vector<Event>& in_hand = m_in_hand[lane];
    if (in_hand.empty()) return;
    const uint64_t end = now_ns(), begin = in_hand.front().begin_ns;
    uint64_t all = 0, before = 0;
    for (const Event& event : in_hand) all += event.wire_bytes;
    const auto at = [&](uint64_t bytes) {
        return begin +
               static_cast<uint64_t>(static_cast<double>(end - begin) * static_cast<double>(bytes) / static_cast<double>(all));
    };
    for (Event& event : in_hand) {
        event.begin_ns = at(before);
        before += event.wire_bytes;
        event.end_ns = at(before);
        note(event);
    }
    in_hand.clear();
}

/// What compressing would make of it on slower links, by a sample.
void Traffic::add_shares(BytesView payload, Event& event) const {
    const compress::CodecSet codecs = m_codecs.load(std::memory_order_relaxed);
    if (payload.size() < k_sampled_bytes || codecs == 0) return;
    const compress::Sample sample(payload);
    for (size_t rate = 0; rate < k_share_rates.size(); ++rate)
        put_share(event, rate, compress::Policy::expected_share(sample, k_share_rates[rate] / 8, codecs));
}

void Traffic::blocked(protocol::BlockedBy by, std::chrono::steady_clock::time_point since) {
    Event event;
    event.kind = EventKind::blocked;
    event.name = by == protocol::BlockedBy::credit ? "credit" : "payload";
    event.begin_ns =
        static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since.time_since_epoch()).count());
    event.end_ns = now_ns();
    note(event);
}

// --- from the server ---

void Traffic::received(uint16_t lane, const protocol::Frame& frame) {
    if (!is_on()) return;
    const uint64_t now = now_ns();
    hear_clock(frame, now);
    Event event;
    event.kind = EventKind::received;
    event.name = name_of(frame.header.kind);
    event.lane = lane;
    event.codec = frame.header.codec;
    event.begin_ns = event.end_ns = now;
    event.bytes = protocol::k_frame_header_bytes + frame.header.body_bytes + frame.header.payload_raw_bytes;
    event.wire_bytes = event.bytes - frame.header.decoded_bytes() + frame.header.payload_bytes;
    describe_calls(frame, event);
    if (event.codec == 0) add_shares(frame.payload_view(), event);
    note(event);
}

/// Every frame of the server's says when it left there; a Pong, and the answer to Hello, also when the question had come.
void Traffic::hear_clock(const protocol::Frame& frame, uint64_t now_ns) {
    const auto now = static_cast<int64_t>(now_ns);
    // Its stamp has whole microseconds, and may be one too low.
    const int64_t there = as_ns(frame.header.timestamp_us);
    const bool pong = frame.header.kind == protocol::FrameKind::pong;
    uint64_t echo_us = 0;
    if (pong) static_cast<void>(read_at(frame.body.view(), 0, echo_us));
    MutexLock lock(m_mutex);
    m_clock.came(there, now);
    if (frame.header.kind == protocol::FrameKind::hello_reply && m_hello_sent_ns != 0)
        m_clock.left(m_hello_sent_ns, there + 1000);
    if (echo_us == 0) return;
    m_clock.left(as_ns(echo_us), there + 1000);
    Event event;
    event.kind = EventKind::round_trip;
    event.name = "round trip, us";
    event.begin_ns = event.end_ns = now_ns;
    event.first = static_cast<uint64_t>(std::max<int64_t>(now - as_ns(echo_us), 0));
    note(event);
    protocol::Outbox* const asks = m_asks.load();
    if (asks != nullptr && ++m_round_trips < k_first_round_trips) asks->add_ping(protocol::k_command_lane);
}

void Traffic::note_clock(int64_t now_ns) {
    const auto known = m_clock.at(now_ns);
    if (!known) return;
    Event event;
    event.kind = EventKind::clocks;
    event.name = "server clock, +- us";
    event.begin_ns = event.end_ns = static_cast<uint64_t>(now_ns);
    event.first = static_cast<uint64_t>(known->error_ns);
    note(event);
}

Result<void> Traffic::executed(BytesView list, size_t count, uint64_t dropped) {
    const auto calls = WL_TRY(protocol::decode_executed(list, count));
    note_dropped(dropped);
    MutexLock lock(m_mutex);
    const auto now = static_cast<int64_t>(now_ns());
    const auto clock = m_clock.at(now);
    if (!clock) return {};
    note_clock(now);
    for (const protocol::ExecutedCall& call : calls) {
        Event event;
        event.kind = EventKind::executed;
        event.name = cuda::call_name(static_cast<cuda::CallId>(call.id));
        event.track = call.thread;
        // A thread executes one call after the other, whatever has been learnt of its clock between two of them.
        uint64_t& until_ns = m_executed_until_ns[event.track];
        const uint64_t begin_ns = call.begin_ns - static_cast<uint64_t>(clock->ahead_ns);
        event.begin_ns = std::max(begin_ns, until_ns);
        event.end_ns = std::max(begin_ns + call.duration_ns, event.begin_ns);
        until_ns = event.end_ns;
        event.first = call.number;
        note(event);
    }
    return {};
}

}  // namespace warpline::client::trace
