// Attributes that a program sets and asks for at each step, as attention kernels do: what has been told once is not asked
// again.
#include <cuda.h>

#include <utility>

#include "check.h"

__global__ void scale(float* data) {
    extern __shared__ float staged[];
    staged[threadIdx.x] = data[threadIdx.x];
    __syncthreads();
    data[threadIdx.x] = 2 * staged[threadIdx.x];
}

/// The same, and nobody has asked about it before.
__global__ void fresh(float* data) {
    extern __shared__ float staged[];
    staged[threadIdx.x] = data[threadIdx.x];
    __syncthreads();
    data[threadIdx.x] = staged[63 - threadIdx.x];
}

static int dynamic_shared_bytes() {
    cudaFuncAttributes attributes{};
    CHECK(cudaFuncGetAttributes(&attributes, scale));
    return attributes.maxDynamicSharedSizeBytes;
}

static int blocks_with(int shared_bytes) {
    int blocks = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scale, 64, static_cast<size_t>(shared_bytes)));
    return blocks;
}

static size_t shared_bytes_left() {
    size_t bytes = 0;
    CHECK(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, scale, 2, 64));
    return bytes;
}

struct Clusters {
    cudaError_t result;
    int count;
};

/// How many clusters of so many blocks fit: by an attribute of the launch, or, for 0, by one of the function.
static Clusters ask_clusters(unsigned blocks) {
    cudaLaunchAttribute attributes[2] = {};
    attributes[0].id = cudaLaunchAttributeIgnore;
    attributes[1].id = cudaLaunchAttributeClusterDimension;
    attributes[1].val.clusterDim.x = blocks;
    attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(64);
    config.blockDim = dim3(64);
    config.attrs = attributes;
    config.numAttrs = blocks != 0 ? 2 : 1;
    Clusters clusters{};
    clusters.result = cudaOccupancyMaxActiveClusters(&clusters.count, scale, &config);
    if (clusters.result != cudaSuccess) cudaGetLastError();
    return clusters;
}

/// Of no function in particular, as cuBLAS 13.5 asks when it starts.
static void ask_without_function() {
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim = {3, 1, 1};
    CUlaunchConfig config{};
    config.gridDimX = 3;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = 128;
    config.attrs = &attribute;
    config.numAttrs = 1;
    void* found = nullptr;
    cudaDriverEntryPointQueryResult status;
    CHECK(cudaGetDriverEntryPointByVersion("cuOccupancyMaxActiveClusters", &found, 11080, cudaEnableDefault, &status));
    const auto ask = reinterpret_cast<decltype(&cuOccupancyMaxActiveClusters)>(found);
    int count = 0;
    const CUresult threes = ask(&count, nullptr, &config);
    EXPECT(threes == CUDA_SUCCESS || threes == CUDA_ERROR_INVALID_CLUSTER_SIZE);
    attribute.value.clusterDim.x = config.gridDimX = 2;
    EXPECT_EQ(static_cast<int>(ask(&count, nullptr, &config)), static_cast<int>(CUDA_SUCCESS));
    EXPECT(count > 0);
}

static int clusters_of(unsigned blocks) {
    const Clusters clusters = ask_clusters(blocks);
    CHECK(clusters.result);
    return clusters.count;
}

