// A kernel in a context: decoding it at its first use, its attributes.
#include <algorithm>
#include <optional>

#include "common/log/log.h"
#include "cuda/abi/newer_values.h"
#include "softgpu/driver/code/module.h"
#include "softgpu/driver/code/registers.h"
#include "softgpu/driver/config/version.h"
#include "softgpu/driver/context/context.h"
#include "softgpu/driver/device/device.h"

namespace warpline::softgpu::driver {

LoadedFunction::LoadedFunction(const std::shared_ptr<Context>& context, std::shared_ptr<exec::Module> module,
                               std::shared_ptr<exec::Function> code, Compiled compiled)
    : m_context(context),
      m_device(context->device()),
      m_module(std::move(module)),
      m_code(std::move(code)),
      m_compiled(compiled) {
    auto limit = static_cast<uint32_t>(m_device.attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK));
    const uint32_t used = static_shared_bytes();
    m_max_dynamic_shared = used < limit ? limit - used : 0;
}

uint32_t LoadedFunction::static_shared_bytes() const {
    constexpr uint32_t piece = 16;
    const uint32_t bytes = info().static_shared_bytes;
    return m_compiled.shared_in_pieces ? (bytes + piece - 1) / piece * piece : bytes;
}

std::array<uint32_t, 3> LoadedFunction::required_cluster() const {
    if (info().required_cluster[0] != 0) return info().required_cluster;
    return {m_cluster[0].load(), m_cluster[1].load(), m_cluster[2].load()};
}

CUresult LoadedFunction::ensure_ready() {
    if (m_ready.load()) return CUDA_SUCCESS;
    std::shared_ptr<Context> context = m_context.lock();
    std::optional<Loading> loading;
    if (context != nullptr && !loads_eagerly()) loading.emplace(*context);
    exec::ModuleError error = m_code->ensure_ready();
    if (error.cu_result != 0) {
        WL_LOG(error, "softgpu", "kernel {} refused: {}", info().name, error.log);
        return static_cast<CUresult>(error.cu_result);
    }
    m_ready = true;
    return CUDA_SUCCESS;
}

CUresult LoadedFunction::param_info(size_t index, size_t* offset, size_t* size) const {
    if (index >= info().params.size()) return CUDA_ERROR_INVALID_VALUE;
    *offset = info().params[index].offset_bytes;
    if (size != nullptr) *size = info().params[index].size_bytes;
    return CUDA_SUCCESS;
}

namespace {

bool knows_newer_attributes() { return driver_version() >= cuda::abi::k_all_newer_values_driver; }

}  // namespace

uint32_t LoadedFunction::most_threads() const {
    const auto all = static_cast<uint64_t>(m_device.attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK));
    return static_cast<uint32_t>(std::min<uint64_t>(threads_that_fit(registers(), all), max_threads()));
}

CUresult LoadedFunction::attribute(CUfunction_attribute which, int* value) const {
    const exec::FunctionInfo& known = info();
    if (knows_newer_attributes() && which == cuda::abi::k_function_node_update_supported) return *value = 0, CUDA_SUCCESS;
    if (knows_newer_attributes() && which == cuda::abi::k_function_shared_memory_mode)
        return *value = m_shared_memory_mode, CUDA_SUCCESS;
    switch (which) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = static_cast<int>(most_threads()); break;
        case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = static_cast<int>(static_shared_bytes()); break;
        case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: *value = static_cast<int>(known.const_bytes); break;
        case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = static_cast<int>(known.local_bytes); break;
        case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = static_cast<int>(registers()); break;
        case CU_FUNC_ATTRIBUTE_PTX_VERSION: *value = static_cast<int>(known.ptx_version); break;
        case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = static_cast<int>(m_compiled.binary_version); break;
        case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA: *value = 0; break;
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = static_cast<int>(m_max_dynamic_shared.load()); break;
        case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value = m_carveout; break;
        case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET: *value = 0; break;
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH: *value = static_cast<int>(required_cluster()[0]); break;
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT: *value = static_cast<int>(required_cluster()[1]); break;
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: *value = static_cast<int>(required_cluster()[2]); break;
        case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: *value = m_non_portable_cluster; break;
        case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: *value = m_scheduling_policy; break;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult LoadedFunction::set_attribute(CUfunction_attribute which, int value) {
    auto set_cluster = [this, value](size_t dimension) {
        if (value < 0) return CUDA_ERROR_INVALID_VALUE;
        // A size that the code fixes cannot be changed.
        if (info().required_cluster[0] != 0) {
            return info().required_cluster[dimension] == static_cast<uint32_t>(value) ? CUDA_SUCCESS : CUDA_ERROR_NOT_PERMITTED;
        }
        m_cluster[dimension] = static_cast<uint32_t>(value);
        return CUDA_SUCCESS;
    };
    if (knows_newer_attributes() && which == cuda::abi::k_function_shared_memory_mode) {
        if (static_cast<unsigned>(value) > cuda::abi::k_last_shared_memory_mode) return CUDA_ERROR_INVALID_VALUE;
        m_shared_memory_mode = value;
        return CUDA_SUCCESS;
    }
    switch (which) {
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
            int limit = m_device.attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
            if (value < 0 || value > limit - static_cast<int>(static_shared_bytes())) return CUDA_ERROR_INVALID_VALUE;
            m_max_dynamic_shared = static_cast<uint32_t>(value);
            return CUDA_SUCCESS;
        }
        case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
            if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
            m_carveout = value;
            return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH: return set_cluster(0);
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT: return set_cluster(1);
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: return set_cluster(2);
        case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
            m_non_portable_cluster = value != 0 ? 1 : 0;
            return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
            if (value < 0 || value > CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING) return CUDA_ERROR_INVALID_VALUE;
            m_scheduling_policy = value;
            return CUDA_SUCCESS;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

}  // namespace warpline::softgpu::driver
