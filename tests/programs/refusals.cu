// What is refused because it can be done on the machine with the GPU alone: with an error of its own, and a line that says why.
#include <cstring>

#include "driver_calls.h"

// Core dumps would be files there.
static void core_dumps() {
    const auto create = find<CUcontext*, unsigned, CUdevice>("cuCtxCreate", 3020);
    CUcontext context = nullptr;
    const unsigned dumps[] = {CU_CTX_COREDUMP_ENABLE, CU_CTX_USER_COREDUMP_ENABLE, CU_CTX_COREDUMP_ENABLE | CU_CTX_SCHED_SPIN};
    for (unsigned flags : dumps) {
        REFUSED(create(&context, flags, 0), CUDA_ERROR_NOT_SUPPORTED);
        REFUSED(cuDevicePrimaryCtxSetFlags(0, flags), CUDA_ERROR_NOT_SUPPORTED);
        REFUSED(cuCtxSetFlags(flags), CUDA_ERROR_NOT_SUPPORTED);
    }
    EXPECT(context == nullptr);
}

int main() {
    CHECK(cudaFree(nullptr));
    core_dumps();
    return passed("refusals");
}
