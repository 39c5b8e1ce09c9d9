// The supervisor's dealings with the keeper: its life, and who may ask it as whom.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/log/log.h"
#include "server/control/worker_ends.h"
#include "server/daemon/supervisor.h"

namespace warpline::server {

using Clock = std::chrono::steady_clock;

namespace {

/// Between the starts of keepers that fail.
constexpr std::chrono::seconds k_keeper_pause{10};

}  // namespace

/// Starts the keeper if there shall be one, and is none.
void Supervisor::keep_keeper() {
    if (!m_options.keeps_uploads || m_keeper != nullptr || m_draining || m_stop_now || Clock::now() < m_next_keeper) return;
    const auto started = HelperProcess::start(m_arguments, k_keeper_argument);
    if (started.ok()) {
        m_keeper = std::make_unique<HelperProcess>(*started);
        return;
    }
    WL_LOG(error, "cache", "the keeper of uploads cannot be started: {} (errno {})", started.error().what,
           started.error().detail);
    m_next_keeper = Clock::now() + k_keeper_pause;
    announce();
}

/// True while the keeper is being started for the first time: whoever comes then would go without. Not for ever: its disk may
/// hang.
bool Supervisor::awaits_keeper() const {
    return m_options.keeps_uploads && !m_keeper_answers && m_next_keeper == Clock::time_point{} &&
           Clock::now() < m_started + m_options.keeper_start;
}

/// The worker's end of a channel over which the keeper knows it as this tenant's; -1: it has none.
int Supervisor::open_cache(const AssignMessage& session) {
    TextMessage tenant;
    const std::string name = get_text(session.tenant);
    // One that may have been cut could be another's.
    if (!m_keeper_answers || name.empty() || name.size() + 1 >= sizeof session.tenant) return -1;
    set_text(tenant.text, name);
    int ends[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return -1;
    // A keeper that hangs takes nothing, and is not waited for.
    const bool sent = m_keeper->control().send(ControlKind::cache_session, tenant, ends[1]).ok();
    close(ends[1]);
    if (sent) return ends[0];
    close(ends[0]);
    return -1;
}

void Supervisor::handle_keeper() {
    const auto message = m_keeper->control().receive(false);
    if (!message.ok() && message.error().code == Code::deadline) return;
    CacheFigures figures;
    if (message.ok() && message->fd >= 0) close(message->fd);  // it has none to give
    if (message.ok() && message->kind == ControlKind::cached && message->read(figures)) {
        m_cache_figures = figures;
        m_keeper_answers = true;
        announce();
        return;
    }
    // SIGCHLD brings the rest.
    m_keeper->kill_process();
}

void Supervisor::reap_keeper() {
    int status = 0;
    if (m_keeper == nullptr || waitpid(m_keeper->pid(), &status, WNOHANG) != m_keeper->pid()) return;
    m_keeper->forget_process();
    m_next_keeper = Clock::now() + k_keeper_pause;
    WL_LOG(error, "cache", "the keeper of uploads ended ({}): nothing is kept for {} s", describe_status(status),
           k_keeper_pause.count());
    m_keeper.reset();
    m_keeper_answers = false;
    m_cache_figures = {};
    announce();
}

nlohmann::json Supervisor::cache_json() const {
    if (!m_options.keeps_uploads) return nullptr;
    const CacheFigures& now = m_cache_figures;
    const uint64_t asked = now.hits + now.misses;
    return {{"memory_bytes", now.memory_bytes},
            {"disk_bytes", now.disk_bytes},
            {"chunks", now.chunks},
            {"tenants", now.tenants},
            {"hits", now.hits},
            {"hit_bytes", now.hit_bytes},
            {"hits_from_disk", now.from_disk},
            {"misses", now.misses},
            {"hit_rate",
             asked == 0 ? nlohmann::json() : nlohmann::json(static_cast<double>(now.hits) / static_cast<double>(asked))},
            {"added", now.added},
            {"evicted", now.evicted},
            {"dropped", now.dropped},
            {"damaged", now.damaged}};
}

}  // namespace warpline::server
