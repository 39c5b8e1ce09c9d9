// Which options of a compilation travel, and in which form.
#include "client/code/jit_options.h"

#include <algorithm>
#include <cstring>

#include "client/call/refuse.h"
#include "cuda/abi/newer_values.h"

namespace warpline::client {

namespace {

void write_log(char* buffer, size_t capacity_bytes, const std::string& text) {
    if (!buffer || capacity_bytes == 0) return;
    const size_t count = std::min(capacity_bytes - 1, text.size());
    std::memcpy(buffer, text.data(), count);
    buffer[count] = '\0';
}

void write_size(void** value, size_t size_bytes) {
    if (value) *value = reinterpret_cast<void*>(size_bytes);
}

}  // namespace

void JitOutputs::write(const JitResults& results) const {
    write_log(info, info_capacity_bytes, results.info_log);
    write_log(error, error_capacity_bytes, results.error_log);
    write_size(info_size, std::min(results.info_bytes, info_capacity_bytes));
    write_size(error_size, std::min(results.error_bytes, error_capacity_bytes));
    // Not where the value points to: NVIDIA's ptxjit sample passes an address, and prints 0 ms on real devices, too.
    if (wall_time) std::memcpy(wall_time, &results.wall_time_ms, sizeof results.wall_time_ms);
}

CUresult JitOptions::read(unsigned count, const CUjit_option* options, void** values) {
    constexpr unsigned k_max_options = 64;
    if (count == 0) return CUDA_SUCCESS;
    if (!options || !values || count > k_max_options) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; ++i) {
        auto number = reinterpret_cast<uint64_t>(values[i]);
        switch (options[i]) {
            case CU_JIT_INFO_LOG_BUFFER:
                m_outputs.info = static_cast<char*>(values[i]);
                number = values[i] != nullptr;
                break;
            case CU_JIT_ERROR_LOG_BUFFER:
                m_outputs.error = static_cast<char*>(values[i]);
                number = values[i] != nullptr;
                break;
            case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
                m_outputs.info_capacity_bytes = number = static_cast<uint32_t>(number);
                m_outputs.info_size = &values[i];
                break;
            case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
                m_outputs.error_capacity_bytes = number = static_cast<uint32_t>(number);
                m_outputs.error_size = &values[i];
                break;
            case CU_JIT_WALL_TIME:
                m_outputs.wall_time = &values[i];
                number = 0;
                break;
            case CU_JIT_GLOBAL_SYMBOL_NAMES:
            case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
            case CU_JIT_REFERENCED_KERNEL_NAMES:
            case CU_JIT_REFERENCED_VARIABLE_NAMES:
                return WL_REFUSE_CALL("cuModuleLoadDataEx", "lists of symbols as options of a compilation");
            // cuda.h: "For kernels already using PTX directive .maxntid, this option will be ignored by default. Use
            // CU_JIT_OVERRIDE_DIRECTIVE_VALUES to let this option take precedence over the PTX directive."
            case CU_JIT_MAX_REGISTERS:
                if (static_cast<uint32_t>(number) == 0) return CUDA_ERROR_INVALID_VALUE;
                break;
            case CU_JIT_MAX_THREADS_PER_BLOCK: m_max_threads = static_cast<uint32_t>(number); break;
            case CU_JIT_OVERRIDE_DIRECTIVE_VALUES: m_overrides = static_cast<uint32_t>(number) != 0; break;
            default:
                if (options[i] < 0 || options[i] >= cuda::abi::k_jit_options) return CUDA_ERROR_INVALID_VALUE;
        }
        m_options.push_back(static_cast<uint64_t>(options[i]));
        m_values.push_back(number);
    }
    return CUDA_SUCCESS;
}

}  // namespace warpline::client