/// For devices that have clusters.
static void ask_for_clusters(int steps) {
    ask_without_function();
    const int twos = clusters_of(2);
    // Of a launch with no size of clusters drivers say one or the other: it stays what it is.
    const Clusters ones = ask_clusters(0);
    EXPECT(ones.result == cudaSuccess || ones.result == cudaErrorInvalidClusterSize);
    EXPECT(twos > 0);
    // The second size of the same launch brings all others with it. A cluster has multiprocessors that lie together, so that
    // fewer may fit than there are blocks for.
    constexpr unsigned k_sizes = 32;
    Clusters told[k_sizes + 1];
    for (unsigned blocks = 1; blocks <= k_sizes; ++blocks) told[blocks] = ask_clusters(blocks);
    for (unsigned blocks = 1; blocks <= k_sizes; ++blocks) {
        const bool is_size = blocks == 1 || blocks == 2 || blocks == 4 || blocks == 8;
        EXPECT_EQ(told[blocks].result, is_size ? cudaSuccess : cudaErrorInvalidClusterSize);
        EXPECT_EQ(told[blocks].count > 0, is_size);
    }
    for (unsigned blocks = 1; blocks <= k_sizes; ++blocks) {
        const Clusters again = ask_clusters(blocks);
        EXPECT_EQ(again.result, told[blocks].result);
        EXPECT_EQ(again.count, told[blocks].count);
    }
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(64);
    config.blockDim = dim3(64);
    for (int i = 0; i < steps; ++i) {
        EXPECT_EQ(clusters_of(2), twos);
        const Clusters again = ask_clusters(0);
        EXPECT(again.result == ones.result && again.count == ones.count);
        int largest = 0;
        CHECK(cudaOccupancyMaxPotentialClusterSize(&largest, scale, &config));
        EXPECT_EQ(largest, 8);
    }
    // The attribute of the function changes the one answer.
    CHECK(cudaFuncSetAttribute(scale, cudaFuncAttributeRequiredClusterWidth, 2));
    CHECK(cudaFuncSetAttribute(scale, cudaFuncAttributeRequiredClusterHeight, 1));
    CHECK(cudaFuncSetAttribute(scale, cudaFuncAttributeRequiredClusterDepth, 1));
    EXPECT_EQ(clusters_of(0), twos);
    CHECK(cudaFuncSetAttribute(scale, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    int largest = 0;
    CHECK(cudaOccupancyMaxPotentialClusterSize(&largest, scale, &config));
    EXPECT_EQ(largest, 16);
    EXPECT(clusters_of(16) > 0);
}

template <int bytes>
__global__ void sized(char* data) {
    __shared__ char staged[bytes];
    staged[threadIdx.x % bytes] = data[threadIdx.x];
    __syncthreads();
    data[threadIdx.x] = staged[(threadIdx.x + 1) % bytes];
}

template <int bytes>
static void ask_size() {
    cudaFuncAttributes attributes{};
    CHECK(cudaFuncGetAttributes(&attributes, sized<bytes>));
    // What is compiled for Hopper of PTX for older devices is counted in pieces.
    const bool in_pieces = attributes.binaryVersion >= 90 && attributes.ptxVersion < 90;
    EXPECT_EQ(attributes.sharedSizeBytes, in_pieces ? (size_t{bytes} + 15) / 16 * 16 : size_t{bytes});
    EXPECT_EQ(attributes.maxDynamicSharedSizeBytes, (48 << 10) - static_cast<int>(attributes.sharedSizeBytes));
    // As NCCL does for each of its kernels.
    CHECK(cudaFuncSetAttribute(sized<bytes>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
}

template <int bytes>
static void ask_size_again() {
    cudaFuncAttributes attributes{};
    CHECK(cudaFuncGetAttributes(&attributes, sized<bytes>));
    EXPECT_EQ(attributes.maxDynamicSharedSizeBytes, bytes);
}

/// What is set before the first question is what is told.
template <int bytes>
static void set_and_ask() {
    CHECK(cudaFuncSetAttribute(sized<bytes>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    ask_size_again<bytes>();
}

/// As attention kernels do for each launch, and never anything else: what holds for a value is asked for once: two.
static void set_ask_and_launch(int steps, float* data) {
    int blocks[2] = {0, 0};
    for (int i = 0; i < steps; ++i) {
        const int bytes = i % 2 != 0 ? 96 << 10 : 32 << 10;
        CHECK(cudaFuncSetAttribute(fresh, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
        int told = 0;
        CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&told, fresh, 64, static_cast<size_t>(bytes)));
        EXPECT(told > 0 && (blocks[i % 2] == 0 || told == blocks[i % 2]));
        blocks[i % 2] = told;
        fresh<<<1, 64, bytes>>>(data);
        CHECK(cudaGetLastError());
    }
    EXPECT(blocks[0] > blocks[1]);
}

/// What reads back as it was set is asked for at first, and how much fits for each way to set up the cache: three.
static void set_and_ask_of_caches(int steps) {
    cudaFuncAttributes attributes{};
    for (int i = 0; i < steps; ++i) {
        CHECK(cudaFuncSetAttribute(fresh, cudaFuncAttributePreferredSharedMemoryCarveout, i % 101));
        CHECK(cudaFuncGetAttributes(&attributes, fresh));
        EXPECT_EQ(attributes.preferredShmemCarveout, i % 101);
    }
    EXPECT_EQ(cudaFuncSetAttribute(fresh, cudaFuncAttributePreferredSharedMemoryCarveout, 101), cudaErrorInvalidValue);
    cudaGetLastError();
    CHECK(cudaFuncGetAttributes(&attributes, fresh));
    EXPECT_EQ(attributes.preferredShmemCarveout, (steps - 1) % 101);
    for (int i = 0; i < steps; ++i) {
        CHECK(cudaFuncSetCacheConfig(fresh, i % 2 != 0 ? cudaFuncCachePreferL1 : cudaFuncCachePreferShared));
        int blocks = 0;
        CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fresh, 64, 0));
        EXPECT(blocks > 0);
    }
}

/// The kernels of one image, one after the other.
template <size_t... i>
static void ask_of_all(std::index_sequence<i...>) {
    (ask_size<4 * static_cast<int>(i) + 4>(), ...);
    (ask_size_again<4 * static_cast<int>(i) + 4>(), ...);
}

int main() {
    ask_size<400>();
    set_and_ask<404>();
    set_and_ask<408>();
    ask_of_all(std::make_index_sequence<40>());
    constexpr int k_steps = 100, k_most = 64 << 10, k_less = 56 << 10;
    DeviceArray<float> data(64);
    CHECK(cudaMemset(data.data(), 0, 64 * sizeof(float)));
    set_ask_and_launch(k_steps, data.data());
    set_and_ask_of_caches(k_steps);
    const int before = dynamic_shared_bytes();
    EXPECT(before > 0 && before < k_less);
    int most_blocks = 0;
    for (int i = 0; i < k_steps; ++i) {
        CHECK(cudaFuncSetAttribute(scale, cudaFuncAttributeMaxDynamicSharedMemorySize, k_most));
        EXPECT_EQ(dynamic_shared_bytes(), k_most);
        const int blocks = blocks_with(k_most);
        EXPECT(blocks > 0 && (most_blocks == 0 || blocks == most_blocks));
        most_blocks = blocks;
        scale<<<1, 64, k_most>>>(data.data());
    }
    CHECK(cudaFuncSetAttribute(scale, cudaFuncAttributeMaxDynamicSharedMemorySize, k_less));
    EXPECT_EQ(dynamic_shared_bytes(), k_less);
    EXPECT(blocks_with(k_less) >= most_blocks);
    scale<<<1, 64, k_most>>>(data.data());
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
    CHECK(cudaFuncSetAttribute(scale, cudaFuncAttributePreferredSharedMemoryCarveout, 50));
    EXPECT_EQ(dynamic_shared_bytes(), k_less);
    const size_t left = shared_bytes_left();
    EXPECT(left > 0);
    for (int i = 0; i < k_steps; ++i) EXPECT_EQ(shared_bytes_left(), left);
    CHECK(cudaDeviceSetCacheConfig(cudaFuncCachePreferShared));
    for (int i = 0; i < k_steps; ++i) EXPECT(shared_bytes_left() > 0);
    CHECK(cudaFuncSetCacheConfig(scale, cudaFuncCachePreferShared));
    for (int i = 0; i < k_steps; ++i) EXPECT(shared_bytes_left() > 0);
    CHECK(cudaDeviceSynchronize());
    int has_clusters = 0;
    CHECK(cudaDeviceGetAttribute(&has_clusters, cudaDevAttrClusterLaunch, 0));
    if (has_clusters != 0) ask_for_clusters(k_steps);
    std::printf("verified\n");
    return 0;
}
