// A lane of a dead program's session: one request, one answer.
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
Result<protocol::ResumeAnswer> tell_once(const client::SessionReport& session, const client::Identity& identity, uint32_t epoch,
                                         std::string& why) {
    const net::Endpoint server = WL_TRY(net::parse_endpoint(session.server));
    net::Socket socket = WL_TRY(net::dial(server, k_patience, why));
    // Where the session has gone, the door answers.
    const auto channel = WL_TRY(identity.greet(std::move(socket), server,
                                               {protocol::Preamble::Kind::lane, session.session, protocol::k_death_lane, epoch},
                                               session.session_key, k_patience, why));
    protocol::ResumeRequest request;
    request.dead = true;
    request.session = session.session;
    return protocol::ask_to_resume(*channel, request, Clock::now() + k_patience);
}

}  // namespace

void tell_death(const client::SessionReport& session, const client::Identity& identity) {
    std::string why;
    // At least one attempt, and as many as the server may be waiting for the program.
    const auto until = Clock::now() + session.grace;
    uint32_t epoch = 0;
    for (milliseconds pause = k_first_pause;; pause = std::min(pause * 2, k_longest_pause)) {
        why.clear();
        const auto answer = tell_once(session, identity, ++epoch, why);
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
