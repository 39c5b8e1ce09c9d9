// The log line of what is refused.
#include "softgpu/driver/life/refuse.h"

#include "common/log/log.h"
#include "cuda/abi/driver_log.h"

namespace warpline::softgpu::driver {

int refuse(const char* symbol, const char* reason) noexcept {
    try {
        WL_LOG(warn, "softgpu", "{} is not supported by the software GPU: {}", symbol, reason);
    } catch (...) {  // out of memory while logging: the result says enough
    }
    return cuda::abi::noted(symbol, CUDA_ERROR_NOT_SUPPORTED);
}

}  // namespace warpline::softgpu::driver
