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

// A kernel would have to know it by the driver's handle.
static void graphs_that_kernels_launch() {
    cudaGraph_t graph;
    cudaGraphExec_t exec = nullptr;
    CHECK(cudaGraphCreate(&graph, 0));
    EXPECT_EQ(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagDeviceLaunch), cudaErrorNotSupported);
    cudaGraphInstantiateParams params{};
    params.flags = cudaGraphInstantiateFlagDeviceLaunch;
    EXPECT_EQ(cudaGraphInstantiateWithParams(&exec, graph, &params), cudaErrorNotSupported);
    EXPECT_EQ(params.result_out, cudaGraphInstantiateNodeOperationNotSupported);
    EXPECT_EQ(cudaGetLastError(), cudaErrorNotSupported);
    CHECK(cudaGraphDestroy(graph));
}

int main() {
    CHECK(cudaFree(nullptr));
    core_dumps();
    graphs_that_kernels_launch();
    return passed("refusals");
}
