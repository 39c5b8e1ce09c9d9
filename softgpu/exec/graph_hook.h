// How kernels set conditional values of graphs.
#pragma once

#include <atomic>
#include <cstdint>

namespace warpline::softgpu::exec {

/// What cudaGraphSetConditional(handle, value) of device code calls: named by the driver layer when it starts, null without
/// one. Called on the engine's threads; the value has to be visible to what the driver runs after the launch.
inline std::atomic<void (*)(uint64_t handle, uint32_t value)> graph_conditional_hook{nullptr};

}  // namespace warpline::softgpu::exec
