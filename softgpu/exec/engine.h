// The engine of a device.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "softgpu/exec/api.h"
#include "softgpu/exec/device_heap.h"
#include "softgpu/exec/launch.h"
#include "softgpu/exec/memory.h"
#include "softgpu/exec/module.h"

namespace warpline::softgpu::exec {

class EngineImpl final : public Engine {
public:
    explicit EngineImpl(const EngineOptions& options);
    ~EngineImpl() override;

    Memory& memory() override { return m_memory; }
    std::shared_ptr<Module> load(std::span<const std::string_view> ptx, ModuleError& error,
                                 std::shared_ptr<ManagedPlaces> managed) override;
    Fault launch(const Launch& launch) override;
    void set_limits(const Limits& limits) override;
    Limits limits() const override;
    void set_printf_sink(std::function<void(std::string_view)> sink) override;

private:
    /// Memory of kernel parameters, one slot per running launch.
    class ParamSlots;

    /// One grid. What its threads launched is added to `waiting`, the first of it last.
    Fault launch_one(const Launch& launch, std::vector<ChildLaunch>& waiting);
    Grid make_grid(const Launch& launch, const KernelCode& code);
    void run(const std::shared_ptr<LaunchState>& state, FunctionImpl& function);
    uint32_t worker_count() const;
    void start_threads() WL_REQUIRES(m_mutex);
    void thread_main(uint32_t number);
    std::unique_ptr<WorkerState> take_worker();
    void put_worker(std::unique_ptr<WorkerState> worker);

    const EngineOptions m_options;
    MemoryImpl m_memory;
    DeviceHeap m_heap;
    std::unique_ptr<ParamSlots> m_params;
    std::atomic<uint64_t> m_code_top{0};
    std::atomic<uint64_t> m_launch_id{1};

    mutable Mutex m_mutex;
    ConditionVariable m_work_arrived;
    Limits m_limits WL_GUARDED_BY(m_mutex);
    std::vector<std::shared_ptr<LaunchState>> m_active WL_GUARDED_BY(m_mutex);  ///< launches that helpers may join
    std::vector<std::unique_ptr<WorkerState>> m_idle_workers WL_GUARDED_BY(m_mutex);
    std::vector<std::thread> m_threads WL_GUARDED_BY(m_mutex);
    bool m_ending WL_GUARDED_BY(m_mutex) = false;

    Mutex m_sink_mutex;
    std::function<void(std::string_view)> m_sink WL_GUARDED_BY(m_sink_mutex);
};

}  // namespace warpline::softgpu::exec
