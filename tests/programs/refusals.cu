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

// An operation on memory that CUDA has got after 13.0.
static void reductions() {
    DeviceArray<int> data(2);
    CUgraph graph;
    CUgraphNode node;
    CUDA_BATCH_MEM_OP_NODE_PARAMS params{};
    CUstreamBatchMemOpParams item{};
    const unsigned reduction = 8;  // CU_STREAM_MEM_OP_ATOMIC_REDUCTION
    std::memcpy(&item.operation, &reduction, sizeof reduction);
    item.waitValue.address = reinterpret_cast<CUdeviceptr>(data.data());
    DRIVER(cuGraphCreate(&graph, 0));
    DRIVER(cuCtxGetCurrent(&params.ctx));
    params.count = 1;
    params.paramArray = &item;
    REFUSED(cuGraphAddBatchMemOpNode(&node, graph, nullptr, 0, &params), CUDA_ERROR_NOT_SUPPORTED);
    DRIVER(cuGraphDestroy(graph));
}

int main() {
    CHECK(cudaFree(nullptr));
    core_dumps();
    reductions();
    return passed("refusals");
}
