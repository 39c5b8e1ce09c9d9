// Several calls in one frame.
#pragma once

#include <memory>
#include <optional>

#include "common/base/function_ref.h"
#include "protocol/codec/compact.h"
#include "protocol/codec/frame.h"
#include "protocol/codec/message.h"
#include "protocol/schema/envelope.capnp.h"

namespace warpline::protocol {

/// What every call carries besides its arguments.
struct CallHeader {
    uint16_t id = 0;  ///< CallId
    bool wants_reply = false;
    uint32_t thread = 0;   ///< the client's number of the calling thread
    uint64_t context = 0;  ///< token of the thread's current context; 0: none
    uint64_t subject = 0;  ///< does not travel: calls of one kind that have the same are likely to be like one another
};

/// Makes a call's arguments where they are to be: not a template, so that what surrounds it is compiled once for all calls.
using FillArgs = FunctionRef<void(capnp::AnyPointer::Builder)>;

/// What stands at the start of a batch's body (docs/wire-format.md#batch).
struct BatchHeader {
    uint64_t first_call = 0;  ///< number of the first call
    uint32_t count = 0;
    uint32_t expanded_bytes = 0;  ///< what the calls take as messages, if they are compact; 0: they are not
    uint64_t streamed_bytes = 0;  ///< payload of the last call that follows in Bulk frames; 0: none
};
inline constexpr size_t k_batch_header_bytes = 24;

/// Words that a Call takes besides its arguments: the root pointer and the struct.
inline constexpr unsigned k_call_words = 1 + capnp::_::structSize<wire::Call>().total();
/// Words that a Reply takes besides its values.
inline constexpr unsigned k_reply_words =
    1 + capnp::_::structSize<wire::Reply>().total() + capnp::_::structSize<wire::Progress>().total();

/// Words of a Text or Data field of this many bytes.
constexpr unsigned words_of_bytes(size_t bytes) { return static_cast<unsigned>((bytes + 1 + 7) / 8); }

/// One call as a message, before it has a place in a batch: made without a lock, in memory of its own.
class CallImage {
public:
    CallImage() = default;
    CallImage(const CallImage&) = delete;
    CallImage& operator=(const CallImage&) = delete;

    /// @param max_words      upper bound of what `fill` makes: words of the struct and of everything it points to. An excess is
    ///                       refused
    /// @param payload_bytes  of the call, wherever they travel
    /// @errors               malformed (max_words too small), quota (larger than a frame may be), alloc_failed
    Result<void> build(const CallHeader& header, unsigned max_words, uint64_t payload_bytes, FillArgs fill);
    /// A copy of a message that was built before, to be patched. At most k_inline_bytes.
    std::byte* copy(BytesView message) {
        std::memcpy(m_inline, message.data(), message.size());
        m_message = {m_inline, message.size()};
        return m_inline;
    }
    /// With its framing. Valid as long as this object, until it gets another one.
    BytesView message() const { return m_message; }

    static constexpr size_t k_inline_bytes = 1024;  ///< for which nothing is allocated

private:
    alignas(8) std::byte m_inline[k_inline_bytes];
    Buffer m_heap;
    BytesView m_message;
};

/// Collects calls into the body and payload of one Batch frame. No allocation per call: they are written into one buffer that
/// grows.
///
/// @thread  one at a time
class BatchBuilder {
public:
    /// Calls in the batch so far, and the bytes that they take: on their way, and as messages.
    uint32_t count() const { return m_count; }
    size_t body_bytes() const { return m_used; }
    size_t expanded_bytes() const { return m_expanded; }
    size_t payload_bytes() const { return m_payload.size(); }
    bool empty() const { return m_count == 0; }

    /// From the next batch on, calls are written compactly.
    /// @param most_calls  that the other side remembers
    void remember(uint16_t most_calls) { m_compact = std::make_unique<CompactWriter>(most_calls); }
    /// Calls that were written as what is different from an earlier one.
    uint64_t alike() const { return m_compact ? m_compact->alike() : 0; }

    /// Begins an empty batch whose first call has this number.
    void begin(uint64_t first_call);

