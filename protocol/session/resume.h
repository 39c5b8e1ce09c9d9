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

}  // namespace warpline::protocol
