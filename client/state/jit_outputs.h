#pragma once

// Where a compilation or a link leaves what it has to say: in the program's memory.

#include <cstddef>
#include <string>

namespace warpline::client {

/// What came back of a compilation.
struct JitResults {
    std::string info_log, error_log;
    size_t info_bytes = 0, error_bytes = 0;  ///< what the driver made of the options that name the logs' sizes
    float wall_time_ms = 0;
};

/// The places that the options of a call name. A link keeps them until it is destroyed: CUDA asks its callers to keep the
/// arrays that long. Null: not asked for.
struct JitOutputs {
    char* info = nullptr;
    char* error = nullptr;
    size_t info_capacity_bytes = 0, error_capacity_bytes = 0;
    void** info_size = nullptr;  ///< the value of the option, which becomes the length of the log
    void** error_size = nullptr;
    void** wall_time = nullptr;  ///< the value itself becomes a float of milliseconds

    void write(const JitResults& results) const;
};

}  // namespace warpline::client
