// The options of calls that load code.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cuda/abi/cuda_types.h"

namespace warpline::softgpu::driver {

/// The JIT options of a call: logs go into the caller's buffers, some values are answered, the rest has no meaning here.
class JitOptions {
public:
    /// Errors: invalid value (an option that does not exist, null pointers).
    static CUresult read(unsigned int count, CUjit_option* options, void** values, JitOptions& out);

    /// Puts text into the error log buffer, cut to its size and ended with a zero.
    void write_error_log(std::string_view text);
    void write_info_log(std::string_view text);
    void write_wall_time(float milliseconds);

private:
    struct Log {
        char* buffer = nullptr;
        size_t capacity_bytes = 0;
        void** written = nullptr;  // the option's value, where the number of bytes goes
        size_t used_bytes = 0;
    };
    static void append(Log& log, std::string_view text);

    Log m_error, m_info;
    std::vector<void**> m_wall_times;
};

}  // namespace warpline::softgpu::driver
