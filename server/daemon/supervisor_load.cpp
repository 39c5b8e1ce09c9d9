// The supervisor's dealings with the gauge: how busy the devices are, for those who ask.
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "common/log/log.h"
#include "server/control/worker_ends.h"
#include "server/daemon/supervisor.h"

namespace warpline::server {

using Clock = std::chrono::steady_clock;

namespace {

/// A reading that is not older is told again: NVML's own are averages over up to a second.
constexpr std::chrono::milliseconds k_load_is_fresh{500};
/// Who asks is told without it after so long.
constexpr std::chrono::milliseconds k_load_patience{1'000};
/// A gauge that has not answered for so long hangs in the driver, and another one is started in its place.
constexpr std::chrono::seconds k_gauge_hangs{10};
/// Between the starts of gauges that fail.
constexpr std::chrono::seconds k_gauge_pause{10};
/// Questions that wait for it. The door and operators have fewer under way.
constexpr size_t k_most_await_load = 512;

}  // namespace

bool Supervisor::knows_load() const {
    return m_has_offer && m_options.nvml != "none" && (m_options.nvml != "auto" || m_offer.software == 0);
}

const LoadMessage* Supervisor::load() const {
    const bool is_told = m_load_at != Clock::time_point{} && Clock::now() - m_load_at < k_load_is_fresh;
    return is_told ? &m_load : nullptr;
}

/// Calls `then` once load() has something to say, or will not have it soon.
void Supervisor::with_load(std::function<void()> then) {
    if (!knows_load() || load() != nullptr || m_await_load.size() >= k_most_await_load || !ask_gauge()) return then();
    m_await_load.push_back({Clock::now() + k_load_patience, std::move(then)});
}

/// False: there is nobody to wait for.
bool Supervisor::ask_gauge() {
    const auto now = Clock::now();
    if (m_gauge != nullptr && m_gauge->asked_to_stop) return false;
    if (m_gauge_asked != Clock::time_point{}) {
        if (now - m_gauge_asked < k_gauge_hangs) return true;
        WL_LOG(error, "server", "NVML has not answered for {} s: the gauge is started anew", k_gauge_hangs.count());
        stop_gauge();
        return false;
    }
    if (m_gauge == nullptr) {
        if (now < m_next_gauge) return false;
        const auto started = HelperProcess::start(m_arguments, k_gauge_argument);
        if (!started.ok()) {
            WL_LOG(error, "server", "the gauge cannot be started: {} (errno {})", started.error().what, started.error().detail);
            m_next_gauge = now + k_gauge_pause;
            return false;
        }
        m_gauge = std::make_unique<HelperProcess>(*started);
    }
    if (!m_gauge->control().send(ControlKind::measure, m_offer).ok()) return false;
    m_gauge_asked = now;
    return true;
}

void Supervisor::handle_gauge() {
    const auto message = m_gauge->control().receive(false);
    if (!message.ok() && message.error().code == Code::deadline) return;
    LoadMessage told;
    if (message.ok() && message->fd >= 0) close(message->fd);  // it has none to give
    if (!message.ok() || message->kind != ControlKind::measured || !message->read(told)) {
        // SIGCHLD brings the rest.
        m_gauge->kill_process();
        return;
    }
    m_gauge_asked = {};
    m_load = told;
    m_load_at = Clock::now();
    for (AwaitsLoad& waits : std::exchange(m_await_load, {})) waits.then();
}

/// Those whose patience has ended.
void Supervisor::answer_without_load() {
    const auto now = Clock::now();
    while (!m_await_load.empty() && m_await_load.front().deadline <= now) {
        const auto then = std::move(m_await_load.front().then);
        m_await_load.pop_front();
        then();
    }
}

void Supervisor::stop_gauge() {
    if (m_gauge == nullptr) return;
    m_gauge->asked_to_stop = true;
    m_gauge->kill_process();
}

void Supervisor::reap_gauge() {
    int status = 0;
    if (m_gauge == nullptr || waitpid(m_gauge->pid(), &status, WNOHANG) != m_gauge->pid()) return;
    m_gauge->forget_process();
    if (!m_gauge->asked_to_stop) {
        m_next_gauge = Clock::now() + k_gauge_pause;
        WL_LOG(error, "server", "the gauge ended ({}): how busy the GPUs are is not known for {} s", describe_status(status),
               k_gauge_pause.count());
    }
    m_gauge.reset();
    m_gauge_asked = {};
    for (AwaitsLoad& waits : std::exchange(m_await_load, {})) waits.then();
}

}  // namespace warpline::server
