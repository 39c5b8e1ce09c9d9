// Launches are checked here, so that an invalid one is reported by the launch itself, and can be sent without waiting.
#include "client/code/launch_params.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "cuda/abi/newer_values.h"

namespace warpline::client {

namespace {

constexpr size_t k_max_param_bytes = 32764;  // CUDA C++ Programming Guide, __global__ function parameters

bool exceeds(unsigned value, const Device& device, CUdevice_attribute limit) {
    return value == 0 || value > static_cast<unsigned>(device.attribute(limit));
}

/// The first driver that may know an attribute that is a number, of those that came late; 0: it is none of them.
int first_driver(CUlaunchAttributeID id) {
    constexpr int k_cuda_13 = 13000;
    if (id == CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING) return k_cuda_13;
    const bool is_newer = id == cuda::abi::k_portable_cluster_size_mode || id == cuda::abi::k_launch_shared_memory_mode;
    return is_newer ? cuda::abi::k_newer_values_driver : 0;
}

/// True if the attribute is data that means the same on the server.
bool can_travel(const Call& call, const CUlaunchAttribute& attribute) {
    if (const int first = first_driver(attribute.id)) return call.session.info().driver_version >= first;
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
    return id >= CU_LAUNCH_ATTRIBUTE_IGNORE && id <= cuda::abi::k_launch_shared_memory_mode && id != k_unused;
}

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
    if (!device_can_run(device, shape)) return CUDA_ERROR_INVALID_VALUE;  // DB-37
    const uint64_t threads = uint64_t{shape.block_x} * shape.block_y * shape.block_z;
    if (function.max_threads != 0 && threads > function.max_threads) return CUDA_ERROR_INVALID_VALUE;  // DB-38
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
    const int allowed = function.shared_limit(device.ordinal);
    // The driver may count some bytes more for the kernel's own variables (DB-60), and tells of it then.
    const int64_t most = device.attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    const int64_t limit = allowed >= 0 ? allowed : most - function.static_shared_bytes;
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
        // Fewer bytes than the kernel has parameters are no mistake (DB-36): NCCL leaves out the end of its one
        // structure.
        if (size_bytes == 0 && !function.pieces.empty()) return CUDA_ERROR_INVALID_VALUE;
        const uint32_t declared_bytes = function.kernel->param_bytes;
        if (declared_bytes != 0 && size_bytes > declared_bytes) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
        m_params = as_bytes(buffer, size_bytes);
        // It is read while the call is queued, when nobody may have to fetch it.
        if (is_shared_memory(reinterpret_cast<uint64_t>(buffer))) {
            m_heap.assign(m_params.begin(), m_params.end());
            m_params = m_heap;
        }
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
        if (first_driver(attributes[i].id) != 0) reason += ", which the server's driver does not know";
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

}  // namespace warpline::client
