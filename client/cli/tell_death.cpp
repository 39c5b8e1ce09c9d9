// A lane of a dead program's session: preamble, TLS with the session's key, one request, one answer.
#include "client/cli/tell_death.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "common/log/log.h"
#include "common/net/socket.h"
#include "protocol/codec/preamble.h"
#include "protocol/session/resume.h"

namespace warpline::cli {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// To connect, and again for the answer: the worker may be busy with somebody else who names the session.
constexpr milliseconds k_patience{5000};
constexpr milliseconds k_first_pause{100}, k_longest_pause{2000};

/// One attempt. @errors those of connecting and of TLS; malformed. A refusal is an answer.
Result<protocol::ResumeAnswer> tell_once(const client::SessionReport& session, const net::TlsContext& tls, uint32_t epoch,
                                         std::string& why) {
    const net::Endpoint server = WL_TRY(net::parse_endpoint(session.server));
    net::Socket socket = WL_TRY(net::connect_tcp(server, k_patience, why));
    const auto preamble =
        protocol::encode_preamble({protocol::Preamble::Kind::lane, session.session, protocol::k_death_lane, epoch});
    WL_TRY(socket.write_all(preamble, k_patience));
    net::TlsChannel::Options options;
    options.handshake_timeout = k_patience;
    // Where the session has gone, the door answers, with certificates.
    options.key = net::PresharedKey{session.session_key, Bytes(preamble.begin(), preamble.end())};
    const auto channel = WL_TRY(net::TlsChannel::handshake(tls, std::move(socket), server.host, options, why));
    protocol::ResumeRequest request;
    request.dead = true;
    request.session = session.session;
    return protocol::ask_to_resume(*channel, request, Clock::now() + k_patience);
}

}  // namespace

void tell_death(const client::SessionReport& session, const net::TlsCredentials& credentials) {
    std::string why;
    const auto tls = net::TlsContext::create(net::TlsRole::client, credentials, why);
    if (!tls.ok()) {
        WL_LOG(warn, "client", "{}: {}", session.server, why);
        return;
    }
    // At least one attempt, and as many as the server may be waiting for the program.
    const auto until = Clock::now() + session.grace;
    uint32_t epoch = 0;
    for (milliseconds pause = k_first_pause;; pause = std::min(pause * 2, k_longest_pause)) {
        why.clear();
        const auto answer = tell_once(session, *tls, ++epoch, why);
        if (answer.ok()) {
            if (answer->refused != Code::ok) WL_LOG(info, "client", "{}: {}", session.server, answer->reason);
            return;
        }
        WL_LOG(debug, "client", "{}: {}", session.server, why.empty() ? answer.error().what : why.c_str());
        if (Clock::now() + pause >= until) return;
        std::this_thread::sleep_for(pause);  // back-off
    }
}

}  // namespace warpline::cli
