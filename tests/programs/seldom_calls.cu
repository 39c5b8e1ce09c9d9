// Functions of the driver that neither libcudart nor other programs of these tests call, by their effect.
#include <unistd.h>

#include "driver_calls.h"

__global__ void store(int* to, int value) { *to = value; }

static int attribute(cudaDeviceAttr which) {
    int value = -1;
    CHECK(cudaDeviceGetAttribute(&value, which, 0));
    return value;
}

static void devices() {
    int major = 0, minor = 0;
    EXPECT_EQ((find<int*, int*, CUdevice>("cuDeviceComputeCapability", 2000)(&major, &minor, 0)), CUDA_SUCCESS);
    EXPECT_EQ(major, attribute(cudaDevAttrComputeCapabilityMajor));
    EXPECT_EQ(minor, attribute(cudaDevAttrComputeCapabilityMinor));
    CUdevprop properties{};
    EXPECT_EQ((find<CUdevprop*, CUdevice>("cuDeviceGetProperties", 2000)(&properties, 0)), CUDA_SUCCESS);
    EXPECT_EQ(properties.maxThreadsPerBlock, attribute(cudaDevAttrMaxThreadsPerBlock));
    EXPECT_EQ(properties.SIMDWidth, attribute(cudaDevAttrWarpSize));
    EXPECT_EQ(properties.clockRate, attribute(cudaDevAttrClockRate));
    const auto width = find<size_t*, CUarray_format, unsigned, CUdevice>("cuDeviceGetTexture1DLinearMaxWidth", 11010);
    size_t narrow = 0, wide = 0;
    // What was answered is not asked again (waits.toml), and each question has its own answer.
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(width(&narrow, CU_AD_FORMAT_FLOAT, 1, 0), CUDA_SUCCESS);
        EXPECT_EQ(width(&wide, CU_AD_FORMAT_FLOAT, 4, 0), CUDA_SUCCESS);
        EXPECT(narrow >= wide && wide > 0);
    }
    const auto supports = find<int*, CUexecAffinityType, CUdevice>("cuDeviceGetExecAffinitySupport", 11040);
    for (int i = 0; i < 3; ++i) {
        int affinity = -1;
        EXPECT_EQ(supports(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 0), CUDA_SUCCESS);
        EXPECT(affinity == 0 || affinity == 1);
    }
}

static void atomic_capabilities() {
    const CUatomicOperation operations[] = {CU_ATOMIC_OPERATION_INTEGER_ADD, CU_ATOMIC_OPERATION_CAS};
    unsigned capabilities[2] = {~0u, ~0u};
    const auto of_host =
        find<unsigned*, const CUatomicOperation*, unsigned, CUdevice>("cuDeviceGetHostAtomicCapabilities", 13000);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(of_host(capabilities, operations, 2, 0), CUDA_SUCCESS);
        for (unsigned& found : capabilities) {
            EXPECT(found != ~0u);
            found = ~0u;
        }
    }
    EXPECT_EQ(of_host(nullptr, operations, 2, 0), CUDA_ERROR_INVALID_VALUE);
    const auto of_peers =
        find<unsigned*, const CUatomicOperation*, unsigned, CUdevice, CUdevice>("cuDeviceGetP2PAtomicCapabilities", 13000);
    EXPECT(of_peers(capabilities, operations, 2, 0, 99) == CUDA_ERROR_INVALID_DEVICE);
}

static void shaped_peer_copy() {
    constexpr int k_width = 12, k_height = 5;
    std::vector<int> from(k_width * k_height);
    for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<int>(3 * i);
    DeviceArray<int> source(from), target(from.size());
    CHECK(cudaMemset(target.data(), 0, from.size() * sizeof(int)));
    CUcontext context;
    EXPECT_EQ((find<CUcontext*>("cuCtxGetCurrent", 4000)(&context)), CUDA_SUCCESS);
    CUDA_MEMCPY3D_PEER copy{};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = reinterpret_cast<CUdeviceptr>(source.data()),
    copy.dstDevice = reinterpret_cast<CUdeviceptr>(target.data());
    copy.srcContext = copy.dstContext = context;
    copy.srcPitch = copy.dstPitch = k_width * sizeof(int);
    copy.srcHeight = copy.dstHeight = k_height;
    copy.WidthInBytes = 4 * sizeof(int), copy.Height = k_height, copy.Depth = 1;
    EXPECT_EQ((find<const CUDA_MEMCPY3D_PEER*>("cuMemcpy3DPeer", 4000)(&copy)), CUDA_SUCCESS);
    const std::vector<int> found = target.download();
    for (int y = 0; y < k_height; ++y) {
        for (int x = 0; x < k_width; ++x) EXPECT_EQ(found[y * k_width + x], x < 4 ? from[y * k_width + x] : 0);
    }
}

static void first_form_of_parameters_of_a_launch() {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    DeviceArray<int> value(1);
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    store<<<1, 1, 0, stream>>>(value.data(), 1);
    CHECK(cudaStreamEndCapture(stream, &graph));
    cudaGraphNode_t node;
    size_t one = 1;
    CHECK(cudaGraphGetNodes(graph, &node, &one));
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CUfunction function;
    CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(store)));
    int *to = value.data(), stored = 77;
    void* arguments[] = {&to, &stored};
    const CUDA_KERNEL_NODE_PARAMS_v1 params{function, 1, 1, 1, 1, 1, 1, 0, arguments, nullptr};
    const auto change =
        find<CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1*>("cuGraphExecKernelNodeSetParams", 10010);
    EXPECT_EQ(change(exec, node, &params), CUDA_SUCCESS);
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(value.download()[0], 77);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
}

static void libraries_of_files() {
    char path[] = "/tmp/seldom_calls.XXXXXX";
    const int file = mkstemp(path);
    EXPECT(file >= 0);
    const char text[] = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .global .align 4 .u32 word;\n";
    EXPECT(write(file, text, sizeof text - 1) == sizeof text - 1);
    close(file);
    const auto load = find<CUlibrary*, const char*, CUjit_option*, void**, unsigned, CUlibraryOption*, void**, unsigned>(
        "cuLibraryLoadFromFile", 12000);
    CUlibrary library;
    // Who reads the file keeps what was read.
    CUlibraryOption preserved = CU_LIBRARY_BINARY_IS_PRESERVED;
    void* yes = reinterpret_cast<void*>(1);
    EXPECT(load(&library, path, nullptr, nullptr, 0, &preserved, &yes, 1) == CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(load(&library, path, nullptr, nullptr, 0, nullptr, nullptr, 0), CUDA_SUCCESS);
    EXPECT_EQ((find<CUlibrary>("cuLibraryUnload", 12000)(library)), CUDA_SUCCESS);
    unlink(path);
}

int main() {
    CHECK(cudaFree(nullptr));
    libraries_of_files();
    devices();
    atomic_capabilities();
    shaped_peer_copy();
    first_form_of_parameters_of_a_launch();
    return passed("seldom calls");
}
