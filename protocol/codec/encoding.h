// Payloads that travel in fewer bytes.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "common/base/function_ref.h"
#include "common/base/mutex.h"
#include "compress/policy.h"
#include "protocol/codec/delivery_meter.h"
#include "protocol/codec/frame.h"
#include "protocol/codec/out_lane.h"
#include "protocol/codec/shared_bulk.h"

namespace warpline::protocol {

/// What a session has agreed on, and what has come of it. Nothing is encoded before agree().
/// @thread any
class Encoding {
public:
    struct Bytes {
        uint64_t raw = 0;
        uint64_t wire = 0;
    };
    using ByCodec = std::array<Bytes, compress::k_codec_count>;

    /// @param codecs  those that the other side decodes
    void agree(compress::CodecSet codecs, const std::optional<compress::Choice>& forced) WL_EXCLUDES(m_mutex);
    compress::Wish agreed() const WL_EXCLUDES(m_mutex);
    /// True if anything may be encoded. Orders nothing.
    bool is_on() const { return m_on.load(std::memory_order_relaxed); }

    /// Payloads of Bulk frames lie in shared memory from now on, where they can. @param out  outlives this
    void share(SharedOut& out) { m_shared.store(&out, std::memory_order_release); }
    /// Null: there is no shared memory.
    SharedOut* shared() const { return m_shared.load(std::memory_order_acquire); }

    void count_sent(compress::Codec codec, Bytes bytes) { count(m_sent, codec, bytes); }
    void count_received(compress::Codec codec, Bytes bytes) { count(m_received, codec, bytes); }
    ByCodec sent() const { return read(m_sent); }
    ByCodec received() const { return read(m_received); }

private:
    struct Counter {
        std::atomic<uint64_t> raw{0}, wire{0};
    };
    using Counters = std::array<Counter, compress::k_codec_count>;
    static void count(Counters& counters, compress::Codec codec, Bytes bytes);
    static ByCodec read(const Counters& counters);

    std::atomic<bool> m_on{false};
    std::atomic<SharedOut*> m_shared{nullptr};
    mutable Mutex m_mutex;
    compress::Wish m_agreed WL_GUARDED_BY(m_mutex){0, std::nullopt};
    Counters m_sent, m_received;
};

/// Decides, for one lane, between what a model says and what was measured. The model knows what a codec should save on a link
/// that takes as long for plain bytes as this one does; the meter knows what it took when it was tried. What is not used is
/// tried again now and then: links and processors change. A trial is what decides, by what it has measured: what was measured
/// long before it, of a lane that had the link to itself perhaps, only says that it is time for one. Pure.
class Trials {
public:
    static constexpr uint64_t k_first_wait_bytes = uint64_t{128} << 20;
    static constexpr uint64_t k_longest_wait_bytes = uint64_t{1} << 30;   ///< for a trial of plain frames
    static constexpr uint64_t k_longest_plain_bytes = uint64_t{4} << 30;  ///< of a codec, which may be slow
    static constexpr uint64_t k_doubtful_bytes = uint64_t{8} << 20;       ///< before a trial that is wanted early
    static constexpr uint64_t k_trial_bytes = uint64_t{4} << 20;
    /// Encoded frames in whose time nothing can be measured: the connection waits for whoever encodes.
    static constexpr unsigned k_most_unmeasured = 16;

    /// @param bytes  of a frame for which the model has chosen a codec
    /// @param renew  called when a trial begins: what is known of that way is to be measured anew
    /// @return       true if it shall be encoded
    bool encodes(uint8_t way, uint64_t bytes, const Deliveries& known, FunctionRef<void(uint8_t)> renew);

private:
    void decide(uint8_t way, const Deliveries& known);

    bool m_encodes = true;                         // as a rule
    uint64_t m_wait_bytes = k_first_wait_bytes;    // between two trials of the other
    uint64_t m_left_bytes = k_first_wait_bytes;    // until the next one
    uint64_t m_doubtful_bytes = k_doubtful_bytes;  // until the next one, if it seems that the other is better
    uint64_t m_trial_bytes = 0;                    // left of the one that goes on
    std::optional<uint8_t> m_tried;                // the way whose trial has not been judged
    bool m_doubted = false;                        // it was wanted early
    uint64_t m_samples_before = 0;                 // of that way
    unsigned m_unmeasured = 0;                     // encoded frames
};

/// Encodes what a lane's writer has taken from the outbox, before it is encrypted. The frames stay as they are, but for the
/// header that travels: should they be sent again, they are encoded again. @thread the lane's writer
class FrameEncoder {
    using Clock = std::chrono::steady_clock;

public:
    /// @param lane  what is known of the lane; both outlive this
    FrameEncoder(Encoding& encoding, LaneMeter& lane) : m_encoding(encoding), m_meter(lane) {}

    /// Appends views of the frames as they travel. They stay valid until the next call. Sets OutFrame::saved_bytes and `way`.
    void encode(std::span<OutFrame* const> frames, std::vector<BytesView>& views);

private:
    bool encode(OutFrame& frame, std::vector<BytesView>& views);
    bool share(SharedOut& shared, OutFrame& frame, std::vector<BytesView>& views);
    compress::Choice choose(BytesView raw);
    std::optional<BytesView> pack(BytesView raw, bool is_lent);
    Result<size_t> pack_data(compress::Choice choice, BytesView raw, bool is_lent, Buffer& out);
    Result<size_t> pack_constant(compress::Choice choice, BytesView raw, Buffer& out);

    Encoding& m_encoding;
    LaneMeter& m_meter;
    compress::Wish m_agreed{0, std::nullopt};
    compress::Policy m_policy;
    Deliveries m_known;  // of this burst
    Trials m_trials;
    uint8_t m_way = k_tells_nothing;                  // of the frame at hand
    compress::Codec m_codec = compress::Codec::none;  // of what was packed last
    std::vector<Buffer> m_packed;                     // those of this burst
    size_t m_packed_count = 0;
    Buffer m_scratch;
    /// A chunk that repeats one word, and its encoded form.
    struct Constant {
        uint64_t word = 0;
        size_t bytes = 0;
        Buffer packed;
    };
    Constant m_constant;
};

/// Decodes a frame's payload, or body and payload if the header says so, into the frame's own memory or where it was placed.
/// @param encoded  as it came
/// @errors         malformed, alloc_failed
Result<void> decode_frame(Frame& frame, BytesView encoded);

}  // namespace warpline::protocol
