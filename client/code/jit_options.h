#pragma once

// The options of a compilation or link as the program passes them.

#include <optional>
#include <span>
#include <vector>

#include "client/state/jit_outputs.h"
#include "cuda/abi/cuda_types.h"

namespace warpline::client {

/// An array of names, and one of values that are numbers written into pointers. Numbers travel; of a buffer for a log that it
/// is wanted. What comes back is written where the program wants it.
class JitOptions {
public:
    /// @errors  invalid value (null arrays), not supported (options that are lists of symbols)
    CUresult read(unsigned count, const CUjit_option* options, void** values);

    std::span<const uint64_t> options() const { return m_options; }
    std::span<const uint64_t> values() const { return m_values; }
    const JitOutputs& outputs() const { return m_outputs; }
    /// The bound of the threads in a block, if what is compiled from text has this one whatever the text says.
    std::optional<uint32_t> max_threads() const { return m_overrides ? m_max_threads : std::nullopt; }

private:
    std::vector<uint64_t> m_options;
    std::vector<uint64_t> m_values;
    JitOutputs m_outputs;
    std::optional<uint32_t> m_max_threads;
    bool m_overrides = false;
};

}  // namespace warpline::client
