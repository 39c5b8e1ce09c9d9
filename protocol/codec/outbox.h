#pragma once

#include <deque>
#include <span>
#include <vector>

#include "common/base/mutex.h"
#include "protocol/codec/batch.h"
#include "protocol/codec/session_state.h"

namespace warpline::protocol {

/// Who brings the frames to the socket.
enum class Urgency : uint8_t {
    /// The writer thread, woken if it sleeps. For everything that nobody waits for.
    writer,
    /// The caller itself, who calls net::ChannelPump::flush() next: saves a change of threads on a round trip.
    caller,
};

struct OutboxOptions {
    FrameLimits frame_limits;                  ///< what the peer accepts
    size_t batch_body_bytes = 256 * 1024;      ///< an open batch is closed beyond this
    size_t batch_payload_bytes = 1024 * 1024;  ///< likewise
    uint32_t chunk_bytes = 1024 * 1024;        ///< Bulk frames are of this size; longer payloads are cut
    size_t max_queued_bytes = 16u << 20;       ///< add_bulk() and add_message() wait while more than this is queued
    size_t flush_limit_bytes = 64 * 1024;      ///< more than this is left to the writing thread
    size_t retain_limit_bytes = 0;             ///< unacknowledged frames kept for a resume; 0: none are kept
};

/// The sending half of a lane: calls are gathered into batches, frames are queued in order, a writer takes what has come
/// together as one burst. Knows no socket and owns no thread; every method may be called by any thread.
///
/// Order on the wire is the order of the add_… calls. After close() every add_… returns the error given there.
class Outbox {
public:
    explicit Outbox(OutboxOptions options = {});
    ~Outbox();

    // --- calls (the client's side) ---

    /// Gives the window that the server granted. Before it the default of CreditLimits holds.
    void set_credit(CreditLimits limits);
    /// The server's report of what is executed. @errors malformed
    Result<void> progress(uint64_t calls, uint64_t bytes);

    /// Adds a call to the open batch.
    ///
    /// @param max_words  see BatchBuilder::append
    /// @param fill       `fill(typename Wire::Builder)`
    /// @param on_number  `on_number(uint64_t)`: told the call's number before the call can leave, under the outbox's lock: the
    ///                   place to register who waits for the reply. Must not call the outbox
    /// @param payload    copied; at most `chunk_bytes` (else use add_streamed_call)
    /// @return           the call's number
    /// @errors           malformed (max_words too small), quota (too large), alloc_failed, and the error of close()
    /// @blocks           while the credit is used up, or while another thread streams a payload
    template <typename Wire, typename F, typename N>
    Result<uint64_t> add_call(const CallHeader& header, unsigned max_words, F&& fill, N&& on_number, BytesView payload = {},
                              Urgency urgency = Urgency::writer) {
        MutexLock lock(m_mutex);
        WL_TRY(wait_for_turn(call_cost(max_words, payload.size()), payload.size()));
        size_t cost = WL_TRY(m_batch.template append<Wire>(header, max_words, fill, payload));
        uint64_t number = call_added(cost);
        on_number(number);
        bool wake = writer_must_wake(urgency);
        lock.unlock();
        if (wake) m_writer_wake.notify_one();
        return number;
    }

    /// Adds a call with a payload of any size, which is sent straight from the caller's memory in Bulk frames. Returns when all
    /// of it has been handed to the socket (or failed): the memory may then change.
    ///
    /// @blocks  until the payload has left; the server's execution gives credit for it, so that can be long
    template <typename Wire, typename F, typename N>
    Result<uint64_t> add_streamed_call(const CallHeader& header, unsigned max_words, F&& fill, N&& on_number,
                                       BytesView payload) {
        uint64_t number = 0;
        {
            MutexLock lock(m_mutex);
            WL_TRY(wait_for_turn(call_cost(max_words, 0), 0));
            size_t cost = WL_TRY(m_batch.template append_streamed<Wire>(header, max_words, fill, payload.size()));
            number = call_added(cost);
            on_number(number);
            begin_stream();
        }
        WL_TRY(stream_payload(number, payload));
        return number;
    }

