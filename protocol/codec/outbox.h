// The sending half of a session.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/run_queue.h"
#include "common/base/wait_list.h"
#include "protocol/codec/batch.h"
#include "protocol/codec/encoding.h"
#include "protocol/codec/offer_policy.h"
#include "protocol/codec/out_lane.h"
#include "protocol/codec/session_state.h"
#include "protocol/codec/traffic.h"

namespace warpline::protocol {

/// Until when the memory of a long payload stays as it is.
enum class Lent : uint8_t {
    until_return,      ///< of the call that sends it
    until_given_back,  ///< Outbox::give_back()
};

/// Who brings the frames to the socket.
enum class Urgency : uint8_t {
    /// The writer thread, woken if it sleeps. For everything that nobody waits for.
    writer,
    /// The caller itself, who calls net::ChannelPump::flush() next: saves a change of threads on a round trip.
    caller,
};

struct OutboxOptions {
    FrameLimits frame_limits;                  ///< what the peer accepts
    size_t batch_body_bytes = 256 * 1024;      ///< an open batch is closed beyond this, counted as messages
    size_t batch_payload_bytes = 1024 * 1024;  ///< likewise
    uint32_t chunk_bytes = 1024 * 1024;        ///< longer payloads travel apart from their call, in Bulk frames
    uint32_t part_bytes = 256 * 1024;          ///< of a payload on the command lane: a call waits for one part at most
    uint32_t bulk_part_bytes = 1024 * 1024;    ///< on bulk lanes, where nothing waits: each part costs some changes of threads
    size_t max_queued_bytes = 16u << 20;       ///< add_bulk() and add_message() wait while more than this is queued
    size_t flush_limit_bytes = 64 * 1024;      ///< more than this is left to the writing thread
    /// Parts of long payloads leave while less than this is sent and not acknowledged, until set_window(): what is in queues on
    /// the way keeps calls waiting.
    uint64_t window_bytes = 4u << 20;
    size_t retain_limit_bytes = 32u << 20;  ///< sent and not acknowledged, kept for a resume; beyond it sending waits
    /// Calls that there is no credit for wait here, up to so many bytes as they travel; 0: their callers wait instead.
    size_t backlog_bytes = 0;
    /// Where processors are crowded and the peer is near, calls wait while so many are queued or sent and not executed: what is
    /// far ahead has left the caches when its turn comes. (Where a program and its worker are alone on two processors, they
    /// and the writing thread are more than those, and a program that waits for its calls gains nothing.) For a moment only: if
    /// nothing is executed meanwhile, what others call may be what the peer waits for. 0: nothing of the kind.
    uint64_t calls_ahead = 0;
    std::chrono::milliseconds stays_near_for{1000};  ///< with nothing executed; a turn comes late where processors are scarce
    bool (*processors_scarce)() = &processors_were_scarce;
    bool (*processors_crowded)() = &processors_were_crowded;
    /// While calls come that nobody waits for, the writer looks for them so often by itself: waking it would cost each of their
    /// threads more than the call. 0: it is woken.
    std::chrono::microseconds nap{0};
    /// While those who wait take along what has gathered, again and again, it looks as seldom as this.
    std::chrono::microseconds longest_nap{0};
    unsigned idle_naps = 0;               ///< without a call, before it sleeps and has to be woken again
    TrafficObserver* observer = nullptr;  ///< is told who waits; outlives the outbox; null: nobody watches
};

/// The sending half of a session: calls are gathered into batches, frames are queued in order, a writer takes what has come
/// together as one burst and brings it to the connection. What the peer has not acknowledged stays here, so that another
/// connection can take the place of one that is lost: between detach() and attach() everything waits. Knows no socket and owns
/// no thread; every method may be called by any thread.
///
/// Order on the wire is the order of the add_… calls, for sequenced kinds; Hello goes first, Ping and Pong as soon as they can,
/// Close when all else has left. After close() every add_… returns the error given there.
class Outbox {
public:
    explicit Outbox(OutboxOptions options = {});
    ~Outbox();

    // --- calls (the client's side) ---

