// Launches grids on the engine's threads; modules and limits.
#include "softgpu/exec/engine.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>

#include "common/base/scope_guard.h"
#include "common/log/log.h"
#include "softgpu/exec/multiprocessors.h"
#include "softgpu/isa/externs.h"
#include "softgpu/isa/registry.h"
#include "softgpu/passes/load.h"
#include "softgpu/passes/rules.h"

namespace warpline::softgpu::exec {

namespace {

constexpr uint32_t k_most_param_bytes = 32764;  ///< what CUDA allows
/// Behind the parameters: memory that blocks of a cooperative launch use to wait for each other. Cooperative groups find its
/// address in %envreg1 (upper half) and %envreg2 and count arrivals at offset 4.
constexpr uint32_t k_grid_workspace_bytes = 64;
constexpr uint32_t k_grid_workspace_offset = 32768;
constexpr uint32_t k_param_slot_bytes = 36864;
constexpr uint32_t k_param_slots = 256;
constexpr size_t k_idle_workers = 64;
/// Compilers read three numbers by a vector of four, up to behind the last variable: a GPU gives a block a multiple of 128
/// bytes of shared memory. Here it is a multiple of the widest access, which still finds most of what is out of bounds.
constexpr uint32_t k_widest_access_bytes = 16;
constexpr uint32_t round_to_access(uint32_t bytes) {
    return (bytes + k_widest_access_bytes - 1) / k_widest_access_bytes * k_widest_access_bytes;
}
/// A launch that is likely over sooner is run by the calling thread alone: waking others costs as much, and on a busy machine a
/// block in the hands of a thread that does not get a core holds up all that follows.
constexpr auto k_worth_help = std::chrono::microseconds(30);
/// A launch that takes longer is worth moving threads to other cores.
constexpr auto k_worth_moving = std::chrono::milliseconds(1);

}  // namespace

class EngineImpl::ParamSlots {
public:
    explicit ParamSlots(MemoryImpl& memory) : m_memory(memory) {
        m_base = memory.allocate(uint64_t{k_param_slot_bytes} * k_param_slots, 4096);
        for (uint32_t i = 0; m_base != 0 && i < k_param_slots; ++i) m_free.push_back(m_base + uint64_t{k_param_slot_bytes} * i);
    }
    ~ParamSlots() {
        if (m_base != 0) m_memory.free(m_base, uint64_t{k_param_slot_bytes} * k_param_slots);
    }
    uint64_t take() {
        MutexLock lock(m_mutex);
        while (m_free.empty() && m_base != 0) m_returned.wait(m_mutex);
        if (m_base == 0) return 0;
        uint64_t slot = m_free.back();
        m_free.pop_back();
        return slot;
    }
    void give_back(uint64_t slot) {
        MutexLock lock(m_mutex);
        m_free.push_back(slot);
        m_returned.notify_one();
    }

private:
    MemoryImpl& m_memory;
    uint64_t m_base = 0;
    Mutex m_mutex;
    ConditionVariable m_returned;
    std::vector<uint64_t> m_free WL_GUARDED_BY(m_mutex);
};

EngineImpl::EngineImpl(const EngineOptions& options)
    : m_options(options), m_heap(m_memory, Limits{}.heap_bytes), m_params(std::make_unique<ParamSlots>(m_memory)) {}

EngineImpl::~EngineImpl() {
    std::vector<std::thread> threads;
    {
        MutexLock lock(m_mutex);
        m_ending = true;
        threads.swap(m_threads);
        m_work_arrived.notify_all();
    }
    for (std::thread& thread : threads) thread.join();
    MutexLock lock(m_mutex);
    m_idle_workers.clear();
}

std::shared_ptr<Module> EngineImpl::load(std::span<const std::string_view> ptx, ModuleError& error,
                                         std::shared_ptr<ManagedPlaces> managed) {
    error = {};
    passes::LoadResult parsed = passes::load(ptx, {}, {.is_provided = &isa::is_extern_function});
    if (parsed.module == nullptr) {
        error = {parsed.cu_result, std::move(parsed.log)};
        return nullptr;
    }
    uint64_t code_bytes = (parsed.module->functions.size() + 1) * k_code_stride;
    uint64_t code_base = m_memory.code_window() + k_code_stride + m_code_top.fetch_add(code_bytes);
    auto module = std::make_shared<ModuleImpl>(m_memory, std::move(parsed.module), std::move(managed), m_options.checker);
    if (!module->place(code_base, error)) return nullptr;
    return module;
}

void EngineImpl::set_limits(const Limits& limits) {
    MutexLock lock(m_mutex);
    m_limits = limits;
    m_heap.set_size(limits.heap_bytes);
}

Limits EngineImpl::limits() const {
    MutexLock lock(m_mutex);
    return m_limits;
}

void EngineImpl::set_printf_sink(std::function<void(std::string_view)> sink) {
    MutexLock lock(m_sink_mutex);
    m_sink = std::move(sink);
}

Grid EngineImpl::make_grid(const Launch& launch, const KernelCode& code) {
    Grid grid{};
    auto set = [](uint32_t(&out)[3], const Dim3& from) {
        out[0] = from.x;
        out[1] = from.y;
        out[2] = from.z;
    };
    set(grid.grid, launch.grid);
    set(grid.block, launch.block);
    set(grid.cluster, launch.cluster);
    grid.threads_per_cta = uint32_t(launch.block.count());
    grid.warps_per_cta = (grid.threads_per_cta + k_warp_size - 1) / k_warp_size;
    grid.device_ordinal = m_options.device_ordinal;
    grid.compute_capability = m_options.compute_capability;
    grid.dynamic_shared_bytes = launch.dynamic_shared_bytes;
    grid.static_shared_bytes = code.static_shared_bytes;
    grid.multiprocessors = multiprocessors(worker_count());
    grid.allowed = launch.multiprocessors;
    return grid;
}

Fault EngineImpl::launch(const Launch& launch) {
    if (!m_options.execute) return {};
    // What is next lies at the end: a grid's children come before its own next sibling.
    std::vector<ChildLaunch> waiting;
    Fault fault = launch_one(launch, waiting);
    while (!waiting.empty()) {
        ChildLaunch child = std::move(waiting.back());
        waiting.pop_back();
        if (fault.ok()) {
            const uint32_t bytes = child.function->info().param_bytes;
            child.launch.params = as_bytes(reinterpret_cast<const void*>(child.buffer), bytes);
            fault = launch_one(child.launch, waiting);
        }
        (void)m_heap.free(child.buffer);
    }
    return fault;
}

Fault EngineImpl::launch_one(const Launch& launch, std::vector<ChildLaunch>& waiting) {
    auto* function = static_cast<FunctionImpl*>(launch.function);
    ModuleError error = function->ensure_ready();
    if (error.cu_result != 0) return {error.cu_result, error.log};
    std::shared_ptr<const KernelCode> code = function->code();
    const FunctionInfo& info = function->info();
    if (launch.grid.count() == 0 || launch.block.count() == 0 || launch.block.count() > 1024 || launch.cluster.count() == 0 ||
        launch.params.size() < info.param_bytes || info.param_bytes > k_most_param_bytes) {
        return {1, info.name + ": invalid launch"};
    }
    Limits limits = this->limits();
    Grid grid = make_grid(launch, *code);
    grid.grid_id = m_launch_id.fetch_add(1);
    GroupShape shape;
    shape.ctas = uint32_t(launch.cluster.count());
    shape.warps = grid.warps_per_cta;
    shape.threads = grid.threads_per_cta;
    shape.frame_bytes = code->entry->frame_bytes;
    shape.shared_bytes = round_to_access(code->dynamic_shared_offset + launch.dynamic_shared_bytes);
    uint64_t local = code->open_stack ? std::max<uint64_t>(limits.stack_bytes, code->local_bytes + 1024) : code->local_bytes;
    // The odd cache line keeps lanes' stacks from falling into the same cache set.
    if (local != 0) shape.local_stride = uint32_t((local + 63) / 64 * 64 + 64);

    uint64_t params = m_params->take();
    if (params == 0) return {2, "no memory for kernel parameters"};
    ScopeGuard give_back([&] { m_params->give_back(params); });
    std::copy_n(launch.params.data(), info.param_bytes, reinterpret_cast<std::byte*>(params));
    if (launch.cooperative) {
        std::memset(reinterpret_cast<void*>(params + k_grid_workspace_offset), 0, k_grid_workspace_bytes);
        grid.env[1] = uint32_t((params + k_grid_workspace_offset) >> 32);
        grid.env[2] = uint32_t(params + k_grid_workspace_offset);
    }
    DeviceLaunches launches(function->module(), m_heap);
    auto state = std::make_shared<LaunchState>(
        grid.grid_id, code, info.name, grid, reinterpret_cast<std::byte*>(params), info.param_bytes, shape, launch.cooperative,
        LaunchServices{m_memory, m_heap, launches, limits.printf_fifo_bytes, m_options.watchdog_ms, m_options.schedule_seed,
                       m_options.checker});
    run(state, *function);
    std::string output = state->take_output();
    if (!output.empty()) {
        MutexLock lock(m_sink_mutex);
        if (m_sink) m_sink(output);
    }
    std::vector<ChildLaunch> children = launches.take();
    std::move(children.rbegin(), children.rend(), std::back_inserter(waiting));
    return state->fault();
}

/// The calling thread works too: a small grid needs no other, and is done without waking one.
void EngineImpl::run(const std::shared_ptr<LaunchState>& state, FunctionImpl& function) {
    const auto began = std::chrono::steady_clock::now();
    const uint64_t groups = state->group_count();
    std::unique_ptr<WorkerState> worker = take_worker();
    const bool may_share = groups > 1 && m_options.schedule_seed == 0;
    // A wrong guess costs no more than the group at hand takes: then help is called after all.
    if (may_share && function.expected(groups) < k_worth_help) state->work(*worker, began + k_worth_help);
    const bool with_help = may_share && state->wants_help();
    if (with_help) {
        if (function.expected(groups) >= k_worth_moving) state->claim_core();
        MutexLock lock(m_mutex);
        start_threads();
        m_active.push_back(state);
        m_work_arrived.notify_all();
    }
    state->finish(*worker);
    put_worker(std::move(worker));
    function.note_time(groups, (std::chrono::steady_clock::now() - began) * (with_help ? worker_count() : 1));
    if (!with_help) return;
    MutexLock lock(m_mutex);
    std::erase(m_active, state);
}

uint32_t EngineImpl::worker_count() const {
    return m_options.workers != 0 ? m_options.workers : std::max(1u, std::thread::hardware_concurrency());
}

void EngineImpl::start_threads() {
    while (m_threads.size() + 1 < worker_count()) {
        auto number = uint32_t(m_threads.size());
        m_threads.emplace_back([this, number] { thread_main(number); });
    }
}

void EngineImpl::thread_main(uint32_t number) {
    pthread_setname_np(pthread_self(), log::format("softgpu-{}", number).c_str());
    std::unique_ptr<WorkerState> worker = take_worker();
    for (;;) {
        std::shared_ptr<LaunchState> state;
        {
            MutexLock lock(m_mutex);
            for (;;) {
                if (m_ending) return;
                auto wants = [](const auto& launch) { return launch->wants_help(); };
                auto found = std::find_if(m_active.begin(), m_active.end(), wants);
                if (found != m_active.end()) {
                    state = *found;
                    std::rotate(m_active.begin(), found + 1, m_active.end());  // the next helper looks elsewhere first
                    break;
                }
                m_work_arrived.wait(m_mutex);
            }
        }
        state->find_core();
        state->work(*worker);
    }
}

std::unique_ptr<WorkerState> EngineImpl::take_worker() {
    {
        MutexLock lock(m_mutex);
        if (!m_idle_workers.empty()) {
            std::unique_ptr<WorkerState> worker = std::move(m_idle_workers.back());
            m_idle_workers.pop_back();
            return worker;
        }
    }
    return std::make_unique<WorkerState>(m_memory);
}

void EngineImpl::put_worker(std::unique_ptr<WorkerState> worker) {
    MutexLock lock(m_mutex);
    if (m_idle_workers.size() < k_idle_workers) m_idle_workers.push_back(std::move(worker));
}

std::unique_ptr<Engine> create_engine(const EngineOptions& options) {
    // The tables of instructions and their forms are read here and not by the first module: a server has an engine ready before
    // the session that loads it.
    static_cast<void>(isa::Registry::instance());
    static_cast<void>(passes::rules_of(ptx::Opcode{}));
    return std::make_unique<EngineImpl>(options);
}

}  // namespace warpline::softgpu::exec