    // --- other frames (both sides) ---

    /// Queues a frame whose body is one message. Closes the open batch, so that order is kept.
    /// @param payload  copied
    /// @blocks         while more than max_queued_bytes are queued, for sequenced kinds
    template <typename Wire, typename F>
    Result<void> add_message(FrameKind kind, unsigned max_words, F&& fill, BytesView payload = {},
                             Urgency urgency = Urgency::writer) {
        OutFrame frame = take_free();
        WL_TRY(build_body(frame.body, max_words + 1, [&](capnp::MessageBuilder& message) { fill(message.initRoot<Wire>()); }));
        return add_frame(kind, std::move(frame), payload, urgency);
    }

    /// Queues a frame with a body that is already encoded (build_message()).
    Result<void> add_body(FrameKind kind, Buffer body, BytesView payload = {}, Urgency urgency = Urgency::writer);

    /// Queues a Pong; while one waits to leave, that one answers. So a peer that asks, and does not listen, costs one frame.
    /// @param echo_us  the time stamp of the Ping; 0: it only acknowledges @blocks no
    Result<void> add_pong(uint64_t echo_us);

    /// Queues part of a payload for the peer without copying it. `chunk` must stay as it is until wait_sent(ticket) returns.
    ///
    /// @return  a ticket for wait_sent()
    /// @errors  bad_argument (chunk larger than chunk_bytes), and the error of close()
    /// @blocks  while more than max_queued_bytes are queued
    Result<uint64_t> add_bulk(uint64_t call, uint64_t offset, uint64_t total, BytesView chunk);

    /// Waits until the frame with this ticket has been handed to the socket, or never will be. In both cases its memory is
    /// free.
    /// @errors  the error of close(), if it was not sent
    Result<void> wait_sent(uint64_t ticket);

    /// Cuts a payload into Bulk frames and waits until all have left: what precedes a Reply or CopyDone with a long payload.
    Result<void> send_payload(uint64_t call, BytesView payload);

    // --- the writer's side: one thread at a time, as net::ChannelPump ensures ---

    /// Takes all that is queued, numbered and stamped with this acknowledgement, as views in wire order. The views stay valid
    /// until sent(). False if there is nothing.
    bool take(std::vector<BytesView>& views, uint64_t acknowledgement);
    /// What take() gave has been handed to the socket.
    void sent();
    /// Waits until there is something to take. False after close() once all has been taken, or at once if `abandon` was asked
    /// for.
    bool wait();
    /// Makes wait() return true once, with or without output.
    void poke();

    /// True if the writer may be skipped: nothing large waits.
    bool small_enough_to_flush() const;

    // --- acknowledgement, end ---

    /// @errors  malformed
    Result<void> acknowledge(uint64_t sequence);
    /// No further frames. With abandon, what is queued is dropped and every waiter wakes with the error; else it is still sent.
    void close(Error error, bool abandon);
    bool closed() const;

    uint64_t last_call() const;
    size_t queued_bytes() const;
    /// True while somebody waits for credit, for room, or for a frame to leave.
    bool has_waiters() const;

