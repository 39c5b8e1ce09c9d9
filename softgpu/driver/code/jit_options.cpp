// Reads options, and writes logs and times into the caller's buffers.
#include "softgpu/driver/code/jit_options.h"

#include <algorithm>
#include <cstring>

#include "cuda/abi/newer_values.h"
#include "softgpu/driver/config/version.h"

namespace warpline::softgpu::driver {

CUresult JitOptions::read(unsigned int count, CUjit_option* options, void** values, JitOptions& out) {
    if (count != 0 && (options == nullptr || values == nullptr)) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < count; ++i) {
        switch (options[i]) {
            case CU_JIT_ERROR_LOG_BUFFER: out.m_error.buffer = static_cast<char*>(values[i]); break;
            case CU_JIT_INFO_LOG_BUFFER: out.m_info.buffer = static_cast<char*>(values[i]); break;
            case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
                out.m_error.capacity_bytes = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(values[i]));
                out.m_error.written = &values[i];
                break;
            case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
                out.m_info.capacity_bytes = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(values[i]));
                out.m_info.written = &values[i];
                break;
            case CU_JIT_MAX_THREADS_PER_BLOCK:
                out.m_max_threads = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(values[i]));
                break;
            case CU_JIT_OVERRIDE_DIRECTIVE_VALUES:
                out.m_overrides = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(values[i])) != 0;
                break;
            case CU_JIT_MAX_REGISTERS:
                if (static_cast<uint32_t>(reinterpret_cast<uintptr_t>(values[i])) == 0) return CUDA_ERROR_INVALID_VALUE;
                break;
            case CU_JIT_WALL_TIME: out.m_wall_times.push_back(&values[i]); break;
            default: {
                const bool knows_all = driver_version() >= cuda::abi::k_all_newer_values_driver;
                const int known = knows_all ? cuda::abi::k_jit_options : cuda::abi::k_jit_loader_thread_count;
                if (options[i] < 0 || options[i] >= known) return CUDA_ERROR_INVALID_VALUE;
            }
        }
    }
    append(out.m_error, "");
    append(out.m_info, "");
    return CUDA_SUCCESS;
}

JitOptions JitOptions::without_outputs() const {
    JitOptions kept;
    kept.m_max_threads = m_max_threads;
    kept.m_overrides = m_overrides;
    return kept;
}

void JitOptions::append(Log& log, std::string_view text) {
    if (log.buffer != nullptr && log.capacity_bytes != 0) {
        size_t room = log.capacity_bytes - 1 - log.used_bytes;
        size_t taken = std::min(room, text.size());
        std::memcpy(log.buffer + log.used_bytes, text.data(), taken);
        log.used_bytes += taken;
        log.buffer[log.used_bytes] = 0;
    }
    if (log.written != nullptr) *log.written = reinterpret_cast<void*>(log.used_bytes);
}

void JitOptions::write_error_log(std::string_view text) { append(m_error, text); }
void JitOptions::write_info_log(std::string_view text) { append(m_info, text); }

void JitOptions::write_wall_time(float milliseconds) {
    for (void** value : m_wall_times) std::memcpy(value, &milliseconds, sizeof(milliseconds));
}

}  // namespace warpline::softgpu::driver