    /// Gives the window that the server granted. Before it the default of CreditLimits holds.
    void set_credit(CreditLimits limits);
    /// Calls travel compactly from now on: as what is different from one of so many earlier ones. Before the first call.
    void remember_calls(uint16_t most_calls);
    /// See OutboxOptions::window_bytes. @thread any
    /// @param part_bytes  that suits the lane, if less than the options say; 0: as they say
    void set_window(uint16_t lane, uint64_t bytes, uint32_t part_bytes = 0);
    /// The shortest round trip that the session has seen, in microseconds; 0: none yet. @thread any
    void note_round_trip(uint64_t shortest_us) { m_round_trip_us.store(shortest_us, std::memory_order_relaxed); }
    uint64_t round_trip_us() const { return m_round_trip_us.load(std::memory_order_relaxed); }
    /// The server's report of what is executed. @errors malformed
    Result<void> progress(uint64_t calls, uint64_t bytes);
    /// The server's report of shared memory that it has done with. Unlike the other one it is to be told once. @errors
    /// malformed
    Result<void> slots_freed(uint64_t slots);

    /// Adds a call to the open batch.
    ///
    /// @param max_words  see CallImage::build
    /// @param fill       `fill(typename Wire::Builder)`, called without a lock
    /// @param on_number  `on_number(uint64_t)`: told the call's number before the call can leave, under the outbox's lock: the
    ///                   place to register who waits for the reply. Must not call the outbox
    /// @param payload    copied; at most `chunk_bytes` (else use add_streamed_call)
    /// @return           the call's number
    /// @errors           malformed (max_words too small), quota (too large), alloc_failed, and the error of close()
    /// @blocks           while the credit is used up, and the backlog full; see also OutboxOptions::calls_ahead
    template <typename Wire, typename F, typename N>
    Result<uint64_t> add_call(const CallHeader& header, unsigned max_words, F&& fill, N&& on_number, BytesView payload = {},
                              Urgency urgency = Urgency::writer) {
        const auto fill_args = [&](capnp::AnyPointer::Builder args) { fill(args.initAs<Wire>()); };
        return add_call(header, max_words, FillArgs(fill_args), NoteNumber(on_number), payload, urgency);
    }
    using NoteNumber = FunctionRef<void(uint64_t)>;
    Result<uint64_t> add_call(const CallHeader& header, unsigned max_words, FillArgs fill, NoteNumber on_number,
                              BytesView payload, Urgency urgency);
    /// The same with a message that is made already, of a call with this header.
    Result<uint64_t> add_call(const CallHeader& header, const CallImage& image, NoteNumber on_number, BytesView payload,
                              Urgency urgency);

    /// Adds a call with a payload of any size, which is sent straight from the caller's memory in Bulk frames, over the bulk
    /// lanes if there are any; calls of others go between them. The oldest payload goes first.
    ///
    /// @param lent  until_return: returns when all of it has been handed to the socket (or failed); the memory may then change.
    ///              until_given_back: returns at once
    /// @blocks      with until_return until the payload has left; the server's execution gives credit for it, so that can be
    ///              long
    template <typename Wire, typename F, typename N>
    Result<uint64_t> add_streamed_call(const CallHeader& header, unsigned max_words, F&& fill, N&& on_number, BytesView payload,
                                       Lent lent = Lent::until_return) {
        const auto fill_args = [&](capnp::AnyPointer::Builder args) { fill(args.initAs<Wire>()); };
        return add_streamed_call(header, max_words, FillArgs(fill_args), NoteNumber(on_number), payload, lent);
    }
    Result<uint64_t> add_streamed_call(const CallHeader& header, unsigned max_words, FillArgs fill, NoteNumber on_number,
                                       BytesView payload, Lent lent);

    /// Takes back memory that was lent: waits until what lies in it has been handed to a socket, or never will be, and copies
    /// what the peer has not acknowledged yet.
    /// @blocks  while there is no connection, too
    void give_back(BytesView memory);

    // --- other frames (both sides) ---

    /// Queues a frame whose body is one message. Closes the open batch, so that order is kept.
    /// @param payload  copied
    /// @blocks         while more than max_queued_bytes are queued, for sequenced kinds
    template <typename Wire, typename F>
    Result<void> add_message(FrameKind kind, unsigned max_words, F&& fill, BytesView payload = {},
                             Urgency urgency = Urgency::writer) {
        FramePtr frame = take_free();
        WL_TRY(build_body(frame->body, max_words + 1, [&](capnp::MessageBuilder& message) { fill(message.initRoot<Wire>()); }));
        return add_frame(kind, std::move(frame), payload, urgency);
    }

    /// Queues a frame with a body that is already encoded (build_message()).
    Result<void> add_body(FrameKind kind, Buffer body, BytesView payload = {}, Urgency urgency = Urgency::writer);

