// Hands groups of blocks to workers until the launch is over.
#include "softgpu/exec/launch.h"

#include <sched.h>

#include <algorithm>

#include "common/log/log.h"
#include "softgpu/exec/checking.h"

namespace warpline::softgpu::exec {

namespace {

constexpr uint64_t k_resident_bytes = 512ull << 20;
constexpr uint64_t k_most_resident = 4096;
constexpr uint64_t k_shuffled_resident = 64;  ///< of a launch in random order

}  // namespace

void WorkerState::bind(const LaunchState& launch) {
    if (m_bound_launch == launch.id()) return;
    m_bound_launch = launch.id();
    caches.assign(launch.code().cache_count, RangeCache{});
}

void WorkerState::forget_ranges() { std::fill(caches.begin(), caches.end(), RangeCache{}); }

LaunchState::LaunchState(uint64_t id, std::shared_ptr<const KernelCode> code, const std::string& name, const Grid& grid,
                         std::byte* params, uint32_t params_bytes, const GroupShape& shape, bool cooperative,
                         LaunchServices services)
    : m_id(id),
      m_code(std::move(code)),
      m_name(name),
      m_grid(grid),
      m_params(params),
      m_params_bytes(params_bytes),
      m_shape(shape),
      m_services(services),
      m_start(std::chrono::steady_clock::now()) {
    m_group_count = uint64_t{grid.grid[0]} * grid.grid[1] * grid.grid[2] / shape.ctas;
    const uint64_t checks = services.checker != nullptr ? CtaCheck::bytes(shape) : 0;
    m_resident_limit =
        std::clamp<uint64_t>(k_resident_bytes / std::max<uint64_t>(1, shape.bytes() + checks), 64, k_most_resident);
    if (services.schedule_seed != 0) {
        m_random.emplace(services.schedule_seed + id);
        m_resident_limit = k_shuffled_resident;
    }
    if (cooperative) m_resident_limit = m_group_count;
}

bool LaunchState::ended() const { return m_running == 0 && (m_done == m_group_count || m_stop.load()); }

bool LaunchState::wants_help() const {
    if (stopped()) return false;
    MutexLock lock(m_mutex);
    return !m_suspended.empty() || m_next < m_group_count;
}

bool LaunchState::others_wait() const {
    MutexLock lock(m_mutex);
    return !m_suspended.empty() || (m_next < m_group_count && m_running + m_suspended.size() < m_resident_limit);
}

std::unique_ptr<CtaGroup> LaunchState::make_group(WorkerState& worker, uint64_t index) {
    std::unique_ptr<CtaGroup> group;
    auto fits = [this](const auto& spare) { return spare->shape() == m_shape; };
    auto spare = std::find_if(worker.spare.begin(), worker.spare.end(), fits);
    if (spare != worker.spare.end()) {
        group = std::move(*spare);
        worker.spare.erase(spare);
    } else {
        group = std::make_unique<CtaGroup>(m_shape);
    }
    group->start(*this, index);
    return group;
}

std::unique_ptr<CtaGroup> LaunchState::take(WorkerState& worker) {
    uint64_t index = 0;
    {
        MutexLock lock(m_mutex);
        if (stopped()) return nullptr;
        bool can_start = m_next < m_group_count && (m_suspended.empty() || m_running + m_suspended.size() < m_resident_limit);
        if (!can_start && m_suspended.empty()) return nullptr;
        // New groups and suspended ones take turns, so that neither waits for the other forever.
        m_new_first = m_random ? m_random->below(2) == 0 : !m_new_first;
        bool start = can_start && (m_suspended.empty() || m_new_first);
        m_running++;
        if (!start) {
            if (m_random) std::swap(m_suspended.front(), m_suspended[m_random->below(uint32_t(m_suspended.size()))]);
            std::unique_ptr<CtaGroup> group = std::move(m_suspended.front());
            m_suspended.pop_front();
            return group;
        }
        index = m_next++;
    }
    try {
        return make_group(worker, index);
    } catch (const std::bad_alloc&) {
        set_fault(2, m_name + ": no memory for a block");
    }
    MutexLock lock(m_mutex);
    m_running--;
    m_changed.notify_all();
    return nullptr;
}

void LaunchState::put_back(std::unique_ptr<CtaGroup> group, WorkerState& worker, bool finished) {
    MutexLock lock(m_mutex);
    m_running--;
    m_done += finished;
    if (!finished && !stopped()) {
        m_suspended.push_back(std::move(group));
    } else if (finished && worker.spare.size() < WorkerState::k_spare) {
        worker.spare.push_back(std::move(group));
    }
    if (ended() || !m_suspended.empty()) m_changed.notify_all();
}

bool LaunchState::work(WorkerState& worker, std::chrono::steady_clock::time_point deadline) {
    bool any = false, hurry = deadline != std::chrono::steady_clock::time_point::max();
    m_services.memory.refresh(worker.reader);
    worker.forget_ranges();
    while (std::unique_ptr<CtaGroup> group = take(worker)) {
        any = true;
        GroupState state = run_group(*this, *group, worker);
        put_back(std::move(group), worker, state == GroupState::finished);
        if (hurry && std::chrono::steady_clock::now() >= deadline) break;
    }
    m_services.memory.set_idle(worker.reader);
    return any;
}

namespace {

/// The bit of the core that the caller runs on; 0 if it has none.
uint64_t core_bit() {
    const int core = sched_getcpu();
    return core >= 0 && core < 64 ? uint64_t{1} << core : 0;
}

}  // namespace

void LaunchState::claim_core() { m_cores.fetch_or(core_bit(), std::memory_order_relaxed); }

void LaunchState::find_core() {
    if (m_cores.load(std::memory_order_relaxed) == 0) return;
    const uint64_t here = core_bit(), taken = m_cores.fetch_or(here, std::memory_order_relaxed);
    if ((taken & here) == 0) return;
    cpu_set_t allowed, free;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    free = allowed;
    for (int core = 0; core < 64; ++core) {
        if ((taken >> core & 1) != 0) CPU_CLR(core, &free);
    }
    // For a moment only: that makes the system move the thread now, and leaves it free to do better later.
    if (CPU_COUNT(&free) == 0 || sched_setaffinity(0, sizeof free, &free) != 0) return;
    (void)sched_setaffinity(0, sizeof allowed, &allowed);
    claim_core();
}

void LaunchState::finish(WorkerState& worker) {
    for (;;) {
        work(worker);
        MutexLock lock(m_mutex);
        if (ended()) break;
        if (!stopped() && (!m_suspended.empty() || m_next < m_group_count)) continue;
        m_changed.wait(m_mutex);
    }
    MutexLock lock(m_mutex);
    m_suspended.clear();
}

void LaunchState::set_fault(int cu_result, std::string text) {
    MutexLock lock(m_mutex);
    if (m_fault.ok()) m_fault = {cu_result, std::move(text)};
    m_stop.store(true);
}

Fault LaunchState::fault() const {
    MutexLock lock(m_mutex);
    return m_fault;
}

void LaunchState::add_output(uint64_t cta_linear, std::string_view text) {
    MutexLock lock(m_mutex);
    if (text.size() > m_services.printf_bytes) return;
    m_output_bytes += text.size();
    m_output.push_back({cta_linear, std::string(text)});
    for (; m_output_bytes > m_services.printf_bytes; m_output.pop_front()) m_output_bytes -= m_output.front().text.size();
}

std::string LaunchState::take_output() {
    MutexLock lock(m_mutex);
    std::stable_sort(m_output.begin(), m_output.end(),
                     [](const Output& a, const Output& b) { return a.cta_linear < b.cta_linear; });
    std::string all;
    all.reserve(m_output_bytes);
    for (const Output& output : m_output) all += output.text;
    m_output.clear();
    m_output_bytes = 0;
    return all;
}

void LaunchState::check_watchdog() {
    if (m_services.watchdog_ms == 0) return;
    auto limit = std::chrono::milliseconds(m_services.watchdog_ms);
    if (std::chrono::steady_clock::now() - m_start < limit) return;
    set_fault(702, log::format("{}: ran longer than {} ms", m_name, m_services.watchdog_ms));
}

std::string LaunchState::deadlock_text(CtaGroup& group) const {
    for (Warp& warp : group.warps()) {
        if (warp.live == 0 || warp.fragment_count == 0) continue;
        const Fragment& fragment = warp.fragments[0];
        return log::format("{}: line {}: block ({},{},{}): deadlock: threads wait here for others that never arrive", m_name,
                           fragment.pc->line, warp.cta->id[0], warp.cta->id[1], warp.cta->id[2]);
    }
    return m_name + ": deadlock";
}

const Body* body_at(const LaunchState& launch, uint64_t code_address) { return launch.code().body_at(code_address); }

Flow Warp::raise(const Instr& instr, int cu_result, uint32_t lane, const char* what, uint64_t address) {
    const Grid& grid = *cta->grid;
    uint32_t thread = index * k_warp_size + lane;
    std::string text = log::format("{}: line {}: {}", launch->name(), instr.line, what);
    if (address != 0) text += log::format(" 0x{:x}", address);
    text += log::format(", block ({},{},{}), thread ({},{},{})", cta->id[0], cta->id[1], cta->id[2], thread % grid.block[0],
                        thread / grid.block[0] % grid.block[1], thread / grid.block[0] / grid.block[1]);
    report_fault(*this, instr, cu_result, lane, what, address);
    launch->set_fault(cu_result, std::move(text));
    return Flow::fault;
}

bool Warp::find_range(uint64_t address, RangeCache& out) const { return launch->memory().find(address, out); }

std::byte* Warp::resolve_global(uint64_t address, uint32_t size_bytes) {
    RangeCache range;
    if (!find_range(address, range) || range.end - address < size_bytes) return nullptr;
    return reinterpret_cast<std::byte*>(address);
}

std::byte* Warp::resolve(uint64_t generic, uint32_t size_bytes) {
    auto inside = [&](const std::byte* begin, uint64_t bytes) {
        uint64_t offset = generic - reinterpret_cast<uint64_t>(begin);
        return offset < bytes && bytes - offset >= size_bytes;
    };
    auto* host = reinterpret_cast<std::byte*>(generic);
    if (inside(local, uint64_t{local_stride} * k_warp_size)) return host;
    for (uint32_t rank = 0; rank < cta->cluster_size; ++rank) {
        if (inside(cta->cluster[rank]->shared, cta->cluster[rank]->shared_bytes)) return host;
    }
    return resolve_global(generic, size_bytes);
}

std::byte* Warp::resolve_shared(uint64_t offset, uint32_t size_bytes) {
    const Cta* owner = cta;
    if (offset >= (1u << 24)) {
        uint64_t rank = (offset >> 24) - 1;
        if (rank >= cta->cluster_size) return nullptr;
        owner = cta->cluster[rank];
        offset &= (1u << 24) - 1;
    }
    if (offset > owner->shared_bytes || owner->shared_bytes - offset < size_bytes) return nullptr;
    return owner->shared + offset;
}

std::byte* Warp::resolve_local(uint64_t offset, uint32_t size_bytes, uint32_t lane) {
    if (offset > local_stride || local_stride - offset < size_bytes) return nullptr;
    return local + uint64_t{lane} * local_stride + offset;
}

}  // namespace warpline::softgpu::exec
