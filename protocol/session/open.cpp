// Open and its answer as single frames.
#include "protocol/session/open.h"

#include <cstring>

#include "cuda/abi/driver_settings.h"
#include "protocol/codec/message.h"
#include "protocol/schema/envelope.capnp.h"

namespace warpline::protocol {

Result<Bytes> encode_open(const OpenRequest& request) {
    return encode_single_frame<wire::Open>(FrameKind::open, [&](wire::Open::Builder out) {
        out.setClientVersion(request.client_version.c_str());
        out.setDriverSettings(request.driver_settings);
    });
}

Result<Bytes> encode_open_answer(const OpenAnswer& answer) {
    return encode_single_frame<wire::OpenReply>(FrameKind::open, [&](wire::OpenReply::Builder out) {
        out.setErrorCode(static_cast<uint16_t>(answer.refused));
        if (answer.refused != Code::ok) {
            out.setError(answer.reason.c_str());
            return;
        }
        out.setSession(data_of(answer.session));
        out.setKey(data_of(answer.key));
        out.setExpiresSeconds(answer.expires_seconds);
    });
}

Result<OpenRequest> decode_open(const Frame& frame) {
    return read_message<wire::Open>(frame.body.view(), [&](wire::Open::Reader in) -> Result<OpenRequest> {
        if (!cuda::abi::are_driver_settings(in.getDriverSettings()))
            return malformed("settings of a driver that mean nothing yet");
        return OpenRequest{in.getClientVersion().cStr(), in.getDriverSettings()};
    });
}

Result<OpenAnswer> decode_open_answer(const Frame& frame) {
    return read_message<wire::OpenReply>(frame.body.view(), [&](wire::OpenReply::Reader in) -> Result<OpenAnswer> {
        OpenAnswer answer;
        if (in.getErrorCode() > static_cast<uint16_t>(Code::internal)) return malformed("a refusal has an unknown code");
        answer.refused = static_cast<Code>(in.getErrorCode());
        if (answer.refused != Code::ok) {
            answer.reason = in.getError().cStr();
            return answer;
        }
        const auto session = in.getSession();
        const auto key = in.getKey();
        if (session.size() != answer.session.size() || key.size() != answer.key.size())
            return malformed("a session's id or key has a wrong size");
        std::memcpy(answer.session.data(), session.begin(), session.size());
        std::memcpy(answer.key.data(), key.begin(), key.size());
        answer.expires_seconds = in.getExpiresSeconds();
        return answer;
    });
}

}  // namespace warpline::protocol
