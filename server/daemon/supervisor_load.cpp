// The supervisor's dealings with the gauge: how busy the devices are, for those who ask.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "common/log/log.h"
#include "server/control/worker_ends.h"
#include "server/daemon/supervisor.h"

namespace warpline::server {

using Clock = std::chrono::steady_clock;

namespace {

/// A reading that is not older is told again: NVML's own are averages over up to a second.
constexpr std::chrono::milliseconds k_load_is_fresh{500};
/// Likewise for those who look at them all the time, a person for one.
constexpr std::chrono::milliseconds k_sheets_are_fresh{250};
/// Who asks is told without it after so long, or with the last sheets there are.
constexpr std::chrono::milliseconds k_load_patience{1'000};
/// Without sheets clients say of everything that it is not supported: it is waited longer for the first ones, which come once
/// the kernel's driver has looked at all GPUs. Less than the door's patience with us.
constexpr std::chrono::milliseconds k_first_sheets_patience{4'000};
/// Sheets that are older are not told: nobody knows then how the devices are.
constexpr std::chrono::seconds k_sheets_are_told{10};
/// A gauge that has not answered for so long hangs in the driver, and another one is started in its place.
constexpr std::chrono::seconds k_gauge_hangs{10};
/// Between the starts of gauges that fail.
constexpr std::chrono::seconds k_gauge_pause{10};
/// Questions that wait for it. The door and operators have fewer under way.
constexpr size_t k_most_await_load = 512;

}  // namespace

bool Supervisor::knows_load() const { return m_has_offer && m_options.nvml != "none"; }

const LoadMessage* Supervisor::load() const {
    const bool is_told = m_load_at != Clock::time_point{} && Clock::now() - m_load_at < k_load_is_fresh;
    return is_told ? &m_load : nullptr;
}

bool Supervisor::knows_sheets() const {
    return m_sheets_at != Clock::time_point{} && Clock::now() - m_sheets_at < k_sheets_are_fresh;
}

bool Supervisor::may_tell_sheets() const {
    return m_sheets_at != Clock::time_point{} && Clock::now() - m_sheets_at < k_sheets_are_told;
}

/// Calls `then` once load() has something to say, and with `sheets` knows_sheets() as well, or will not have it soon.
void Supervisor::with_load(bool sheets, std::function<void()> then) {
    const bool known = sheets ? knows_sheets() : load() != nullptr;
    if (!knows_load() || known || m_await_load.size() >= k_most_await_load || !ask_gauge(sheets)) return then();
    const auto deadline = Clock::now() + (sheets && !may_tell_sheets() ? k_first_sheets_patience : k_load_patience);
    const auto is_later = [deadline](const AwaitsLoad& waits) { return waits.deadline > deadline; };
    const auto place = std::find_if(m_await_load.begin(), m_await_load.end(), is_later);
    m_await_load.insert(place, {deadline, sheets, std::move(then)});
}

/// False: there is nobody to wait for. Who wants sheets while the gauge answers without is asked for when it has.
bool Supervisor::ask_gauge(bool sheets) {
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
    if (!m_gauge->control().send(sheets ? ControlKind::survey : ControlKind::measure, m_offer).ok()) return false;
    m_gauge_asked = now;
    m_asked_sheets = sheets;
    m_next_sheets.clear();
    return true;
}

void Supervisor::handle_gauge() {
    while (hear_gauge()) {
    }
}

/// False: it has nothing more to say now.
bool Supervisor::hear_gauge() {
    const auto message = m_gauge->control().receive(false);
    if (!message.ok() && message.error().code == Code::deadline) return false;
    LoadMessage told;
    if (message.ok() && message->fd >= 0) close(message->fd);  // it has none to give
    if (message.ok() && message->kind == ControlKind::sheet && take_sheet(*message)) return true;
    if (!message.ok() || message->kind != ControlKind::measured || !message->read(told)) {
        // SIGCHLD brings the rest.
        m_gauge->kill_process();
        return false;
    }
    m_gauge_asked = {};
    m_load = told;
    m_load_at = Clock::now();
    if (m_asked_sheets) {
        m_sheets = std::exchange(m_next_sheets, {});
        m_sheets_at = m_load_at;
    }
    auto waiting = std::exchange(m_await_load, {});
    // Those who came while it was asked for less.
    const bool ask_again =
        !m_asked_sheets && std::any_of(waiting.begin(), waiting.end(), [](const auto& w) { return w.sheets; });
    const bool comes = ask_again && ask_gauge(true);
    for (AwaitsLoad& waits : waiting) {
        if (comes && waits.sheets) {
            m_await_load.push_back(std::move(waits));
        } else {
            waits.then();
        }
    }
    return true;
}

/// False: it is none.
bool Supervisor::take_sheet(const ControlMessage& message) {
    SheetMessage sheet;
    if (!m_asked_sheets || m_next_sheets.size() >= k_max_devices || !message.read_used(sheet)) return false;
    m_next_sheets.push_back(sheet);
    return true;
}

/// All devices, with what NVML says of them, if it does, and which of the tenant's programs use them.
void Supervisor::tell_sheets(DoorProcess& door, const AskMessage& ask) {
    const bool known = may_tell_sheets();
    const std::string tenant = get_text(ask.tenant);
    for (uint32_t device = 0; device < std::min<uint32_t>(m_offer.device_count, k_max_devices); ++device) {
        TellSheetMessage told{};
        told.question = ask.question;
        told.row = m_offer.devices[device];
        for (const SheetMessage& sheet : m_sheets) {
            if (!known || sheet.device != device) continue;
            told.bytes = sheet.bytes;
            std::memcpy(told.answers, sheet.answers, sheet.bytes);
            for (uint32_t i = 0; i < sheet.process_count; ++i) add_program(told, sheet.processes[i], tenant);
        }
        static_cast<void>(door.control().send(ControlKind::tell_sheet, used_part(told)).ok());
    }
}

/// The program behind a worker, if it is the tenant's.
void Supervisor::add_program(TellSheetMessage& told, const SheetMessage::Process& process, const std::string& tenant) const {
    for (const auto& worker : m_workers) {
        if (static_cast<uint32_t>(worker->pid()) != process.pid || worker->state != WorkerState::session) continue;
        if (worker->tenant != tenant || told.process_count == std::size(told.processes)) continue;
        auto& program = told.processes[told.process_count++];
        set_text(program.host, worker->host);
        program.pid = worker->client_pid;
        program.bytes = process.bytes;
    }
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
