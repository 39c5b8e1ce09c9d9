// Launches: checked here, so that an invalid one is reported by the launch itself, and sent without waiting.
#include "client/hooks/launch.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "client/gen/launch_calls.gen.h"
#include "client/hooks/capture.h"
#include "client/session/environment.h"

namespace warpline::client {

namespace {

constexpr size_t k_max_param_bytes = 32764;  // CUDA C++ Programming Guide, __global__ function parameters

bool exceeds(unsigned value, const Device& device, CUdevice_attribute limit) {
    return value == 0 || value > static_cast<unsigned>(device.attribute(limit));
}

/// The function behind a launch, ready to be named to the server.
CUresult prepare(Call& call, CUfunction f, CUstream stream, const LaunchShape& shape, Function*& function) {
    function = call.state.functions.find(to_token(f));
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    if (function->context != 0 && function->context != call.context) return CUDA_ERROR_INVALID_CONTEXT;
    if (is_special_stream(stream)) {
        if (stream == CU_STREAM_PER_THREAD) call.thread.used_own_stream = true;
    } else {
        const Stream* found = call.state.streams.find(to_token(stream));
        if (!found || found->context != call.context) return CUDA_ERROR_INVALID_HANDLE;
    }
    if (CUresult refused = check_capture(call, stream, InCapture::node); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = check_shape(*find_device(call.device()), *function, shape); refused != CUDA_SUCCESS) return refused;
    return ensure_announced(call, to_token(f), *function);
}

CUresult settle(Call& call, CUresult launched, uint64_t stream) {
    // What is captured runs later.
    if (launched != CUDA_SUCCESS || !launches_block() || is_capturing(call, stream)) return launched;
    return synchronize_stream(call, stream);
}

/// A cooperative grid must be on the device all at once: 720 otherwise, from the launch itself. Asks for the occupancy once for
/// each shape.
CUresult check_cooperative(Call& call, CUfunction f, const LaunchShape& shape) {
    int blocks = 0;
    CUresult result =
        active_blocks(call, f, static_cast<int>(shape.block_x * shape.block_y * shape.block_z), shape.shared_bytes, blocks);
    if (result != CUDA_SUCCESS) return result;
    uint64_t grid = uint64_t{shape.grid_x} * shape.grid_y * shape.grid_z;
    auto processors = static_cast<uint64_t>(find_device(call.device())->attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
    return grid > processors * static_cast<uint64_t>(blocks) ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : CUDA_SUCCESS;
}

struct ClusterShape {
    unsigned x, y, z;
};

/// What a cluster must be like, as far as arguments, function and device tell. Source: CUDA C++ Programming Guide, Thread Block
/// Clusters: at most 8 blocks on every device, up to 16 where the function allows it, which the server knows.
CUresult check_cluster(const Device& device, const Function& function, const CUlaunchConfig& config, const ClusterShape& c) {
    constexpr uint64_t k_largest = 16;
    const uint64_t blocks = uint64_t{c.x} * c.y * c.z;
    if (blocks == 0) return CUDA_ERROR_INVALID_VALUE;
    const auto& required = function.kernel->cluster;
    if (required[0] != 0 && blocks != 1) {
        const bool same = c.x == required[0] && c.y == std::max(required[1], 1u) && c.z == std::max(required[2], 1u);
        if (!same) return CUDA_ERROR_INVALID_VALUE;
    }
    if (blocks == 1) return CUDA_SUCCESS;
    if (device.attribute(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) == 0) return CUDA_ERROR_NOT_SUPPORTED;
    const bool divides = config.gridDimX % c.x == 0 && config.gridDimY % c.y == 0 && config.gridDimZ % c.z == 0;
    return blocks <= k_largest && divides ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

/// True if the attribute is data that means the same on the server.
bool can_travel(const Call& call, const CUlaunchAttribute& attribute) {
    switch (attribute.id) {
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
            call.state.device_records_events.store(true);
            return call.state.events.find(to_token(attribute.value.programmaticEvent.event)) != nullptr;
        case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
            call.state.device_records_events.store(true);
            return call.state.events.find(to_token(attribute.value.launchCompletionEvent.event)) != nullptr;
        case CU_LAUNCH_ATTRIBUTE_IGNORE:
        case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: return true;
        default: return false;
    }
}

/// The enumeration has a gap.
bool is_launch_attribute(CUlaunchAttributeID id) {
    constexpr int k_unused = 15;
    return id >= CU_LAUNCH_ATTRIBUTE_IGNORE && id <= CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING && id != k_unused;
}

/// cudaErrorInvalidConfiguration. The driver interface has no name for it, but libcudart passes on what a launch returns, and
/// its programs, which launch the kernels of libraries, are told this of a shape that no device could run. Who launches a
/// function of a module gets CUDA_ERROR_INVALID_VALUE.
constexpr auto k_invalid_configuration = static_cast<CUresult>(9);

bool device_can_run(const Device& device, const LaunchShape& shape) {
    if (exceeds(shape.grid_x, device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) ||
        exceeds(shape.grid_y, device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y) ||
        exceeds(shape.grid_z, device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z) ||
        exceeds(shape.block_x, device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X) ||
        exceeds(shape.block_y, device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y) ||
        exceeds(shape.block_z, device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)) {
        return false;
    }
    // Each factor is within the device's bound, so the product fits.
    const uint64_t threads = uint64_t{shape.block_x} * shape.block_y * shape.block_z;
    return !exceeds(static_cast<unsigned>(threads), device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
}

}  // namespace

CUresult check_shape(const Device& device, const Function& function, const LaunchShape& shape) {
    if (!device_can_run(device, shape)) return function.code->library ? k_invalid_configuration : CUDA_ERROR_INVALID_VALUE;
    const uint64_t threads = uint64_t{shape.block_x} * shape.block_y * shape.block_z;
    if (function.max_threads != 0 && threads > function.max_threads) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    const auto& required = function.kernel->required_threads;
    if (required[0] != 0) {
        const unsigned block[] = {shape.block_x, shape.block_y, shape.block_z};
        for (size_t i = 0; i < 3; ++i) {
            if (block[i] != std::max(required[i], 1u)) return CUDA_ERROR_INVALID_VALUE;
        }
    }
    if (function.registers != 0) {
        // Registers are given out per warp, rounded up to 256.
        uint64_t warps = (threads + 31) / 32;
        uint64_t per_warp = (uint64_t{function.registers} * 32 + 255) / 256 * 256;
        if (warps * per_warp > static_cast<uint64_t>(device.attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK))) {
            return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
        }
    }
    if (shape.shared_bytes == 0) return CUDA_SUCCESS;
    int allowed = function.max_dynamic_shared_bytes.load(std::memory_order_relaxed);
    int64_t limit = allowed >= 0 ? allowed
                                 : int64_t{device.attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)} -
                                       function.static_shared_bytes;
    return shape.shared_bytes > limit ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult LaunchParams::read(const Function& function, void** kernel_params, void** extra) {
    if (extra) {
        if (kernel_params) return CUDA_ERROR_INVALID_VALUE;
        const void* buffer = nullptr;
        size_t size_bytes = 0;
        for (size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
            if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
                buffer = extra[i + 1];
            } else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
                if (!extra[i + 1]) return CUDA_ERROR_INVALID_VALUE;
                size_bytes = *static_cast<const size_t*>(extra[i + 1]);
            } else {
                return CUDA_ERROR_INVALID_VALUE;
            }
        }
        if (size_bytes > k_max_param_bytes || (size_bytes != 0 && !buffer)) return CUDA_ERROR_INVALID_VALUE;
        for (const auto& param : function.kernel->params) {
            if (size_bytes < uint64_t{param.offset_bytes} + param.size_bytes) return CUDA_ERROR_INVALID_VALUE;
        }
        m_params = as_bytes(buffer, size_bytes);
        return CUDA_SUCCESS;
    }
    if (function.pieces.empty()) return CUDA_SUCCESS;
    if (!kernel_params) return CUDA_ERROR_INVALID_VALUE;
    std::byte* place = m_inline;
    if (function.block_bytes > k_inline_bytes) {
        m_heap.resize(function.block_bytes);
        place = m_heap.data();
    }
    for (size_t i = 0; i < function.pieces.size(); ++i) {
        if (!kernel_params[i]) return CUDA_ERROR_INVALID_VALUE;
        std::memcpy(place + function.pieces[i].offset_bytes, kernel_params[i], function.pieces[i].size_bytes);
    }
    m_params = BytesView(place, function.block_bytes);
    m_sizes = function.sizes;
    return CUDA_SUCCESS;
}

CUresult check_attributes(const Call& call, const CUlaunchAttribute* attributes, unsigned count) {
    constexpr unsigned k_max_attributes = 64;
    if (count == 0) return CUDA_SUCCESS;
    if (!attributes || count > k_max_attributes) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; ++i) {
        if (can_travel(call, attributes[i])) continue;
        if (!is_launch_attribute(attributes[i].id)) return CUDA_ERROR_INVALID_VALUE;
        std::string reason = "launch attribute " + std::to_string(static_cast<int>(attributes[i].id));
        static std::atomic<bool> told{false};
        return static_cast<CUresult>(refuse("cuLaunchKernelEx", reason.c_str(), told));
    }
    return CUDA_SUCCESS;
}

