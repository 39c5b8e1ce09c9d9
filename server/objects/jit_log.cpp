// The options of a compilation, of which the driver is told nothing that points into the client's memory.
#include "server/objects/jit_log.h"

#include <algorithm>

#include "common/log/log.h"
#include "cuda/abi/newer_values.h"

namespace warpline::server {

namespace {

constexpr size_t k_max_options = 64;

enum class OptionUse : uint8_t { ours, passed_on, unknown };

/// What the driver is told of an option: something of ours for those whose value is a pointer into the client's memory, or the
/// size of a buffer there; and nothing that this server does not know, because its value could be a pointer.
OptionUse use_of(CUjit_option option) {
    if (option == cuda::abi::k_jit_loader_thread_count) return OptionUse::passed_on;
    switch (option) {
        case CU_JIT_MAX_REGISTERS:
        case CU_JIT_THREADS_PER_BLOCK:
        case CU_JIT_OPTIMIZATION_LEVEL:
        case CU_JIT_TARGET_FROM_CUCONTEXT:
        case CU_JIT_TARGET:
        case CU_JIT_FALLBACK_STRATEGY:
        case CU_JIT_GENERATE_DEBUG_INFO:
        case CU_JIT_LOG_VERBOSE:
        case CU_JIT_GENERATE_LINE_INFO:
        case CU_JIT_CACHE_MODE:
        case CU_JIT_NEW_SM3X_OPT:
        case CU_JIT_FAST_COMPILE:
        case CU_JIT_LTO:
        case CU_JIT_FTZ:
        case CU_JIT_PREC_DIV:
        case CU_JIT_PREC_SQRT:
        case CU_JIT_FMA:
        case CU_JIT_OPTIMIZE_UNUSED_DEVICE_VARIABLES:
        case CU_JIT_POSITION_INDEPENDENT_CODE:
        case CU_JIT_MIN_CTA_PER_SM:
        case CU_JIT_MAX_THREADS_PER_BLOCK:
        case CU_JIT_OVERRIDE_DIRECTIVE_VALUES:
        case CU_JIT_SPLIT_COMPILE: return OptionUse::passed_on;
        case CU_JIT_INFO_LOG_BUFFER:
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        case CU_JIT_ERROR_LOG_BUFFER:
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        case CU_JIT_GLOBAL_SYMBOL_NAMES:
        case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
        case CU_JIT_GLOBAL_SYMBOL_COUNT:
        case CU_JIT_WALL_TIME:
        case CU_JIT_REFERENCED_KERNEL_NAMES:
        case CU_JIT_REFERENCED_KERNEL_COUNT:
        case CU_JIT_REFERENCED_VARIABLE_NAMES:
        case CU_JIT_REFERENCED_VARIABLE_COUNT: return OptionUse::ours;
        default: return OptionUse::unknown;
    }
}

}  // namespace

void JitLog::add(CUjit_option option, uint64_t value) {
    m_options.push_back(option);
    m_values.push_back(reinterpret_cast<void*>(value));
}

bool JitLog::prepare(const std::vector<uint64_t>& options, const std::vector<uint64_t>& values) {
    if (options.size() != values.size() || options.size() > k_max_options) return false;
    for (size_t i = 0; i < options.size(); ++i) {
        const auto option = static_cast<CUjit_option>(options[i]);
        const OptionUse use = options[i] < cuda::abi::k_jit_options ? use_of(option) : OptionUse::unknown;
        if (use == OptionUse::unknown) {
            WL_LOG(warn, "image", "option {} of a compilation is unknown here and refused", options[i]);
            return false;
        }
        if (use == OptionUse::passed_on) {
            add(option, values[i]);
        } else {
            add_ours(option, values[i]);
        }
    }
    return true;
}

void JitLog::add_ours(CUjit_option option, uint64_t value) {
    auto buffer = [&](std::string& log) {
        if (value == 0) return add(option, 0);
        log.assign(k_log_bytes, '\0');
        add(option, reinterpret_cast<uint64_t>(log.data()));
    };
    switch (option) {
        case CU_JIT_INFO_LOG_BUFFER: buffer(m_info); break;
        case CU_JIT_ERROR_LOG_BUFFER: buffer(m_error); break;
        // The last byte of a log of ours stays zero, whatever the driver writes.
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: add(option, std::min<uint64_t>(value, k_log_bytes - 1)); break;
        case CU_JIT_WALL_TIME: add(option, 0); break;
        default: break;  // lists of symbols, which the client refuses
    }
}

uint32_t JitLog::number(CUjit_option option) const {
    for (size_t i = 0; i < m_options.size(); ++i) {
        if (m_options[i] == option) return static_cast<uint32_t>(reinterpret_cast<uint64_t>(m_values[i]));
    }
    return 0;
}

}  // namespace warpline::server
