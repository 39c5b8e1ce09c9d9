// A kernel that fails ends the use of its context, and of no other one: others go on, and a new one works (A3).
#include <atomic>

#include "driver_calls.h"

__global__ void store(int* where, int value) { *where = value; }

static CUcontext make_context() {
    CUcontext context;
    CUctxCreateParams parameters{};
    DRIVER(cuCtxCreate_v4(&context, &parameters, 0, 0));
    return context;
}

// All that a program does in a context.
static void use(CUcontext context, int value) {
    DRIVER(cuCtxSetCurrent(context));
    CUdeviceptr memory;
    CUstream stream;
    int found = 0;
    DRIVER(cuCtxSynchronize());
    DRIVER(cuMemAlloc(&memory, sizeof found));
    DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    store<<<1, 1, 0, stream>>>(reinterpret_cast<int*>(memory), value);
    DRIVER(cuStreamSynchronize(stream));
    DRIVER(cuMemcpyDtoH(&found, memory, sizeof found));
    EXPECT_EQ(found, value);
    DRIVER(cuStreamDestroy(stream));
    DRIVER(cuMemFree(memory));
}

static void expect_failed(CUcontext context) {
    CUdeviceptr memory;
    DRIVER(cuCtxSetCurrent(context));
    REFUSED(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    REFUSED(cuMemAlloc(&memory, 16), CUDA_ERROR_ILLEGAL_ADDRESS);
}

int main() {
    DRIVER(cuInit(0));
    CUcontext first = make_context();
    const CUcontext other = make_context();
    use(first, 1);
    use(other, 2);
    // Nobody has asked for the failure when another context is used.
    DRIVER(cuCtxSetCurrent(first));
    CUstream stream;
    CUevent event;
    void* locked;
    DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    DRIVER(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    DRIVER(cuMemHostAlloc(&locked, 16, 0));
    std::atomic<bool> open{false};
    DRIVER(cuLaunchHostFunc(stream, [](void* flag) { static_cast<std::atomic<bool>*>(flag)->wait(false); }, &open));
    store<<<1, 1, 0, stream>>>(reinterpret_cast<int*>(8), 1);
    DRIVER(cuEventRecord(event, stream));
    open = true;
    open.notify_all();
    use(other, 3);
    // What is the failed context's says so, whichever is current; and says it of that one alone.
    REFUSED(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    REFUSED(cuEventSynchronize(event), CUDA_ERROR_ILLEGAL_ADDRESS);
    use(other, 4);
    expect_failed(first);
    use(other, 5);
    // It ends, and another one takes its place.
    DRIVER(cuCtxSetCurrent(first));
    DRIVER(cuCtxDestroy(first));
    first = make_context();
    use(first, 6);
    use(other, 7);
    // So does a device's own.
    CUcontext primary;
    DRIVER(cuDevicePrimaryCtxRetain(&primary, 0));
    use(primary, 8);
    store<<<1, 1>>>(reinterpret_cast<int*>(8), 1);
    expect_failed(primary);
    use(first, 9);
    DRIVER(cuDevicePrimaryCtxReset(0));
    use(other, 10);
    DRIVER(cuDevicePrimaryCtxRetain(&primary, 0));
    use(primary, 11);
    DRIVER(cuDevicePrimaryCtxRelease(0));
    DRIVER(cuCtxDestroy(first));
    DRIVER(cuCtxDestroy(other));
    return passed("contexts beside one that has failed");
}