    /// Queues a Pong; while one waits to leave, that one answers. So a peer that asks, and does not listen, costs one frame.
    /// @param echo_us  the time stamp of the Ping; 0: it only acknowledges @blocks no
    void add_pong(uint16_t lane, uint64_t echo_us, Urgency urgency = Urgency::writer);
    /// Queues a Ping, unless one waits to leave. @blocks no
    void add_ping(uint16_t lane);

    /// Queues part of a payload for the peer without copying it, on the bulk lane that has the least to do, or on the command
    /// lane if there is no other. The memory goes to its owner when the peer has the part, or nobody wants it any more.
    ///
    /// @param part     what part_bytes() says, or less
    /// @param urgency  caller: only where sends_places()
    /// @errors      bad_argument (a part too large), and the error of close()
    /// @blocks      while the windows are full
    Result<void> add_bulk(uint64_t call, uint64_t offset, uint64_t total, Place part, Urgency urgency = Urgency::writer);
    /// True if parts lie in shared memory and what is sent only says where: so little that another thread for it costs more.
    bool sends_places() const { return m_encoding.shared() != nullptr && m_encoding.shared()->has_parts_already(); }
    /// How large parts are best now. @blocks no
    size_t part_bytes() const;

    /// Cuts a payload into Bulk frames on the command lane and waits until all have left: what precedes a Reply or CopyDone
    /// with a long payload.
    Result<void> send_payload(uint64_t call, BytesView payload);

    // --- payloads whose hashes go ahead (outbox_offers.cpp) ---

    /// From now on the server may be asked which chunks of long payloads it has (docs/upload-cache.md).
    /// @param stored_bytes  what it has of the tenant's
    void begin_offers(uint64_t chunk_bytes, uint64_t stored_bytes);
    /// Chunks that are to be hashed.
    struct HashWork {
        std::shared_ptr<Transfer> transfer;
        uint64_t offset = 0;
        bool only_asks = false;
        std::vector<BytesView> chunks;  ///< stay as they are until offer()
    };
    /// Waits until there is something to hash. False: there will be nothing more. @thread one at a time
    bool next_to_hash(HashWork& work);
    /// Offers the chunks by their hashes, 32 bytes each. What is empty was not hashed: the chunks are sent.
    /// @param took_ns  to hash them
    Result<void> offer(const HashWork& work, BytesView hashes, double took_ns);
    /// The server's answer. @errors malformed: to nothing that was offered
    Result<void> offered(uint64_t call, uint64_t offset, uint32_t count, uint64_t has, bool only_asked);

    OfferCounters offer_counters() const;

    // --- a lane's writer: one thread at a time for each lane, as net::ChannelPump ensures ---

    /// Takes all that is queued, numbered and stamped with this acknowledgement, in wire order. The frames stay as they are
    /// until sent(); their `wire_header` and `saved_bytes` are the writer's meanwhile. False if there is nothing.
    bool take(uint16_t lane, std::vector<OutFrame*>& frames, uint64_t acknowledgement);
    /// The same as views of frames that are not encoded.
    bool take(uint16_t lane, std::vector<BytesView>& views, uint64_t acknowledgement);
    /// What take() gave has been handed to the socket.
    void sent(uint16_t lane);
    /// Waits until there is something to take. False after close() once all has been taken, or at once if `abandon` was asked
    /// for, or the lane is detached.
    bool wait(uint16_t lane);
    /// Makes wait() return true once, with or without output.
    void poke(uint16_t lane);

    /// True if the writer may be skipped: nothing large waits.
    bool small_enough_to_flush(uint16_t lane) const;

    // --- acknowledgement, end ---

    /// @errors  malformed
    Result<void> acknowledge(uint16_t lane, uint64_t sequence);
    /// The lane's connection is lost: nothing is taken any more, and wait() returns false, until attach(). Bulk lanes begin
    /// like that.
    void detach(uint16_t lane);
    /// There is another connection. What its peer has not received is sent again, then all that has been queued since.
    /// @param received  the highest sequence number that the peer has
    /// @errors          malformed
    Result<void> attach(uint16_t lane, uint64_t received);
    /// A bulk lane, detached and with no writer, has no further connection. What its peer has not received goes over the lane
    /// that has the least to do, and behind it `told`, an event of the command lane's, if there is one. @blocks no
    /// @param received  the highest sequence number that the peer has
    /// @errors          malformed, also if the lane is no such one or was given up before
    Result<void> give_up(uint16_t lane, uint64_t received, Buffer told = {});
    /// No further frames. With abandon, what is queued is dropped and every waiter wakes with the error; else it is still sent.
    void close(Error error, bool abandon);
    bool closed() const;

