// Page-locked memory that two contexts of a device use: what is on its way to it from one is there in the end, whatever is
// waited for, and given up, in the other.
#include "driver_calls.h"
#include "shared_memory.h"

constexpr int k_count = 3000;
constexpr size_t k_bytes = k_count * sizeof(int);

static void use(CUcontext context) { DRIVER(cuCtxSetCurrent(context)); }

struct Side {
    CUcontext context;
    CUstream stream, opener;
    CUdeviceptr memory, gate;
};

static Side make_side(CUdevice device, unsigned value) {
    Side side;
    CUctxCreateParams params{};
    DRIVER(cuCtxCreate(&side.context, &params, 0, device));
    DRIVER(cuStreamCreate(&side.stream, CU_STREAM_NON_BLOCKING));
    DRIVER(cuStreamCreate(&side.opener, CU_STREAM_NON_BLOCKING));
    DRIVER(cuMemAlloc(&side.memory, k_bytes));
    DRIVER(cuMemAlloc(&side.gate, sizeof(int)));
    DRIVER(cuMemsetD32(side.memory, value, k_count));
    DRIVER(cuMemsetD32(side.gate, 0, 1));
    DRIVER(cuCtxSynchronize());
    return side;
}

static void open_gate(const Side& side) {
    use(side.context);
    DRIVER(cuMemsetD32Async(side.gate, 1, 1, side.opener));
    DRIVER(cuStreamSynchronize(side.opener));
}

static void end(const Side& side) {
    use(side.context);
    DRIVER(cuMemFree(side.memory));
    DRIVER(cuMemFree(side.gate));
    DRIVER(cuStreamDestroy(side.stream));
    DRIVER(cuStreamDestroy(side.opener));
    DRIVER(cuCtxDestroy(side.context));
}

// Whatever `send` has put behind the gate of one context writes to the memory when it opens, though another context has read it
// before, waited for its own streams, and had nothing to wait for in the first one.
template <typename Send>
static void held_up(CUdevice device, Send send) {
    const Side writer = make_side(device, 22), reader = make_side(device, 11);
    int* shared;
    DRIVER(cuMemHostAlloc(reinterpret_cast<void**>(&shared), k_bytes, CU_MEMHOSTALLOC_PORTABLE));
    for (int i = 0; i < k_count; ++i) shared[i] = i;
    use(writer.context);
    hold<<<1, 1, 0, writer.stream>>>(reinterpret_cast<int*>(writer.gate));
    CHECK(cudaGetLastError());
    const auto clean_up = send(writer, shared);
    use(reader.context);
    DRIVER(cuMemcpyHtoDAsync(reader.memory, shared, k_bytes, reader.stream));
    DRIVER(cuStreamSynchronize(reader.stream));
    std::vector<int> seen(k_count);
    DRIVER(cuMemcpyDtoH(seen.data(), reader.memory, k_bytes));
    for (int i = 0; i < k_count; ++i) EXPECT_EQ(seen[i], i);
    open_gate(writer);
    DRIVER(cuStreamSynchronize(writer.stream));
    for (int i = 0; i < k_count; ++i) EXPECT_EQ(shared[i], 22);
    clean_up();
    // What is given up while another context still writes to it: that has arrived before.
    DRIVER(cuMemcpyDtoHAsync(shared, writer.memory, k_bytes, writer.stream));
    use(reader.context);
    DRIVER(cuMemFreeHost(shared));
    end(writer);
    end(reader);
}

// There is one way of waiting for a context's work.
static void flags(CUdevice device) {
    const auto create = find<CUcontext*, unsigned, CUdevice>("cuCtxCreate", 3020);
    CUcontext context = nullptr;
    for (unsigned two : {CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD, CU_CTX_SCHED_YIELD | CU_CTX_SCHED_BLOCKING_SYNC}) {
        REFUSED(create(&context, two, device), CUDA_ERROR_INVALID_VALUE);
        REFUSED(cuDevicePrimaryCtxSetFlags(device, two), CUDA_ERROR_INVALID_VALUE);
        DRIVER(create(&context, CU_CTX_SCHED_YIELD, device));
        REFUSED(cuCtxSetFlags(two), CUDA_ERROR_INVALID_VALUE);
        DRIVER(cuCtxDestroy(context));
    }
}

int main() {
    CUdevice device;
    DRIVER(cuInit(0));
    DRIVER(cuDeviceGet(&device, 0));
    flags(device);
    held_up(device, [](const Side& writer, int* shared) {
        DRIVER(cuMemcpyDtoHAsync(shared, writer.memory, k_bytes, writer.stream));
        return [] {};
    });
    held_up(device, [](const Side& writer, int* shared) {
        CUgraph graph;
        CUgraphExec exec;
        DRIVER(cuStreamBeginCapture(writer.opener, CU_STREAM_CAPTURE_MODE_RELAXED));
        DRIVER(cuMemcpyDtoHAsync(shared, writer.memory, k_bytes, writer.opener));
        DRIVER(cuStreamEndCapture(writer.opener, &graph));
        DRIVER(cuGraphInstantiate(&exec, graph, 0));
        DRIVER(cuGraphDestroy(graph));
        DRIVER(cuGraphLaunch(exec, writer.stream));
        return [exec] { DRIVER(cuGraphExecDestroy(exec)); };
    });
    return passed("two contexts");
}
