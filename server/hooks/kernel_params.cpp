// Laying parameters out for the driver, whatever the client says of them.
#include "server/hooks/kernel_params.h"

#include <algorithm>
#include <cstring>

namespace warpline::server {

CUresult KernelParams::read(BytesView params, BytesView sizes, const ParamLayout& layout) {
    if (sizes.empty()) return take_block(params, layout.bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    const BytesView wanted = as_bytes(layout.sizes.data(), layout.sizes.size() * sizeof(uint32_t));
    const bool same = sizes.size() == wanted.size() && std::memcmp(sizes.data(), wanted.data(), sizes.size()) == 0;
    return same && take(params, sizes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

std::byte* KernelParams::place_for(size_t bytes) {
    if (bytes <= k_inline_bytes) return m_inline_bytes;
    m_heap_bytes = std::make_unique<std::byte[]>(bytes);
    return m_heap_bytes.get();
}

bool KernelParams::take_block(BytesView params, size_t least_bytes) {
    if (params.size() > k_max_bytes || least_bytes > k_max_bytes || (params.empty() && least_bytes != 0)) return false;
    if (params.empty()) return true;
    m_extra_bytes = std::max(params.size(), least_bytes);
    std::byte* place = place_for(m_extra_bytes);
    std::memcpy(place, params.data(), params.size());
    std::memset(place + params.size(), 0, m_extra_bytes - params.size());
    m_extra[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
    m_extra[1] = place;
    m_extra[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
    m_extra[3] = &m_extra_bytes;
    m_extra[4] = CU_LAUNCH_PARAM_END;
    m_uses_extra = true;
    return true;
}

bool KernelParams::take(BytesView params, BytesView sizes) {
    const size_t count = sizes.size() / sizeof(uint32_t);
    if (sizes.size() % sizeof(uint32_t) != 0 || count > k_max_params || params.size() > k_max_bytes) return false;
    // Each parameter is given a place of its own, aligned for any type.
    std::byte* place = place_for(params.size() + (count + 1) * k_alignment);
    m_pointers = m_inline_pointers;
    if (count > k_inline_params) {
        m_heap_pointers = std::make_unique<void*[]>(count);
        m_pointers = m_heap_pointers.get();
    }
    size_t offset = 0;
    for (size_t i = 0; i < count; ++i) {
        uint32_t size = 0;
        read_at(sizes, i * sizeof size, size);
        if (size > params.size() - offset) return false;
        m_pointers[i] = place;
        if (size > 0) std::memcpy(place, params.data() + offset, size);
        offset += size;
        place += (size + k_alignment - 1) / k_alignment * k_alignment;
    }
    m_count = count;
    return offset == params.size();
}

}  // namespace warpline::server
