// The parameters of a kernel as the driver takes them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/bytes.h"
#include "cuda/abi/cuda_types.h"
#include "server/objects/handle_table.h"

namespace warpline::server {

/// The parameters of a launch as they came: `params` is the parameters back to back without padding, `sizes` the size of each
/// as u32. Without sizes, `params` is the buffer of the launch's `extra` form; what it is shorter than the kernel's parameters
/// is filled with zeros. Small launches need no allocation.
class KernelParams {
public:
    static constexpr size_t k_max_params = 4096;
    static constexpr size_t k_max_bytes = 32768;  // above the largest that CUDA allows (32764)

    /// @param layout  of the kernel: it reads as much as that says, whatever it is given
    /// @errors        CUDA_ERROR_INVALID_VALUE: number or sizes are not the kernel's, or do not add up to the bytes
    CUresult read(BytesView params, BytesView sizes, const ParamLayout& layout);

    void** kernel_params() { return m_count > 0 ? m_pointers : nullptr; }
    void** extra() { return m_uses_extra ? m_extra : nullptr; }

private:
    bool take(BytesView params, BytesView sizes);
    bool take_block(BytesView params, size_t least_bytes);
    std::byte* place_for(size_t bytes);
    static constexpr size_t k_inline_params = 32;
    static constexpr size_t k_inline_bytes = 1024;
    static constexpr size_t k_alignment = 16;  // the largest alignment of a CUDA type

    size_t m_count = 0;
    void** m_pointers = nullptr;
    size_t m_extra_bytes = 0;
    bool m_uses_extra = false;
    void* m_extra[5] = {};
    void* m_inline_pointers[k_inline_params];
    alignas(k_alignment) std::byte m_inline_bytes[k_inline_bytes];
    std::unique_ptr<void*[]> m_heap_pointers;
    std::unique_ptr<std::byte[]> m_heap_bytes;
};

}  // namespace warpline::server