CUresult check_attribute(const Call& call, CUlaunchAttributeID id, const CUlaunchAttributeValue& value) {
    CUlaunchAttribute attribute{};
    attribute.id = id;
    attribute.value = value;
    return check_attributes(call, &attribute, 1);
}

CUresult hook_client_cuLaunchKernel(Call& call, CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                    unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                                    unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void** kernelParams,
                                    void** extra) {
    Function* function = nullptr;
    const LaunchShape shape{gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes};
    if (CUresult refused = prepare(call, f, hStream, shape, function); refused != CUDA_SUCCESS) return refused;
    LaunchParams params;
    if (CUresult refused = params.read(*function, kernelParams, extra); refused != CUDA_SUCCESS) return refused;
    const uint64_t stream = stream_token(call, hStream);
    CUresult result = gen::issue_cuLaunchKernel(call, to_token(f), gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY,
                                                blockDimZ, sharedMemBytes, stream, params.params(), params.sizes());
    return settle(call, result, stream);
}

CUresult hook_client_cuLaunchCooperativeKernel(Call& call, CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                               unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                                               unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                                               void** kernelParams) {
    Function* function = nullptr;
    const LaunchShape shape{gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes};
    if (CUresult refused = prepare(call, f, hStream, shape, function); refused != CUDA_SUCCESS) return refused;
    LaunchParams params;
    if (CUresult refused = params.read(*function, kernelParams, nullptr); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = check_cooperative(call, f, shape); refused != CUDA_SUCCESS) return refused;
    const uint64_t stream = stream_token(call, hStream);
    CUresult result =
        gen::issue_cuLaunchCooperativeKernel(call, to_token(f), gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
                                             sharedMemBytes, stream, params.params(), params.sizes());
    return settle(call, result, stream);
}