    /// False while a call is certainly still here: in the open batch, or without credit.
    bool may_have_left(uint64_t call) const;
    size_t queued_bytes() const;
    /// Sent and not acknowledged, on all lanes.
    size_t retained_bytes() const;
    /// Handed to this lane's connections.
    uint64_t wire_bytes(uint16_t lane) const;
    /// Of these, what the peer has acknowledged, about: frames that were sent again count each time.
    uint64_t delivered_bytes(uint16_t lane) const;
    /// True while somebody waits for credit, for room, for a frame to leave, or for something to hash.
    bool has_waiters() const;

    /// Something has come or left on the command lane. @thread any
    void note_command_traffic() { m_command_traffic.fetch_add(1, std::memory_order_relaxed); }
    /// How often. Orders nothing. @thread any
    uint64_t command_traffic() const { return m_command_traffic.load(std::memory_order_relaxed); }

    struct Counters {
        uint64_t frames = 0, batches = 0, calls = 0, bursts = 0, credit_waits = 0;
        uint64_t calls_alike = 0;    ///< that travelled as what is different from an earlier one
        uint64_t bytes = 0;          ///< as they travelled
        uint64_t payload_bytes = 0;  ///< decoded
        uint64_t frames_again = 0;   ///< that a lost connection may have lost
    };
    Counters counters() const;

    /// What the lane's connection takes, as far as it is known.
    Deliveries deliveries(uint16_t lane) const;
    /// See DeliveryMeter::renew().
    void renew_delivery(uint16_t lane, uint8_t way);
    /// What its lanes' writers encode frames with.
    Encoding& encoding() { return m_encoding; }
    const Encoding& encoding() const { return m_encoding; }

private:
    using Writers = uint32_t;  // a bit for each lane
    /// Nothing is offered where parts are cut smaller than this, by the credit.
    static constexpr uint64_t k_least_credit_part_bytes = 64 * 1024;
    static constexpr uint64_t k_before_answer_bytes = 1u << 20;

