#pragma once

// What both sides say when a connection takes the place of one that is lost: one frame each, before the session goes on. Or in
// place of that: what is said for a program that is dead.

#include <string>

#include "protocol/codec/preamble.h"
#include "protocol/session/single_frame.h"

namespace warpline::protocol {

struct ResumeRequest {
    uint64_t received = 0;  ///< the highest sequence number that the client has
    bool dead = false;      ///< the program is, says who watched it: the session shall end, and the above means nothing
    /// For the door, which says of sessions that they have gone, and knows of this one what a preamble names that nothing
    /// protects. A worker knows by its key whom it serves.
    SessionId session{};
};

struct ResumeAnswer {
    uint64_t received = 0;  ///< the highest sequence number that the server has
    Code refused = Code::ok;
    std::string reason;  ///< in plain words, when refused
};

/// A whole frame. @errors alloc_failed
Result<Bytes> encode_resume(const ResumeRequest& request);
Result<Bytes> encode_resume_answer(const ResumeAnswer& answer);

/// @errors malformed
Result<ResumeRequest> decode_resume(const Frame& frame);
Result<ResumeAnswer> decode_resume_answer(const Frame& frame);

/// See read_single_frame().
template <typename ReadAll>
Result<Frame> read_resume_frame(ReadAll&& read_all) {
    return read_single_frame(FrameKind::resume, std::forward<ReadAll>(read_all));
}

/// The answer to what was asked on a new connection. @param channel  with the methods of net::TlsChannel
/// @errors malformed, and the channel's @blocks until the time `until`
template <typename Channel, typename Time>
Result<ResumeAnswer> read_resume_answer(Channel& channel, const Time& until) {
    const Frame frame = WL_TRY(read_resume_frame([&](MutableBytesView bytes) { return channel.read_exact(bytes, until); }));
    return decode_resume_answer(frame);
}

/// The same, and asks before. A refusal is an answer.
template <typename Channel, typename Time>
Result<ResumeAnswer> ask_to_resume(Channel& channel, const ResumeRequest& request, const Time& until) {
    const Bytes frame = WL_TRY(encode_resume(request));
    const BytesView pieces[] = {frame};
    WL_TRY(channel.write(pieces));
    return read_resume_answer(channel, until);
}

/// The server's half. @errors alloc_failed, and the channel's
template <typename Channel>
Result<void> answer_resume(Channel& channel, const ResumeAnswer& answer) {
    const Bytes frame = WL_TRY(encode_resume_answer(answer));
    const BytesView pieces[] = {frame};
    return channel.write(pieces);
}

}  // namespace warpline::protocol
