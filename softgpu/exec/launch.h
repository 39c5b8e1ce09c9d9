// Launches while they run.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "softgpu/check/checker.h"
#include "softgpu/exec/api.h"
#include "softgpu/exec/cta.h"
#include "softgpu/exec/device_heap.h"
#include "softgpu/exec/device_launch.h"
#include "softgpu/exec/kernel.h"
#include "softgpu/exec/memory.h"
#include "softgpu/exec/random.h"

namespace warpline::softgpu::exec {

/// What one thread needs to run blocks: its range caches, and storage of blocks for reuse.
class WorkerState {
public:
    explicit WorkerState(MemoryImpl& memory) : m_memory(memory) { memory.add_reader(reader); }
    ~WorkerState() { m_memory.remove_reader(reader); }
    WorkerState(const WorkerState&) = delete;
    WorkerState& operator=(const WorkerState&) = delete;

    /// Makes the caches those of a launch.
    void bind(const LaunchState& launch);
    void forget_ranges();

    RangeReader reader;
    std::vector<RangeCache> caches;
    std::vector<std::unique_ptr<CtaGroup>> spare;  ///< bounded by k_spare

    static constexpr size_t k_spare = 8;

private:
    MemoryImpl& m_memory;
    uint64_t m_bound_launch = 0;
};

/// What a launch needs from its engine.
struct LaunchServices {
    MemoryImpl& memory;
    DeviceHeap& heap;
    DeviceLaunches& launches;
    uint64_t printf_bytes = 0;
    uint64_t watchdog_ms = 0;
    uint64_t schedule_seed = 0;
    check::Checker* checker = nullptr;  ///< null: kernels are not checked
};

/// A launch while it runs. Workers take groups of blocks (a cluster, or one block) from it in linear order; a group that waits
/// for others is put back and taken up again later.
class LaunchState {
public:
    LaunchState(uint64_t id, std::shared_ptr<const KernelCode> code, const std::string& name, const Grid& grid,
                std::byte* params, uint32_t params_bytes, const GroupShape& shape, bool cooperative, LaunchServices services);

    /// Runs groups until there is nothing to take, or until `deadline`. True if something was run.
    bool work(WorkerState& worker,
              std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max());
    /// Of a launch that takes its time: the calling thread says on which core it is; helpers that find themselves on a core
    /// which another worker of the launch has go to one that none has. Wake-ups may put them all on one core, and systems that
    /// are busy otherwise leave them there for longer than most launches last.
    void claim_core();
    void find_core();
    /// True if another worker would find something to do.
    bool wants_help() const;
    /// Blocks until every group has ended, helping whenever groups turn up.
    void finish(WorkerState& worker);

    /// Ends the launch. The first fault wins.
    void set_fault(int cu_result, std::string text);
    /// What decides the order of things; null: their usual order. Then one worker runs the launch.
    Random* random() { return m_random ? &*m_random : nullptr; }
    bool stopped() const { return m_stop.load(std::memory_order_relaxed); }
    Fault fault() const;
    /// Text of device printf, block by block.
    std::string take_output();
    /// printf text of a block. When the FIFO is full the oldest text is lost, as on a device.
    void add_output(uint64_t cta_linear, std::string_view text);

    /// True if a group that gives way now makes room for another one.
    bool others_wait() const;
    void check_watchdog();
    std::string deadlock_text(CtaGroup& group) const;

    uint64_t id() const { return m_id; }
    uint64_t group_count() const { return m_group_count; }
    const KernelCode& code() const { return *m_code; }
    const Grid& grid() const { return m_grid; }
    const std::string& name() const { return m_name; }
    const GroupShape& shape() const { return m_shape; }
    std::byte* params() const { return m_params; }
    uint32_t params_bytes() const { return m_params_bytes; }
    const LaunchServices& services() const { return m_services; }
    MemoryImpl& memory() const { return m_services.memory; }

private:
    std::unique_ptr<CtaGroup> take(WorkerState& worker);
    std::unique_ptr<CtaGroup> make_group(WorkerState& worker, uint64_t index);
    void put_back(std::unique_ptr<CtaGroup> group, WorkerState& worker, bool finished);
    bool ended() const WL_REQUIRES(m_mutex);

    const uint64_t m_id;
    const std::shared_ptr<const KernelCode> m_code;
    const std::string m_name;
    const Grid m_grid;
    std::byte* const m_params;
    const uint32_t m_params_bytes;
    const GroupShape m_shape;
    const LaunchServices m_services;
    const std::chrono::steady_clock::time_point m_start;
    uint64_t m_group_count = 0, m_resident_limit = 0;
    std::optional<Random> m_random;

    mutable Mutex m_mutex;
    ConditionVariable m_changed;
    uint64_t m_next WL_GUARDED_BY(m_mutex) = 0;  ///< next group that has not been started
    uint64_t m_done WL_GUARDED_BY(m_mutex) = 0;
    uint64_t m_running WL_GUARDED_BY(m_mutex) = 0;  ///< in the hands of workers
    bool m_new_first WL_GUARDED_BY(m_mutex) = true;
    std::deque<std::unique_ptr<CtaGroup>> m_suspended WL_GUARDED_BY(m_mutex);
    Fault m_fault WL_GUARDED_BY(m_mutex);
    struct Output {
        uint64_t cta_linear;
        std::string text;
    };
    std::deque<Output> m_output WL_GUARDED_BY(m_mutex);
    uint64_t m_output_bytes WL_GUARDED_BY(m_mutex) = 0;
    std::atomic<bool> m_stop{false};
    std::atomic<uint64_t> m_cores{0};  ///< relaxed: of the first 64, those with a worker; a hint
};

/// Body of a code address in the kernel of a launch; null if it is no function.
const Body* body_at(const LaunchState& launch, uint64_t code_address);

}  // namespace warpline::softgpu::exec