    struct Counters {
        uint64_t frames = 0, batches = 0, calls = 0, bytes = 0, payload_bytes = 0, bursts = 0, credit_waits = 0;
    };
    Counters counters() const;

private:
    static uint64_t call_cost(unsigned max_words, size_t payload_bytes) {
        return (uint64_t{max_words} + k_call_words + 1) * 8 + payload_bytes;
    }
    Result<void> wait_for_turn(uint64_t cost, size_t payload_bytes) WL_REQUIRES(m_mutex);
    uint64_t call_added(size_t cost) WL_REQUIRES(m_mutex);
    bool writer_must_wake(Urgency urgency) WL_REQUIRES(m_mutex);
    void begin_stream() WL_REQUIRES(m_mutex);
    Result<void> stream_payload(uint64_t call, BytesView payload);
    Result<uint64_t> queue_bulk(uint64_t call, uint64_t offset, uint64_t total, BytesView chunk, bool counts_credit);
    bool has_output() const WL_REQUIRES(m_mutex) { return !m_batch.empty() || m_queue_begin < m_queue.size(); }
    void wait_for_change() WL_REQUIRES(m_mutex);
    void tell_change() WL_REQUIRES(m_mutex);
    void close_batch() WL_REQUIRES(m_mutex);
    uint64_t push(FrameKind kind, OutFrame frame) WL_REQUIRES(m_mutex);
    Result<void> wait_for_room() WL_REQUIRES(m_mutex);
    Result<void> add_frame(FrameKind kind, OutFrame frame, BytesView payload, Urgency urgency);
    OutFrame take_free();
    OutFrame free_frame() WL_REQUIRES(m_mutex);
    void recycle(OutFrame frame) WL_REQUIRES(m_mutex);

    template <typename F>
    static Result<void> build_body(Buffer& body, unsigned max_words, F&& build);

    const OutboxOptions m_options;
    mutable Mutex m_mutex;
    ConditionVariable m_writer_wake;
    ConditionVariable m_changed;  // credit, room, sent, stream ended, closed
    BatchBuilder m_batch WL_GUARDED_BY(m_mutex);
    std::vector<OutFrame> m_queue WL_GUARDED_BY(m_mutex);  // from m_queue_begin on
    size_t m_queue_begin WL_GUARDED_BY(m_mutex) = 0;
    std::vector<OutFrame> m_taken;  // the writer's
    std::vector<OutFrame> m_free WL_GUARDED_BY(m_mutex);
    SendState m_send WL_GUARDED_BY(m_mutex);
    CreditAccount m_credit WL_GUARDED_BY(m_mutex);
    uint64_t m_next_call WL_GUARDED_BY(m_mutex) = 1;
    uint64_t m_next_ticket WL_GUARDED_BY(m_mutex) = 1;
    uint64_t m_sent_ticket WL_GUARDED_BY(m_mutex) = 0;
    size_t m_queued_bytes WL_GUARDED_BY(m_mutex) = 0;
    unsigned m_waiters WL_GUARDED_BY(m_mutex) = 0;  // of m_changed
    bool m_writer_sleeps WL_GUARDED_BY(m_mutex) = false;
    bool m_poked WL_GUARDED_BY(m_mutex) = false;
    bool m_streaming WL_GUARDED_BY(m_mutex) = false;
    bool m_closed WL_GUARDED_BY(m_mutex) = false;
    bool m_abandoned WL_GUARDED_BY(m_mutex) = false;
    bool m_pong_queued WL_GUARDED_BY(m_mutex) = false;
    uint64_t m_pong_echo_us WL_GUARDED_BY(m_mutex) = 0;  // of the Pong in the queue
    bool m_writing WL_GUARDED_BY(m_mutex) = false;       // between take() and sent()
    Error m_error WL_GUARDED_BY(m_mutex){Code::ok};
    Counters m_counters WL_GUARDED_BY(m_mutex);
};

template <typename F>
Result<void> Outbox::build_body(Buffer& body, unsigned max_words, F&& build) {
    size_t bytes = (size_t{max_words} + 1) * 8;
    if (!body.resize(bytes)) return Error{Code::alloc_failed, "no memory for a message"};
    std::memset(body.data(), 0, bytes);
    return guarded([&]() -> Result<void> {
        capnp::FlatMessageBuilder message(kj::arrayPtr(reinterpret_cast<capnp::word*>(body.data() + 8), max_words));
        build(message);
        uint32_t words = static_cast<uint32_t>(message.getSegmentsForOutput()[0].size());
        std::memcpy(body.data() + 4, &words, sizeof words);
        if (!body.resize((size_t{words} + 1) * 8)) return Error{Code::alloc_failed, "no memory for a message"};
        return {};
    });
}

}  // namespace warpline::protocol
