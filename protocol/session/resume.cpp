// Resume and ResumeReply, between their structs and the frames that carry them.
#include "protocol/session/resume.h"

#include <cstring>

#include "protocol/codec/message.h"
#include "protocol/schema/envelope.capnp.h"

namespace warpline::protocol {

Result<Bytes> encode_resume(const ResumeRequest& request) {
    return encode_single_frame<wire::Resume>(FrameKind::resume, [&](wire::Resume::Builder out) {
        out.setReceived(request.received);
        out.setDead(request.dead);
        std::memcpy(out.initSession(request.session.size()).begin(), request.session.data(), request.session.size());
    });
}

Result<Bytes> encode_resume_answer(const ResumeAnswer& answer) {
    return encode_single_frame<wire::ResumeReply>(FrameKind::resume, [&](wire::ResumeReply::Builder out) {
        out.setReceived(answer.received);
        out.setErrorCode(static_cast<uint16_t>(answer.refused));
        if (answer.refused != Code::ok) out.setError(answer.reason.c_str());
    });
}

Result<ResumeRequest> decode_resume(const Frame& frame) {
    return read_message<wire::Resume>(frame.body.view(), [&](wire::Resume::Reader in) -> Result<ResumeRequest> {
        ResumeRequest request;
        request.received = in.getReceived();
        request.dead = in.getDead();
        if (in.getSession().size() != request.session.size()) return malformed("a session's name has another length");
        std::memcpy(request.session.data(), in.getSession().begin(), request.session.size());
        return request;
    });
}

Result<ResumeAnswer> decode_resume_answer(const Frame& frame) {
    return read_message<wire::ResumeReply>(frame.body.view(), [&](wire::ResumeReply::Reader in) -> Result<ResumeAnswer> {
        ResumeAnswer answer;
        answer.received = in.getReceived();
        if (in.getErrorCode() > static_cast<uint16_t>(Code::internal)) return malformed("a refusal has an unknown code");
        answer.refused = static_cast<Code>(in.getErrorCode());
        if (answer.refused != Code::ok) answer.reason = in.getError().cStr();
        return answer;
    });
}

}  // namespace warpline::protocol
