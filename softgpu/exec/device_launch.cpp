// Runs what a grid has launched, when it has ended.
#include "softgpu/exec/device_launch.h"

#include <algorithm>

#include "softgpu/exec/module.h"

namespace warpline::softgpu::exec {

namespace {

constexpr uint64_t k_tail_stream = 3;            ///< cudaStreamTailLaunch
constexpr uint64_t k_first_handle = 0x10000;     ///< above the streams that CUDA names by small numbers
constexpr uint32_t k_most_shared_bytes = 49152;  ///< what a kernel may have without being asked for more by the host

}  // namespace

DeviceLaunches::~DeviceLaunches() {
    MutexLock lock(m_mutex);
    for (const auto& [buffer, child] : m_prepared) (void)m_heap.free(buffer);
    for (const ChildLaunch& child : m_launched) (void)m_heap.free(child.buffer);
}

uint64_t DeviceLaunches::prepare(uint64_t thread, uint64_t code_address, const Dim3& grid, const Dim3& block,
                                 uint32_t shared_bytes) {
    auto refuse = [&](int error) {
        set_last_error(thread, error);
        return uint64_t{0};
    };
    std::shared_ptr<Function> function = m_module.function_at(code_address);
    if (function == nullptr) return refuse(k_invalid_function);
    const FunctionInfo& info = function->info();
    const bool too_large = grid.count() == 0 || grid.y > 65535 || grid.z > 65535 || grid.x > INT32_MAX || block.count() == 0 ||
                           block.z > 64 || block.count() > info.max_threads ||
                           uint64_t{shared_bytes} + info.static_shared_bytes > k_most_shared_bytes;
    if (too_large) return refuse(k_invalid_configuration);
    const uint64_t buffer = m_heap.allocate(std::max<uint32_t>(16, info.param_bytes));
    if (buffer == 0) return refuse(k_out_of_memory);
    ChildLaunch child;
    child.launch.function = function.get();
    child.launch.grid = grid;
    child.launch.block = block;
    const auto& cluster = info.required_cluster;
    if (cluster[0] != 0) child.launch.cluster = {cluster[0], cluster[1], cluster[2]};
    child.launch.dynamic_shared_bytes = shared_bytes;
    child.function = std::move(function);
    child.buffer = buffer;
    MutexLock lock(m_mutex);
    m_prepared[buffer] = std::move(child);
    return buffer;
}

int DeviceLaunches::launch(uint64_t thread, uint64_t buffer, uint64_t stream) {
    MutexLock lock(m_mutex);
    auto found = m_prepared.find(buffer);
    if (found == m_prepared.end()) {
        m_errors[thread] = k_invalid_value;
        return k_invalid_value;
    }
    found->second.at_the_end = stream == k_tail_stream;
    m_launched.push_back(std::move(found->second));
    m_prepared.erase(found);
    return 0;
}

int DeviceLaunches::last_error(uint64_t thread) const {
    MutexLock lock(m_mutex);
    auto found = m_errors.find(thread);
    return found == m_errors.end() ? 0 : found->second;
}

void DeviceLaunches::set_last_error(uint64_t thread, int error) {
    MutexLock lock(m_mutex);
    if (error == 0) {
        m_errors.erase(thread);
    } else {
        m_errors[thread] = error;
    }
}

uint64_t DeviceLaunches::new_handle() {
    MutexLock lock(m_mutex);
    return k_first_handle + 16 * m_handles++;
}

std::vector<ChildLaunch> DeviceLaunches::take() {
    MutexLock lock(m_mutex);
    std::stable_partition(m_launched.begin(), m_launched.end(), [](const ChildLaunch& child) { return !child.at_the_end; });
    return std::exchange(m_launched, {});
}

}  // namespace warpline::softgpu::exec