    /// What waits for credit: a batch, or what the open one costs so far.
    struct Cost {
        uint64_t bytes = 0;
        uint64_t calls = 0;
    };
    struct Backlogged {
        FramePtr frame;
        Cost cost;
    };
    Result<void> wait_for_turn(uint64_t cost, size_t payload_bytes, bool at_once) WL_REQUIRES(m_mutex);
    void stay_near() WL_REQUIRES(m_mutex);
    uint64_t calls_ahead() const WL_REQUIRES(m_mutex) {
        return m_credit.calls_in_flight() + m_backlog_cost.calls + m_batch_cost.calls;
    }
    uint64_t call_added(size_t cost) WL_REQUIRES(m_mutex);
    bool can_spend(Cost cost) const WL_REQUIRES(m_mutex) {
        return m_credit.can_spend(cost.bytes, cost.calls, m_transfers.empty() ? 0 : m_credit.limits().bytes / 2);
    }
    bool batch_is_full(uint64_t cost, size_t payload_bytes) const WL_REQUIRES(m_mutex);
    bool batch_may_leave() const WL_REQUIRES(m_mutex);
    bool may_nap(const OutLane& lane) const WL_REQUIRES(m_mutex);
    uint64_t calls_since_nap() const WL_REQUIRES(m_mutex) { return m_next_call - m_napped_at; }
    void nap(OutLane& lane) WL_REQUIRES(m_mutex);
    unsigned idle_naps() const WL_REQUIRES(m_mutex);
    void note_flush(const OutLane& lane) WL_REQUIRES(m_mutex);
    uint64_t many_calls() const;
    bool few_came_since_flush() const WL_REQUIRES(m_mutex);
    void release_backlog() WL_REQUIRES(m_mutex);
    bool writer_must_wake(Urgency urgency, uint16_t lane = k_command_lane) WL_REQUIRES(m_mutex);
    bool writer_is_wanted(uint16_t lane) WL_REQUIRES(m_mutex);
    Writers writers_with_output() WL_REQUIRES(m_mutex);
    void wake(Writers writers);
    std::shared_ptr<Transfer> add_transfer(const Transfer& transfer, Lent lent) WL_REQUIRES(m_mutex);
    Result<void> wait_transferred(const Transfer& transfer);
    bool is_sent(const Transfer& transfer) const WL_REQUIRES(m_mutex);
    bool is_acknowledged(const Transfer& transfer) const WL_REQUIRES(m_mutex);
    void note_moved(uint16_t lane, uint64_t received, uint16_t heir, uint64_t first) WL_REQUIRES(m_mutex);
    bool somebody_writes() const WL_REQUIRES(m_mutex);
    Result<void> wait_until_sent(const Transfer& transfer, BytesView memory) WL_REQUIRES(m_mutex);
    /// What a lane cuts next.
    struct Cut {
        Transfer* transfer = nullptr;  ///< null: there is nothing
        uint64_t offset = 0;
        size_t bytes = 0;
        bool spends = false;  ///< credit
    };
    Cut next_cut(uint16_t lane) const WL_REQUIRES(m_mutex);
    size_t most_part_bytes() const WL_REQUIRES(m_mutex);
    bool makes_offers() const WL_REQUIRES(m_mutex) { return m_offers.has_value(); }
    void choose_offers(Transfer& transfer) WL_REQUIRES(m_mutex);
    bool leaves_before_answer(const OutLane& lane, size_t bytes) const WL_REQUIRES(m_mutex);
    void tell_hashes() WL_REQUIRES(m_mutex);
    void offer_rest_of(Transfer& transfer) WL_REQUIRES(m_mutex);
    Transfer* next_hashed() const WL_REQUIRES(m_mutex);
    bool may_offer(const Transfer& transfer) const WL_REQUIRES(m_mutex);
    OfferPolicy::Link slowness() const WL_REQUIRES(m_mutex);
    void all_is_cut(const Transfer& transfer) WL_REQUIRES(m_mutex);
    bool room_will_come(uint16_t lane) const WL_REQUIRES(m_mutex);
    bool part_is_ready(uint16_t lane) const WL_REQUIRES(m_mutex);
    bool cut_part(uint16_t lane) WL_REQUIRES(m_mutex);
    size_t part_bytes_of(uint16_t lane) const WL_REQUIRES(m_mutex);
    void give_back_lent(OutLane& lane) WL_REQUIRES(m_mutex);
    static Result<FramePtr> make_part(FramePtr frame, const BulkHeader& header, BytesView part);
    bool has_output(uint16_t lane) const WL_REQUIRES(m_mutex);
    bool close_is_next() const WL_REQUIRES(m_mutex);
    void close_batch() WL_REQUIRES(m_mutex);
    uint64_t push(FrameKind kind, FramePtr frame, uint16_t lane = k_command_lane) WL_REQUIRES(m_mutex);
    static_assert(k_command_lane == 0);
    OutLane& command() WL_REQUIRES(m_mutex) { return m_lanes.front(); }
    const OutLane& command() const WL_REQUIRES(m_mutex) { return m_lanes.front(); }
    size_t queued() const WL_REQUIRES(m_mutex) { return m_first_bytes + command().items.unsent_bytes(); }
    struct Burst;
    void take_frame(Burst& burst, OutFrame& frame) WL_REQUIRES(m_mutex);
    void take_first(OutLane& lane) WL_REQUIRES(m_mutex);
    void take_heartbeat(OutLane& lane) WL_REQUIRES(m_mutex);
    void release(OutLane& lane, FramePtr frame) WL_REQUIRES(m_mutex);
    void count_saved(OutLane& lane) WL_REQUIRES(m_mutex);
    void close_locked(const Error& error, bool abandon) WL_REQUIRES(m_mutex);
    Result<void> copy_unacknowledged(uint16_t lane, uint64_t last, BytesView memory) WL_REQUIRES(m_mutex);
    Result<void> wait_for_room() WL_REQUIRES(m_mutex);
    Result<uint16_t> wait_for_window(uint64_t bytes) WL_REQUIRES(m_mutex);
    uint16_t idlest_lane() const WL_REQUIRES(m_mutex);
    Result<void> add_frame(FrameKind kind, FramePtr frame, BytesView payload, Urgency urgency);
    FramePtr take_free();
    FramePtr free_frame() WL_REQUIRES(m_mutex);
    void recycle(FramePtr frame) WL_REQUIRES(m_mutex);

