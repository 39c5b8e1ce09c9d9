#include "client/hooks/jit_options.h"

#include <algorithm>
#include <cstring>

#include "client/abi/refuse.h"

namespace warpline::client {

namespace {

void write_log(char* buffer, size_t size_bytes, const std::string& text) {
    if (!buffer || size_bytes == 0) return;
    size_t count = std::min(size_bytes - 1, text.size());
    std::memcpy(buffer, text.data(), count);
    buffer[count] = '\0';
}

}  // namespace

CUresult JitOptions::read(unsigned count, const CUjit_option* options, void* const* values) {
    constexpr unsigned k_max_options = 256;
    if (count == 0) return CUDA_SUCCESS;
    if (!options || !values || count > k_max_options) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; ++i) {
        auto number = reinterpret_cast<uint64_t>(values[i]);
        switch (options[i]) {
            case CU_JIT_INFO_LOG_BUFFER: m_logs.info = static_cast<char*>(values[i]); break;
            case CU_JIT_ERROR_LOG_BUFFER: m_logs.error = static_cast<char*>(values[i]); break;
            case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES: m_logs.info_bytes = static_cast<uint32_t>(number); break;
            case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: m_logs.error_bytes = static_cast<uint32_t>(number); break;
            case CU_JIT_WALL_TIME: break;
            case CU_JIT_GLOBAL_SYMBOL_NAMES:
            case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
            case CU_JIT_REFERENCED_KERNEL_NAMES:
            case CU_JIT_REFERENCED_VARIABLE_NAMES:
                return WL_REFUSE_CALL("cuModuleLoadDataEx", "lists of symbols as options of a compilation");
            default: m_options.push_back(static_cast<uint64_t>(options[i])); m_values.push_back(number);
        }
    }
    return CUDA_SUCCESS;
}

void JitOptions::Logs::write(const std::string& info_log, const std::string& error_log) const {
    write_log(info, info_bytes, info_log);
    write_log(error, error_bytes, error_log);
}

void JitOptions::write_logs(const std::string& info_log, const std::string& error_log, const CUjit_option* options,
                            void** values, unsigned count) const {
    m_logs.write(info_log, error_log);
    for (unsigned i = 0; i < count; ++i) {
        if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES) {
            values[i] = reinterpret_cast<void*>(std::min<uint64_t>(info_log.size(), m_logs.info_bytes));
        } else if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
            values[i] = reinterpret_cast<void*>(std::min<uint64_t>(error_log.size(), m_logs.error_bytes));
        } else if (options[i] == CU_JIT_WALL_TIME) {
            values[i] = nullptr;  // a float of 0: the server's compiler works on another machine's clock
        }
    }
}

}  // namespace warpline::client
