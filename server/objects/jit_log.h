// What a compiler or linker in the driver writes for the client.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "cuda/abi/cuda_types.h"

namespace warpline::server {

/// What a compiler or linker in the driver had to say. The driver keeps pointers to it: of a link until that is destroyed, of a
/// library until that is unloaded, because what is loaded lazily is compiled later.
class JitLog {
public:
    static constexpr size_t k_log_bytes = 64 * 1024;

    /// Takes over the client's options, in the order in which it gave them: numbers as they are; logs of our own in place of
    /// the client's, of the sizes that it named, as far as it wants them; a place for the time. False if there are more options
    /// than any call can have, or one that is not known here.
    bool prepare(const std::vector<uint64_t>& options, const std::vector<uint64_t>& values);

    unsigned count() const { return static_cast<unsigned>(m_options.size()); }
    CUjit_option* options() { return m_options.data(); }
    void** values() { return m_values.data(); }

    /// Puts what the driver has written so far into a reply.
    template <typename Values>
    void answer(Values& values) const {
        values.infoLog = m_info.c_str();
        values.errorLog = m_error.c_str();
        values.infoBytes = number(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
        values.errorBytes = number(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
        const uint32_t time = number(CU_JIT_WALL_TIME);
        std::memcpy(&values.wallTime, &time, sizeof time);
    }

private:
    void add(CUjit_option option, uint64_t value);
    void add_ours(CUjit_option option, uint64_t value);
    /// The lower half of an option's value; 0 if it was not given.
    uint32_t number(CUjit_option option) const;

    std::string m_info;
    std::string m_error;
    std::vector<CUjit_option> m_options;
    std::vector<void*> m_values;
};

}  // namespace warpline::server