    template <typename F>
    static Result<void> build_body(Buffer& body, unsigned max_words, F&& build);

    const OutboxOptions m_options;
    Encoding m_encoding;
    std::atomic<uint64_t> m_command_traffic{0};
    std::atomic<uint64_t> m_round_trip_us{0};
    mutable Mutex m_mutex;
    std::array<ConditionVariable, k_max_lanes> m_writer_wake;
    BatchBuilder m_batch WL_GUARDED_BY(m_mutex);
    Cost m_batch_cost WL_GUARDED_BY(m_mutex);
    std::deque<Backlogged> m_backlog WL_GUARDED_BY(m_mutex);  // batches without credit: before m_batch
    Cost m_backlog_cost WL_GUARDED_BY(m_mutex);
    size_t m_backlog_bytes WL_GUARDED_BY(m_mutex) = 0;     // as they travel
    std::deque<OutLane> m_lanes WL_GUARDED_BY(m_mutex);    // k_max_lanes of them
    unsigned m_bulk_lanes_up WL_GUARDED_BY(m_mutex) = 0;   // that have a connection
    std::vector<FramePtr> m_first WL_GUARDED_BY(m_mutex);  // Hello and its answer: before everything
    size_t m_first_bytes WL_GUARDED_BY(m_mutex) = 0;
    FramePtr m_last WL_GUARDED_BY(m_mutex);  // Close: after everything
    std::vector<FramePtr> m_free WL_GUARDED_BY(m_mutex);
    size_t m_free_bytes WL_GUARDED_BY(m_mutex) = 0;                            // that their buffers take
    std::deque<std::shared_ptr<Transfer>> m_transfers WL_GUARDED_BY(m_mutex);  // not all cut, in the order of their calls
    std::vector<std::shared_ptr<Transfer>> m_lent WL_GUARDED_BY(m_mutex);      // whose memory is not given back
    std::vector<std::weak_ptr<Transfer>> m_wanted WL_GUARDED_BY(m_mutex);  // those of both, and those that somebody waits for
    unsigned m_lanes_given_up WL_GUARDED_BY(m_mutex) = 0;
    std::optional<OfferPolicy> m_offers WL_GUARDED_BY(m_mutex);
    uint64_t m_chunk_bytes WL_GUARDED_BY(m_mutex) = 0;  // of offers
    OfferCounters m_offer_counters WL_GUARDED_BY(m_mutex);
    /// An offer whose answer is timed.
    struct Timed {
        uint64_t call = 0, offset = 0;
        Clock::time_point at;
    };
    std::optional<Timed> m_timed_offer WL_GUARDED_BY(m_mutex);
    double m_answer_ns WL_GUARDED_BY(m_mutex) = 0;  // the shortest that an answer took; 0: there was none
    // Who hashes does not wait in m_waiting: while somebody waits there, the writer does not let calls gather.
    ConditionVariable m_hash_wake;
    bool m_hash_waits WL_GUARDED_BY(m_mutex) = false;
    bool m_first_answer_due WL_GUARDED_BY(m_mutex) = false;
    CreditAccount m_credit WL_GUARDED_BY(m_mutex);
    bool m_runs_ahead WL_GUARDED_BY(m_mutex) = false;  // staying near has ended nothing: until something is executed
    uint64_t m_next_call WL_GUARDED_BY(m_mutex) = 1;
    unsigned m_window_waits WL_GUARDED_BY(m_mutex) = 0;  // threads that have a part, and no window for it
    WaitList m_waiting WL_GUARDED_BY(m_mutex);           // for credit, room, a frame to leave
    uint64_t m_napped_at WL_GUARDED_BY(m_mutex) = 1;     // m_next_call at the last nap
    unsigned m_idle_naps WL_GUARDED_BY(m_mutex) = 0;     // since a call came
    bool m_slept WL_GUARDED_BY(m_mutex) = false;         // since the last nap
    uint64_t m_flushed_to WL_GUARDED_BY(m_mutex) = 1;    // m_next_call when another thread took what there was during a nap
    unsigned m_flushes WL_GUARDED_BY(m_mutex) = 0;       // in the last nap, or the one under way
    std::chrono::microseconds m_nap WL_GUARDED_BY(m_mutex){0};  // how long that is
    bool m_closed WL_GUARDED_BY(m_mutex) = false;
    bool m_abandoned WL_GUARDED_BY(m_mutex) = false;
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
