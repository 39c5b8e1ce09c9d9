// A launch as programs put it together call by call before CUDA 4.0: cuda.h has these functions still, and PyCUDA uses them.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>

#include "common/base/bytes.h"
#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"

namespace warpline::cuda::abi {

/// What has been set of a function for its next cuLaunch. @thread any @blocks no
class LegacyLaunch {
public:
    /// cuFuncSetBlockShape. What a device can run is looked at by the launch. @errors invalid value
    CUresult set_block(int x, int y, int z) WL_EXCLUDES(m_mutex) {
        if (x <= 0 || y <= 0 || z <= 0) return CUDA_ERROR_INVALID_VALUE;
        MutexLock lock(m_mutex);
        m_block = {static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z)};
        return CUDA_SUCCESS;
    }
    /// cuFuncSetSharedSize
    CUresult set_shared(unsigned bytes) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        m_shared_bytes = bytes;
        return CUDA_SUCCESS;
    }
    /// cuParamSetSize. @errors invalid value (more than any kernel takes)
    CUresult set_size(unsigned bytes) WL_EXCLUDES(m_mutex) {
        if (bytes > k_most_bytes) return CUDA_ERROR_INVALID_VALUE;
        MutexLock lock(m_mutex);
        m_params.resize(bytes);
        return CUDA_SUCCESS;
    }
    /// cuParamSeti, cuParamSetf, cuParamSetv. The size may be told before or behind. @errors invalid value
    CUresult set_param(int offset, const void* value, size_t bytes) WL_EXCLUDES(m_mutex) {
        const bool fits = offset >= 0 && bytes <= k_most_bytes && static_cast<size_t>(offset) <= k_most_bytes - bytes;
        if (!fits || (value == nullptr && bytes != 0)) return CUDA_ERROR_INVALID_VALUE;
        MutexLock lock(m_mutex);
        const size_t end = static_cast<size_t>(offset) + bytes;
        if (m_params.size() < end) m_params.resize(end);
        if (bytes != 0) std::memcpy(m_params.data() + offset, value, bytes);
        return CUDA_SUCCESS;
    }
    /// cuLaunch and its kin. @param launch  (block, shared bytes, `extra` of cuLaunchKernel): its result
    template <typename Launch>
    CUresult launch(int width, int height, Launch launch) const WL_EXCLUDES(m_mutex) {
        if (width <= 0 || height <= 0) return CUDA_ERROR_INVALID_VALUE;
        std::array<unsigned, 3> block;
        unsigned shared_bytes = 0;
        Bytes params;
        {
            MutexLock lock(m_mutex);
            block = m_block;
            shared_bytes = m_shared_bytes;
            params = m_params;
        }
        size_t size = params.size();
        void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, params.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                         CU_LAUNCH_PARAM_END};
        return launch(block, shared_bytes, size != 0 ? extra : nullptr);
    }

private:
    static constexpr size_t k_most_bytes = 32764;  // of a kernel's parameters, since CUDA 12.1

    mutable Mutex m_mutex;
    std::array<unsigned, 3> m_block WL_GUARDED_BY(m_mutex){};  // none: a launch is refused
    unsigned m_shared_bytes WL_GUARDED_BY(m_mutex) = 0;
    Bytes m_params WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::cuda::abi
