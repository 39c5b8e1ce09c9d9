// How workers make primary contexts.
#include "server/driver/primary_context.h"

namespace warpline::server {

CUresult retain_primary(const Driver& driver, CUdevice device, CUcontext& context) {
    const DriverTable& cuda = driver.table();
    if (cuda.cuDevicePrimaryCtxRetain == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    unsigned flags = 0;
    int active = 0;
    const bool known =
        cuda.cuDevicePrimaryCtxGetState != nullptr && cuda.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS;
    if (known && active == 0 && (flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_AUTO &&
        cuda.cuDevicePrimaryCtxSetFlags_v2 != nullptr) {
        cuda.cuDevicePrimaryCtxSetFlags_v2(device, flags | CU_CTX_SCHED_BLOCKING_SYNC);
    }
    return cuda.cuDevicePrimaryCtxRetain(&context, device);
}

bool is_shared(const DeviceSnapshot& device) {
    return device.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) == CU_COMPUTEMODE_DEFAULT;
}

}  // namespace warpline::server
