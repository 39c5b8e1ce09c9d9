// What sessions share: who may ask whom.
#include <signal.h>

#include <algorithm>
#include <cstring>

#include "common/log/log.h"
#include "common/net/keyed_hash.h"
#include "server/control/share_message.h"
#include "server/daemon/supervisor.h"

namespace warpline::server {

/// The server's name in tickets: one of another server, or of this one's before it was started anew, shall be told apart. If
/// there are no random numbers it is all zeros: then tickets of other servers name sessions that are not here.
void Supervisor::choose_name() {
    const auto random = net::random_key();
    if (random.ok()) std::memcpy(m_server, random->data(), sizeof m_server);
}

/// A worker asks for what another session shares. The supervisor sees to it that both are of one tenant, and passes the
/// question on, with the socket on which the answer is to come: what is shared does not pass through here, and nothing waits.
void Supervisor::pass_request(WorkerProcess& worker, const ControlMessage& message) {
    const net::Socket answer_to(message.fd);
    ShareRequest request{};
    if (worker.state == WorkerState::leaving) return;  // told to stop before we knew
    if (!message.read(request) || worker.state != WorkerState::session) return worker.signal(SIGKILL);
    const auto other = std::find_if(m_workers.begin(), m_workers.end(), [&](const auto& candidate) {
        return candidate->state == WorkerState::session &&
               std::memcmp(candidate->session_id, request.session_id, sizeof request.session_id) == 0;
    });
    using protocol::ShareRefusal;
    if (other == m_workers.end()) return send_share_refusal(answer_to.fd(), ShareRefusal::not_there);
    if ((*other)->tenant != worker.tenant) {
        // Strangers are not told that there is such a session.
        WL_LOG(warn, "audit", "refused id={} tenant=\"{}\" reason=\"it asked for what session {} of another tenant shares\"",
               session_text(worker.session_id), worker.tenant, session_text(request.session_id));
        return send_share_refusal(answer_to.fd(), ShareRefusal::not_there);
    }
    if ((*other)->control().try_send(ControlKind::lend, message.body, answer_to.fd()).ok()) return;
    send_share_refusal(answer_to.fd(), ShareRefusal::no_answer);
}

}  // namespace warpline::server
