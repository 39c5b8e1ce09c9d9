// The report of a session, written and read.
#include "client/report/session_report.h"

#include <algorithm>
#include <cstring>

#include "protocol/codec/message.h"
#include "protocol/schema/report.capnp.h"

namespace warpline::client {

Result<protocol::Buffer> encode_report(const SessionReport& report) {
    return protocol::build_message<wire::SessionReport>([&](wire::SessionReport::Builder out) {
        out.setSession(protocol::data_of(report.session));
        out.setSessionKey(protocol::data_of(report.session_key));
        out.setServer(report.server);
        out.setCa(report.ca);
        out.setCertificate(report.certificate);
        out.setKey(report.key);
        out.setGraceMs(static_cast<uint32_t>(std::min<int64_t>(report.grace.count(), UINT32_MAX)));
        out.setFinished(report.finished);
    });
}

Result<SessionReport> decode_report(BytesView message) {
    return protocol::read_message<wire::SessionReport>(message, [](wire::SessionReport::Reader in) -> Result<SessionReport> {
        SessionReport report;
        const auto session = in.getSession();
        const auto key = in.getSessionKey();
        if (session.size() != report.session.size() || key.size() != report.session_key.size())
            return Error{Code::malformed, "a session's id or key has a wrong size"};
        std::memcpy(report.session.data(), session.begin(), session.size());
        std::memcpy(report.session_key.data(), key.begin(), key.size());
        report.server = in.getServer().cStr();
        report.ca = in.getCa().cStr();
        report.certificate = in.getCertificate().cStr();
        report.key = in.getKey().cStr();
        report.grace = std::chrono::milliseconds(in.getGraceMs());
        report.finished = in.getFinished();
        return report;
    });
}

}  // namespace warpline::client
