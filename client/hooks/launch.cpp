// Launches: checked here, and sent without waiting.
#include <algorithm>
#include <bit>
#include <span>

#include "client/call/load_turn.h"
#include "client/code/functions.h"
#include "client/code/launch_image.h"
#include "client/code/launch_params.h"
#include "client/gen/launch_calls.gen.h"
#include "client/graph/capture.h"
#include "client/session/environment.h"

namespace warpline::client {

namespace {

/// A launch on its way. The first one of a function on a device lets the driver load its code.
struct Launch {
    Function* function = nullptr;
    LoadTurn loading;
    int first_on = -1;  ///< device
    ~Launch() {
        if (first_on >= 0) function->note_launched(first_on);
    }
};

/// The function behind a launch, ready to be named to the server.
CUresult prepare(Call& call, CUfunction f, CUstream stream, const LaunchShape& shape, Launch& launch) {
    Function*& function = launch.function;
    function = call.state.functions.find(to_token(f));
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    if (function->context != 0 && function->context != call.context) return CUDA_ERROR_INVALID_CONTEXT;
    if (is_special_stream(stream)) {
        if (stream == CU_STREAM_PER_THREAD) call.thread.used_own_stream = true;
    } else {
        const Stream* found = call.state.streams.find(to_token(stream));
        if (!found) return unknown_handle<HandleKind::stream>(to_token(stream));
        if (found->context != call.context) return CUDA_ERROR_INVALID_HANDLE;
        if (found->detached.load(std::memory_order_relaxed)) return detached_stream();
    }
    if (CUresult refused = check_capture(call, stream, InCapture::node); refused != CUDA_SUCCESS) return refused;
    const int device = call.device();
    if (CUresult refused = check_shape(*find_device(device), *function, shape); refused != CUDA_SUCCESS) return refused;
    const bool is_first = !function->was_launched(device);
    if (is_first) [[unlikely]]
        launch.loading.begin(call);
    if (CUresult refused = ensure_announced(call, to_token(f), *function); refused != CUDA_SUCCESS) return refused;
    if (is_first) [[unlikely]]
        launch.first_on = device;
    call.subject = to_token(f);
    call.stream = stream_token(call, stream);
    return CUDA_SUCCESS;
}

/// Page-locked memory that is passed to a kernel is the device's, too, from then on.
CUresult map_parameters(Call& call, const Function& function, void** kernel_params, void** extra) {
    if (!call.state.host_memory.may_be_passed() && !SharedPages::any_attached()) [[likely]]
        return CUDA_SUCCESS;
    LaunchParams params;
    if (CUresult refused = params.read(function, kernel_params, extra); refused != CUDA_SUCCESS) return refused;
    return map_host_pointers(call, params.params(), params.sizes());
}

CUresult settle(Call& call, CUresult launched, uint64_t stream) {
    // What is captured runs later.
    if (launched != CUDA_SUCCESS || !launches_block() || is_capturing(call, stream)) return launched;
    return synchronize_stream(call, stream);
}

/// How many multiprocessors the kernels of a stream have.
uint64_t multiprocessors_of(const Call& call, CUstream stream) {
    const Stream* found = is_special_stream(stream) ? nullptr : call.state.streams.find(to_token(stream));
    const GreenContext* green = call.state.green_contexts.find(found ? found->green : current_green(call));
    if (green) return green->multiprocessors;
    return static_cast<uint64_t>(find_device(call.device())->attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
}

/// A cooperative grid must be on the device all at once: 720 otherwise, from the launch itself. Asks for the occupancy once for
/// each shape.
CUresult check_cooperative(Call& call, CUfunction f, const LaunchShape& shape, CUstream stream) {
    int blocks = 0;
    CUresult result =
        ask_blocks(call, &blocks, f, static_cast<int>(shape.block_x * shape.block_y * shape.block_z), shape.shared_bytes, 0);
    if (result != CUDA_SUCCESS) return result;
    uint64_t grid = uint64_t{shape.grid_x} * shape.grid_y * shape.grid_z;
    return grid > multiprocessors_of(call, stream) * static_cast<uint64_t>(blocks) ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
                                                                                   : CUDA_SUCCESS;
}

struct ClusterShape {
    unsigned x, y, z;
};

/// What a cluster must be like, as far as arguments, function and device tell. Source: CUDA C++ Programming Guide, Thread Block
/// Clusters: at most 8 blocks on every device, up to 16 where the function allows it, which the server knows. An H100 takes
/// powers of two only.
CUresult check_cluster(const Device& device, const Function& function, const CUlaunchConfig& config, const ClusterShape& c) {
    constexpr uint64_t k_largest = 16;
    const uint64_t blocks = uint64_t{c.x} * c.y * c.z;
    if (blocks == 0) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    const auto& required = function.kernel->cluster;
    if (required[0] != 0 && blocks != 1) {
        const bool same = c.x == required[0] && c.y == std::max(required[1], 1u) && c.z == std::max(required[2], 1u);
        if (!same) return CUDA_ERROR_INVALID_VALUE;
    }
    if (blocks == 1) return CUDA_SUCCESS;
    if (device.attribute(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) == 0) return CUDA_ERROR_NOT_SUPPORTED;
    const bool divides = config.gridDimX % c.x == 0 && config.gridDimY % c.y == 0 && config.gridDimZ % c.z == 0;
    return std::has_single_bit(blocks) && blocks <= k_largest && divides ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

/// Events that the launch records are recorded in its stream, as by cuEventRecord: in a capture, streams join by them.
void note_events(const Call& call, uint64_t stream, std::span<const CUlaunchAttribute> attributes) {
    for (const CUlaunchAttribute& attribute : attributes) {
        CUevent handle = nullptr;
        if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT) handle = attribute.value.programmaticEvent.event;
        if (attribute.id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT) handle = attribute.value.launchCompletionEvent.event;
        Event* event = handle ? call.state.events.find(to_token(handle)) : nullptr;
        if (event) note_record(call, stream, *event);
    }
}

}  // namespace

CUresult hook_client_cuLaunchKernel(Call& call, CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                    unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                                    unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void** kernelParams,
                                    void** extra) {
    Launch launch;
    const LaunchShape shape{gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes};
    if (CUresult refused = prepare(call, f, hStream, shape, launch); refused != CUDA_SUCCESS) return refused;
    Function* const function = launch.function;
    if (CUresult refused = map_parameters(call, *function, kernelParams, extra); refused != CUDA_SUCCESS) return refused;
    const uint64_t stream = stream_token(call, hStream);
    if (!extra && !call.background) {
        const auto issued = issue_by_image(call, to_token(f), *function, shape, stream, kernelParams);
        if (issued) return settle(call, *issued, stream);
    }
    LaunchParams params;
    if (CUresult refused = params.read(*function, kernelParams, extra); refused != CUDA_SUCCESS) return refused;
    CUresult result = gen::issue_cuLaunchKernel(call, to_token(f), gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY,
                                                blockDimZ, sharedMemBytes, stream, params.params(), params.sizes());
    return settle(call, result, stream);
}

CUresult hook_client_cuLaunchCooperativeKernel(Call& call, CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                               unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                                               unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                                               void** kernelParams) {
    Launch launch;
    const LaunchShape shape{gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes};
    if (CUresult refused = prepare(call, f, hStream, shape, launch); refused != CUDA_SUCCESS) return refused;
    Function* const function = launch.function;
    LaunchParams params;
    if (CUresult refused = params.read(*function, kernelParams, nullptr); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = check_cooperative(call, f, shape, hStream); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = map_host_pointers(call, params.params(), params.sizes()); refused != CUDA_SUCCESS) return refused;
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
    Launch launch;
    const LaunchShape shape{config->gridDimX,  config->gridDimY,  config->gridDimZ,      config->blockDimX,
                            config->blockDimY, config->blockDimZ, config->sharedMemBytes};
    if (CUresult refused = prepare(call, f, hStream, shape, launch); refused != CUDA_SUCCESS) return refused;
    Function* const function = launch.function;
    LaunchParams params;
    if (CUresult refused = params.read(*function, kernelParams, extra); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = map_host_pointers(call, params.params(), params.sizes()); refused != CUDA_SUCCESS) return refused;
    for (const CUlaunchAttribute& attribute : std::span(config->attrs, config->numAttrs)) {
        const auto& cluster = attribute.value.clusterDim;
        CUresult refused = CUDA_SUCCESS;
        if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
            refused = check_cluster(*find_device(call.device()), *function, *config, {cluster.x, cluster.y, cluster.z});
        } else if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && attribute.value.cooperative != 0) {
            refused = check_cooperative(call, f, shape, hStream);
        }
        if (refused != CUDA_SUCCESS) return refused;
    }
    const uint64_t stream = stream_token(call, hStream);
    CUresult result = gen::issue_cuLaunchKernelEx(call, to_token(f), shape.grid_x, shape.grid_y, shape.grid_z, shape.block_x,
                                                  shape.block_y, shape.block_z, shape.shared_bytes, stream, params.params(),
                                                  params.sizes(), array_bytes(config->attrs, config->numAttrs));
    if (result == CUDA_SUCCESS) note_events(call, stream, std::span(config->attrs, config->numAttrs));
    return settle(call, result, stream);
}

}  // namespace warpline::client
