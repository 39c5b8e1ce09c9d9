// One device's access to another one's memory: whether there is such a thing, from when to when, and what becomes of a kernel
// that has none.
#include "driver_calls.h"

__global__ void add(int* data, int value) { data[threadIdx.x] += value; }

static constexpr int k_count = 100;

static CUcontext context_of(CUdevice device) {
    CHECK(cudaSetDevice(device));
    CHECK(cudaFree(nullptr));
    CUcontext context;
    DRIVER(cuCtxGetCurrent(&context));
    return context;
}

static void expect_values(const DeviceArray<int>& data, int value) {
    for (int found : data.download()) EXPECT_EQ(found, value);
}

static CUcontext create_on(CUdevice device) {
    CUcontext context;
    CUctxCreateParams params{};
    DRIVER(cuCtxCreate(&context, &params, 0, device));
    return context;
}

// Access is a context's: others of its device have their own, and it ends with the context.
static void contexts_of_one_device(CUcontext first) {
    CUcontext current;
    DRIVER(cuCtxGetCurrent(&current));
    const CUcontext other = create_on(1);
    DRIVER(cuCtxEnablePeerAccess(first, 0));
    DRIVER(cuCtxSetCurrent(current));
    DRIVER(cuCtxEnablePeerAccess(first, 0));
    DRIVER(cuCtxDisablePeerAccess(first));
    DRIVER(cuCtxSetCurrent(other));
    DRIVER(cuCtxDisablePeerAccess(first));
    DRIVER(cuCtxEnablePeerAccess(first, 0));
    DRIVER(cuCtxDestroy(other));
    const CUcontext third = create_on(1);
    REFUSED(cuCtxDisablePeerAccess(first), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    DRIVER(cuCtxEnablePeerAccess(first, 0));
    // Two of the other device likewise.
    const CUcontext second = create_on(0);
    DRIVER(cuCtxSetCurrent(third));
    DRIVER(cuCtxEnablePeerAccess(second, 0));
    DRIVER(cuCtxDestroy(second));
    DRIVER(cuCtxDisablePeerAccess(first));
    DRIVER(cuCtxDestroy(third));
    DRIVER(cuCtxSetCurrent(current));
}

int main() {
    int count = 0, can = -1, itself = -1, attribute = -1;
    CHECK(cudaGetDeviceCount(&count));
    DRIVER(cuDeviceCanAccessPeer(&itself, 0, 0));
    EXPECT_EQ(itself, 0);  // "a peer device": it is none of its own
    REFUSED(cuDeviceCanAccessPeer(&can, 0, count), CUDA_ERROR_INVALID_DEVICE);
    if (count < 2) return passed("access of peers: there is one device, nothing");
    DRIVER(cuDeviceCanAccessPeer(&can, 1, 0));
    DRIVER(cuDeviceGetP2PAttribute(&attribute, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 1, 0));
    EXPECT(can == attribute && (can == 0 || can == 1));
    const CUcontext first = context_of(0);
    DeviceArray<int> data(std::vector<int>(k_count, 1));
    context_of(1);
    if (can == 0) {
        REFUSED(cuCtxEnablePeerAccess(first, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
        return passed("access of peers that have none");
    }
    REFUSED(cuCtxDisablePeerAccess(first), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    REFUSED(cuCtxEnablePeerAccess(first, 77), CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuCtxEnablePeerAccess(first, 0));
    REFUSED(cuCtxEnablePeerAccess(first, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    add<<<1, k_count>>>(data.data(), 10);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaSetDevice(0));
    expect_values(data, 11);
    CHECK(cudaSetDevice(1));
    DRIVER(cuCtxDisablePeerAccess(first));
    REFUSED(cuCtxDisablePeerAccess(first), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    contexts_of_one_device(first);
    DRIVER(cuCtxEnablePeerAccess(first, 0));
    add<<<1, k_count>>>(data.data(), 10);
    CHECK(cudaDeviceReset());  // and what the context was let do ends with it
    CHECK(cudaSetDevice(0));
    expect_values(data, 21);
    CHECK(cudaSetDevice(1));
    CHECK(cudaFree(nullptr));
    REFUSED(cuCtxDisablePeerAccess(first), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    // It is the last thing that the process gives a device.
    add<<<1, k_count>>>(data.data(), 100);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    return passed("access of peers");
}
