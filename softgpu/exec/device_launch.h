// Kernels that kernels launch.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "softgpu/exec/api.h"
#include "softgpu/exec/device_heap.h"

namespace warpline::softgpu::exec {

class ModuleImpl;

/// A launch that a kernel's thread has asked for (dynamic parallelism).
struct ChildLaunch {
    std::shared_ptr<Function> function;
    Launch launch;            ///< without parameters: those lie in the buffer
    uint64_t buffer = 0;      ///< on the device's heap
    bool at_the_end = false;  ///< tail launch: after all others of the same parent
};

/// What the threads of one running grid launch. Children run once the grid has ended, which CUDA leaves open (a parent cannot
/// wait for them) and which orders every stream as CUDA demands: each child, with all of its own children, before the next.
class DeviceLaunches {
public:
    DeviceLaunches(ModuleImpl& module, DeviceHeap& heap) : m_module(module), m_heap(heap) {}
    ~DeviceLaunches();
    DeviceLaunches(const DeviceLaunches&) = delete;
    DeviceLaunches& operator=(const DeviceLaunches&) = delete;

    // The errors of threads are those of the CUDA run time (cudaError_t).
    static constexpr int k_invalid_value = 1, k_out_of_memory = 2, k_invalid_configuration = 9, k_invalid_function = 98;

    /// Device memory for the parameters of a launch; 0 sets the thread's error. `thread` numbers the grid's threads.
    uint64_t prepare(uint64_t thread, uint64_t code_address, const Dim3& grid, const Dim3& block, uint32_t shared_bytes);
    /// Launches what was prepared. 0, or the error, which is set too.
    int launch(uint64_t thread, uint64_t buffer, uint64_t stream);

    int last_error(uint64_t thread) const;
    void set_last_error(uint64_t thread, int error);
    /// A handle for a stream or an event of device code. What is launched runs in the order of launching, so that there is
    /// nothing behind it.
    uint64_t new_handle();

    /// What was launched, in the order in which it has to run. Whoever takes it owns the buffers.
    std::vector<ChildLaunch> take();

private:
    ModuleImpl& m_module;
    DeviceHeap& m_heap;
    mutable Mutex m_mutex;
    std::map<uint64_t, ChildLaunch> m_prepared WL_GUARDED_BY(m_mutex);  ///< by buffer
    std::vector<ChildLaunch> m_launched WL_GUARDED_BY(m_mutex);
    std::map<uint64_t, int> m_errors WL_GUARDED_BY(m_mutex);  ///< by thread; no error: absent
    uint64_t m_handles WL_GUARDED_BY(m_mutex) = 0;
};

}  // namespace warpline::softgpu::exec
