// The options of calls that load code.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cuda/abi/cuda_types.h"

namespace warpline::softgpu::driver {

/// The JIT options of a call: logs go into the caller's buffers, some values are answered, of the rest only the
/// bound of the threads in a block has a meaning here.
class JitOptions {
public:
    /// Errors: invalid value (an option that does not exist, null pointers).
    static CUresult read(unsigned int count, CUjit_option* options, void** values, JitOptions& out);

    /// Puts text into the error log buffer, cut to its size and ended with a zero.
    void write_error_log(std::string_view text);
    void write_info_log(std::string_view text);
    void write_wall_time(float milliseconds);
    /// The bound of the threads in a block that holds whatever the code says; 0: none.
    uint32_t overriding_max_threads() const { return m_overrides ? m_max_threads : 0; }
    /// What there is to be obeyed of them after the call.
    JitOptions without_outputs() const;

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
    uint32_t m_max_threads = 0;
    bool m_overrides = false;
};

}  // namespace warpline::softgpu::driver
