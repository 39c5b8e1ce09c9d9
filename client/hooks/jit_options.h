#pragma once

#include <span>
#include <string>
#include <vector>

#include "cuda/abi/cuda_types.h"

namespace warpline::client {

/// The options of a compilation or link as the program passes them: an array of names, and one of values that are numbers
/// written into pointers. What is a number travels; buffers for logs are filled here from the logs that come back.
class JitOptions {
public:
    /// @errors  invalid value (null arrays), not supported (options that are pointers)
    CUresult read(unsigned count, const CUjit_option* options, void* const* values);

    std::span<const uint64_t> options() const { return m_options; }
    std::span<const uint64_t> values() const { return m_values; }

    /// Where the program wants the logs. Kept by link states until their last call.
    struct Logs {
        char* info = nullptr;
        char* error = nullptr;
        size_t info_bytes = 0;
        size_t error_bytes = 0;
        void write(const std::string& info_log, const std::string& error_log) const;
    };
    const Logs& logs() const { return m_logs; }

    /// Writes the logs, and into the values how long they are and how long it took, as CUDA does.
    void write_logs(const std::string& info_log, const std::string& error_log, const CUjit_option* options, void** values,
                    unsigned count) const;

private:
    std::vector<uint64_t> m_options;
    std::vector<uint64_t> m_values;
    Logs m_logs;
};

}  // namespace warpline::client