CUresult hook_client_cuLaunchKernelEx(Call& call, const CUlaunchConfig* config, CUfunction f, void** kernelParams,
                                      void** extra) {
    CUstream hStream = config->hStream;
    if (!hStream && call.per_thread) hStream = CU_STREAM_PER_THREAD;
    if (config->numAttrs == 0) {
        return hook_client_cuLaunchKernel(call, f, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                                          config->blockDimY, config->blockDimZ, config->sharedMemBytes, hStream, kernelParams,
                                          extra);
    }
    if (CUresult refused = check_attributes(call, config->attrs, config->numAttrs); refused != CUDA_SUCCESS) return refused;
    Function* function = nullptr;
    const LaunchShape shape{config->gridDimX,  config->gridDimY,  config->gridDimZ,      config->blockDimX,
                            config->blockDimY, config->blockDimZ, config->sharedMemBytes};
    if (CUresult refused = prepare(call, f, hStream, shape, function); refused != CUDA_SUCCESS) return refused;
    LaunchParams params;
    if (CUresult refused = params.read(*function, kernelParams, extra); refused != CUDA_SUCCESS) return refused;
    for (const CUlaunchAttribute& attribute : std::span(config->attrs, config->numAttrs)) {
        const auto& cluster = attribute.value.clusterDim;
        CUresult refused = CUDA_SUCCESS;
        if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
            refused = check_cluster(*find_device(call.device()), *function, *config, {cluster.x, cluster.y, cluster.z});
        } else if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && attribute.value.cooperative != 0) {
            refused = check_cooperative(call, f, shape);
        }
        if (refused != CUDA_SUCCESS) return refused;
    }
    const uint64_t stream = stream_token(call, hStream);
    CUresult result = gen::issue_cuLaunchKernelEx(call, to_token(f), shape.grid_x, shape.grid_y, shape.grid_z, shape.block_x,
                                                  shape.block_y, shape.block_z, shape.shared_bytes, stream, params.params(),
                                                  params.sizes(), array_bytes(config->attrs, config->numAttrs));
    return settle(call, result, stream);
}

}  // namespace warpline::client