    /// Appends a call.
    ///
    /// @param header   what the image was built with
    /// @param payload  copied
    /// @return         bytes that the call counts against the credit
    /// @errors         quota (larger than a frame may be), alloc_failed; nothing is appended
    Result<size_t> append(const CallHeader& header, const CallImage& image, BytesView payload);
    /// Appends a call whose payload follows in Bulk frames. It must be the last of its batch: finish() comes next.
    Result<size_t> append_streamed(const CallHeader& header, const CallImage& image, uint64_t payload_bytes);
    /// Builds a call and appends it: `fill(typename Wire::Builder)`. @errors those of both
    template <typename Wire, typename F>
    Result<size_t> append(const CallHeader& header, unsigned max_words, F&& fill, BytesView payload = {}) {
        CallImage image;
        WL_TRY(image.build(header, max_words, payload.size(),
                           [&](capnp::AnyPointer::Builder args) { fill(args.initAs<Wire>()); }));
        return append(header, image, payload);
    }
    template <typename Wire, typename F>
    Result<size_t> append_streamed(const CallHeader& header, unsigned max_words, F&& fill, uint64_t payload_bytes) {
        CallImage image;
        WL_TRY(
            image.build(header, max_words, payload_bytes, [&](capnp::AnyPointer::Builder args) { fill(args.initAs<Wire>()); }));
        return append_streamed(header, image, payload_bytes);
    }

    /// Completes the batch: its header is written, and body and payload are swapped into the arguments, whose old buffers are
    /// used for the next batch.
    void finish(Buffer& body, Buffer& payload);

private:
    Result<void> make_room(size_t message_bytes, size_t payload_bytes);

    Buffer m_body;  // [0, m_used) is the batch
    Buffer m_payload;
    size_t m_used = 0;
    size_t m_expanded = 0;
    bool m_is_compact = false;
    std::unique_ptr<CompactWriter> m_compact;
    uint64_t m_first_call = 0;
    uint64_t m_streamed_bytes = 0;
    uint32_t m_count = 0;
};

/// One call of a received batch. Valid until the reader moves on.
struct CallView {
    uint64_t number = 0;
    CallHeader header;
    uint64_t payload_bytes = 0;
    bool streamed = false;  ///< the payload comes in Bulk frames; `payload` is empty
    BytesView payload;
    BytesView message_bytes;  ///< live as long as the batch's
    wire::Call::Reader message;

    /// The arguments. Use it inside of guarded().
    template <typename Wire>
    typename Wire::Reader args() const {
        return message.getArgs().getAs<Wire>();
    }
};

/// Reads what stands at the start of a batch's body. @errors malformed
Result<BatchHeader> read_batch_header(BytesView body);

/// Makes messages of the calls of a batch that are compact.
/// @param body  is replaced
/// @errors      malformed, alloc_failed
Result<void> expand_batch(CompactReader& reader, const BatchHeader& header, Buffer& body);

/// Walks through the calls of a received Batch frame, which are messages. The bytes must outlive it and be aligned to 8.
class BatchReader {
public:
    /// @errors  malformed: the batch's header, its framing or its lengths are wrong (all of them are checked here)
    static Result<BatchReader> open(BytesView body, BytesView payload);

    /// To be moved before the first next() only.
    BatchReader(BatchReader&& other) noexcept : m_body(other.m_body), m_payload(other.m_payload), m_header(other.m_header) {}
    BatchReader& operator=(BatchReader&&) = delete;

    const BatchHeader& header() const { return m_header; }

    /// Moves to the next call: false after the last one.
    ///
    /// @errors  malformed; the batch must be given up then
    Result<bool> next();
    const CallView& call() const { return m_call; }
    /// True if no call comes after this one.
    bool at_last() const { return m_index == m_header.count; }

private:
    BatchReader(BytesView body, BytesView payload, BatchHeader header) : m_body(body), m_payload(payload), m_header(header) {}
    Result<bool> read_call(BytesView message_bytes);

    BytesView m_body;
    BytesView m_payload;
    BatchHeader m_header;
    size_t m_offset = k_batch_header_bytes;
    size_t m_payload_offset = 0;
    uint32_t m_index = 0;
    CallView m_call;
    std::optional<capnp::FlatArrayMessageReader> m_reader;
};

/// One call of a batch, readable for as long as the batch's bytes live, wherever the batch's reader has moved to.
class KeptCall {
public:
    /// @errors malformed
    Result<void> keep(const CallView& call);
    const CallView& view() const { return m_view; }

private:
    CallView m_view;
    std::optional<capnp::FlatArrayMessageReader> m_reader;
};

/// What a batch counts against the byte credit: its calls as messages, and their payload.
constexpr uint64_t credit_cost(const BatchHeader& batch, const FrameHeader& frame) {
    const uint64_t calls = batch.expanded_bytes != 0 ? batch.expanded_bytes : frame.body_bytes - k_batch_header_bytes;
    return calls + frame.payload_raw_bytes;
}

}  // namespace warpline::protocol
