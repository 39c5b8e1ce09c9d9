// Checks the shape and the parameters of a launch.
#include "softgpu/driver/operations/launch.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "cuda/abi/newer_values.h"
#include "softgpu/driver/code/module.h"
#include "softgpu/driver/code/registers.h"
#include "softgpu/driver/config/version.h"
#include "softgpu/driver/context/green_context.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/process/process.h"
#include "softgpu/driver/space/heap.h"

namespace warpline::softgpu::driver {

namespace {

/// The granule in which shared memory is given out. Source: CUDA Occupancy Calculator, 8.x and 9.0.
constexpr uint64_t k_shared_granule = 128;

CUresult check_shape(const Device& device, const LaunchRequest& request) {
    constexpr CUdevice_attribute grid_limits[] = {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
                                                  CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z};
    constexpr CUdevice_attribute block_limits[] = {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
                                                   CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z};
    uint64_t threads = 1;
    for (int i = 0; i < 3; ++i) {
        uint32_t grid = request.grid[i], block = request.block[i];
        if (grid == 0 || grid > static_cast<uint32_t>(device.attribute(grid_limits[i]))) return CUDA_ERROR_INVALID_VALUE;
        if (block == 0 || block > static_cast<uint32_t>(device.attribute(block_limits[i]))) return CUDA_ERROR_INVALID_VALUE;
        threads *= block;
    }
    auto most = static_cast<uint64_t>(device.attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
    return threads <= most ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult check_function(const LoadedFunction& function, const LaunchRequest& request) {
    const exec::FunctionInfo& info = function.info();
    uint64_t threads = uint64_t{request.block[0]} * request.block[1] * request.block[2];
    if (info.required_threads[0] != 0) {
        for (size_t i = 0; i < 3; ++i) {
            if (request.block[i] != std::max(info.required_threads[i], 1U)) return CUDA_ERROR_INVALID_VALUE;
        }
    } else if (threads > function.max_threads()) {
        return CUDA_ERROR_INVALID_VALUE;  // DB-38
    }
    if (function.knows_registers()) {
        const uint64_t in_all = registers_of_block(function.registers(), threads);
        if (in_all > static_cast<uint64_t>(function.device().attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK)))
            return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    }
    return request.shared_bytes <= function.max_dynamic_shared_bytes() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult copy_packed(const exec::FunctionInfo& info, void** extra, Bytes& out) {
    const void* buffer = nullptr;
    const size_t* size = nullptr;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) {
            buffer = extra[1];
        } else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) {
            size = static_cast<const size_t*>(extra[1]);
        } else {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    if (size == nullptr || (buffer == nullptr && *size != 0)) return CUDA_ERROR_INVALID_VALUE;
    if (*size == 0 && !info.params.empty()) return CUDA_ERROR_INVALID_VALUE;
    if (*size > out.size()) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    // DB-36: what is left out of it stays zero.
    std::memcpy(out.data(), buffer, *size);
    return CUDA_SUCCESS;
}

CUresult copy_params(const exec::FunctionInfo& info, const LaunchRequest& request, Bytes& out) {
    uint64_t bytes = info.param_bytes;
    for (const auto& param : info.params) bytes = std::max<uint64_t>(bytes, param.offset_bytes + param.size_bytes);
    out.assign(bytes, std::byte{0});
    if (request.params != nullptr && request.extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (request.extra != nullptr) return copy_packed(info, request.extra, out);
    if (info.params.empty()) return CUDA_SUCCESS;
    if (request.params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < info.params.size(); ++i) {
        if (request.params[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
        std::memcpy(out.data() + info.params[i].offset_bytes, request.params[i], info.params[i].size_bytes);
    }
    return CUDA_SUCCESS;
}

/// The enumeration has a gap, and goes on in newer drivers.
bool is_launch_attribute(CUlaunchAttributeID id, const CUlaunchAttributeValue& value) {
    constexpr int k_unused = 15;
    const bool knows_newer = driver_version() >= cuda::abi::k_all_newer_values_driver;
    if (id == cuda::abi::k_portable_cluster_size_mode)
        return knows_newer && cuda::abi::number_of(value) <= cuda::abi::k_cluster_mode_non_portable;
    if (id == cuda::abi::k_launch_shared_memory_mode)
        return knows_newer && cuda::abi::number_of(value) <= cuda::abi::k_last_shared_memory_mode;
    return id >= CU_LAUNCH_ATTRIBUTE_IGNORE && id <= CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING && id != k_unused;
}

CUresult read_attributes(const LaunchRequest& request, KernelOperation& operation) {
    for (const CUlaunchAttribute& attribute : request.attributes) {
        const CUlaunchAttributeValue& value = attribute.value;
        switch (attribute.id) {
            case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
                operation.cooperative = operation.cooperative || value.cooperative != 0;
                break;
            case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
                operation.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
                if (operation.cluster.count() == 0) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
                break;
            case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
                if (process().events.find(value.programmaticEvent.event) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
                break;
            case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
                if (process().events.find(value.launchCompletionEvent.event) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
                break;
            default:
                if (!is_launch_attribute(attribute.id, value)) return CUDA_ERROR_INVALID_VALUE;
        }
    }
    operation.attributes.assign(request.attributes.begin(), request.attributes.end());
    return CUDA_SUCCESS;
}

CUresult check_cluster(const Device& device, const LoadedFunction& function, KernelOperation& operation) {
    auto required = function.required_cluster();
    bool given = operation.cluster.count() != 1;
    if (required[0] != 0) {
        exec::Dim3 wanted{required[0], std::max(required[1], 1U), std::max(required[2], 1U)};
        bool same = wanted.x == operation.cluster.x && wanted.y == operation.cluster.y && wanted.z == operation.cluster.z;
        if (given && !same) return CUDA_ERROR_INVALID_VALUE;
        operation.cluster = wanted;
    }
    uint64_t blocks = operation.cluster.count();
    if (blocks == 0) return CUDA_ERROR_INVALID_VALUE;
    if (blocks == 1) return CUDA_SUCCESS;
    // A device that reports no clusters refuses them, although the engine could form them.
    if (device.attribute(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) == 0 && given) return CUDA_ERROR_NOT_SUPPORTED;
    bool non_portable = function.non_portable_cluster();
    for (const CUlaunchAttribute& attribute : operation.attributes) {
        if (attribute.id != cuda::abi::k_portable_cluster_size_mode) continue;
        const unsigned mode = cuda::abi::number_of(attribute.value);
        if (mode != cuda::abi::k_cluster_mode_default) non_portable = mode == cuda::abi::k_cluster_mode_non_portable;
    }
    if (!is_cluster_size(blocks, non_portable)) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    bool divides = operation.grid.x % operation.cluster.x == 0 && operation.grid.y % operation.cluster.y == 0 &&
                   operation.grid.z % operation.cluster.z == 0;
    return divides ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

CUresult check_cooperative(const Device& device, const KernelOperation& operation) {
    if (!operation.cooperative) return CUDA_SUCCESS;
    auto threads = static_cast<uint32_t>(operation.block.count());
    const auto all = static_cast<uint64_t>(device.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
    const uint64_t multiprocessors = operation.green != nullptr ? operation.green->multiprocessors().size() : all;
    uint64_t resident = uint64_t{blocks_per_sm(*operation.function, threads, operation.dynamic_shared_bytes)} * multiprocessors;
    return operation.grid.count() <= resident ? CUDA_SUCCESS : CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
}

}  // namespace

bool is_cluster_size(uint64_t blocks, bool non_portable) {
    return std::has_single_bit(blocks) && blocks <= (non_portable ? k_largest_cluster : k_portable_cluster);  // DB-70
}

uint32_t blocks_per_sm(const Device& device, uint32_t threads, uint64_t shared_bytes, uint64_t registers) {
    auto limit = [&device](CUdevice_attribute which) { return static_cast<uint64_t>(device.attribute(which)); };
    if (threads == 0 || shared_bytes > limit(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)) return 0;
    uint64_t warps = (threads + k_warp - 1) / k_warp;
    uint64_t blocks = limit(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
    blocks = std::min(blocks, limit(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) / k_warp / warps);
    const uint64_t in_all = registers_of_block(registers, threads);
    if (in_all != 0) blocks = std::min(blocks, limit(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR) / in_all);
    uint64_t taken = round_up(shared_bytes + limit(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK), k_shared_granule);
    blocks = std::min(blocks, limit(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) / taken);
    return static_cast<uint32_t>(blocks);
}

uint32_t blocks_per_sm(const LoadedFunction& function, uint32_t threads, uint64_t dynamic_shared_bytes) {
    if (threads > function.max_threads()) return 0;
    const uint64_t shared_bytes = function.static_shared_bytes() + dynamic_shared_bytes;
    return blocks_per_sm(function.device(), threads, shared_bytes, uint64_t{function.registers()});
}

namespace {

CUresult prepare(std::shared_ptr<LoadedFunction> function, const LaunchRequest& request, KernelOperation& operation) {
    Device& device = function->device();
    CU_TRY(function->ensure_ready());
    CU_TRY(check_function(*function, request));
    operation.handle = request.function;
    operation.grid = {request.grid[0], request.grid[1], request.grid[2]};
    operation.block = {request.block[0], request.block[1], request.block[2]};
    operation.cluster = {1, 1, 1};
    operation.dynamic_shared_bytes = request.shared_bytes;
    operation.cooperative = request.cooperative;
    CU_TRY(copy_params(function->info(), request, operation.params));
    CU_TRY(read_attributes(request, operation));
    CU_TRY(check_cluster(device, *function, operation));
    operation.function = std::move(function);
    return check_cooperative(device, operation);
}

}  // namespace

CUresult make_kernel(Context& context, const LaunchRequest& request, KernelOperation& operation) {
    auto named = process().functions.find(request.function);
    if (named == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    std::shared_ptr<LoadedFunction> function;
    CU_TRY(named->resolve(context, function));
    CU_TRY(check_shape(function->device(), request));
    CU_TRY(prepare(std::move(function), request, operation));
    if (operation.function->info().uses_printf) context.printf_ran.store(true, std::memory_order_relaxed);
    return CUDA_SUCCESS;
}

}  // namespace warpline::softgpu::driver
