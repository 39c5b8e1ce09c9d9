// From bytes to frames.
#pragma once

#include "protocol/codec/frame.h"

namespace warpline::protocol {

/// Who receives the frames that a FrameReader finds. All calls come from the thread that feeds the reader.
class FrameSink {
public:
    virtual ~FrameSink() = default;

    /// A whole frame. An error ends the connection: the reader stays in that state.
    virtual Result<void> on_frame(Frame frame) = 0;

    /// Asked when header and body of a Bulk frame are there, before its payload, or before that is decoded: memory of exactly
    /// `header.payload_raw_bytes` bytes where it shall go (the destination of a copy, so that it is not copied again), or no
    /// place for a buffer of the frame's own.
    virtual Result<Place> place_payload(const FrameHeader& header, BytesView body) {
        (void)header, (void)body;
        return Place{};
    }

    /// The payload of a Bulk frame lies in shared memory: where it is to be found when on_frame() is told of it. Asked only
    /// after accept_shared(). @errors malformed
    virtual Result<Place> shared_payload(const FrameHeader& header, BytesView body, uint64_t where) {
        (void)header, (void)body, (void)where;
        return malformed("a payload lies in shared memory, and there is none");
    }
};

/// Finds frames in a stream of bytes that arrives in pieces of any size.
///
/// Bounded: never holds more than one header, one body and one payload within the limits, plus `k_input_bytes`.
class FrameReader {
public:
    explicit FrameReader(FrameSink& sink, FrameLimits limits = {});

    /// Where the next bytes shall be written; never empty. In the middle of a large payload this is its final place.
    MutableBytesView space();

    /// Takes the first `count` bytes of the last space(), and delivers the frames that are complete with them.
    ///
    /// @errors  malformed, version_mismatch, and what the sink returns; sticky
    Result<void> commit(size_t count);

    /// space() and commit() in a loop, for bytes that are already somewhere.
    Result<void> feed(BytesView bytes);

    /// True between frames: an end of the stream here is clean.
    bool at_boundary() const;

    /// Payloads may be encoded with these from now on (compress::bit()); before with none.
    void accept_codecs(uint32_t codecs) { m_codecs = codecs; }
    /// Payloads may lie in shared memory from now on.
    void accept_shared() { m_shares = true; }

    /// Forgets what is half received: the stream begins anew.
    void reset();

    static constexpr size_t k_input_bytes = 128 * 1024;

private:
    enum class State : uint8_t { header, body, payload, failed };

    Result<void> consume();
    Result<bool> step();
    Result<void> begin_frame();
    Result<void> begin_payload();
    Result<void> place();
    Result<void> complete();
    Result<void> deliver();
    MutableBytesView arriving() {
        const bool as_it_is = m_frame.header.codec == 0 && (m_frame.header.flags & k_flag_shared) == 0;
        return as_it_is ? m_frame.payload_bytes() : m_encoded.mutable_view();
    }
    size_t take(std::byte* destination, size_t wanted);
    Result<void> fail(Error error);

    FrameSink& m_sink;
    FrameLimits m_limits;
    uint32_t m_codecs = 0;
    bool m_shares = false;
    State m_state = State::header;
    Error m_error{Code::ok};
    Buffer m_input;  // bytes not yet understood are [m_begin, m_end)
    size_t m_begin = 0;
    size_t m_end = 0;
    bool m_direct = false;  // the last space() was inside the payload
    Frame m_frame;
    Buffer m_encoded;             // the payload as it arrives, if it is to be decoded
    std::byte m_last_resort[64];  // space() must not be empty, even without memory
    size_t m_have = 0;            // bytes of the current body or payload
};

}  // namespace warpline::protocol
