// The tensor memory accelerator as CUDA C++ uses it: tiles of matrices come and go as boxes of tensor maps, which are kernel
// parameters, or lie in constant or global memory. A transposition with swizzled tiles, a product, sums in place.
#include <cuda.h>

#include <cstring>
#include <cuda/barrier>
#include <utility>

#include "check.h"

namespace cde = cuda::device::experimental;
using Barrier = cuda::barrier<cuda::thread_scope_block>;

constexpr int k_tile = 32;

__device__ void load_tile(void* tile, const CUtensorMap* map, int x, int y, Barrier& barrier, size_t bytes) {
    Barrier::arrival_token token;
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        cde::cp_async_bulk_tensor_2d_global_to_shared(tile, map, x, y, barrier);
        token = cuda::device::barrier_arrive_tx(barrier, 1, bytes);
    } else {
        token = barrier.arrive();
    }
    barrier.wait(std::move(token));
}

__device__ void store_tile(const CUtensorMap* map, int x, int y, const void* tile) {
    cde::fence_proxy_async_shared_cta();
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        cde::cp_async_bulk_tensor_2d_shared_to_global(map, x, y, tile);
        cde::cp_async_bulk_commit_group();
        cde::cp_async_bulk_wait_group_read<0>();
    }
}

__device__ void begin(Barrier& barrier) {
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        init(&barrier, blockDim.x * blockDim.y);
        cde::fence_proxy_async_shared_cta();
    }
    __syncthreads();
}

/// Chunks of 16 bytes lie where the 128-byte swizzle puts them. CUDA C++ Programming Guide, "TMA Swizzle".
__device__ int& swizzled(int* tile, int y, int x) {
    const int offset = static_cast<int>(reinterpret_cast<uintptr_t>(tile) / 128 % 8);
    return tile[y * k_tile + (((y + offset) % 8) ^ (x / 4)) * 4 + x % 4];
}

__global__ void transpose(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to) {
    __shared__ alignas(1024) int in[k_tile * k_tile];
    __shared__ alignas(1024) int out[k_tile * k_tile];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ Barrier barrier;
    begin(barrier);
    const int x = blockIdx.x * k_tile, y = blockIdx.y * k_tile;
    load_tile(in, &from, x, y, barrier, sizeof in);
    for (int i = threadIdx.y; i < k_tile; i += blockDim.y) swizzled(out, threadIdx.x, i) = swizzled(in, i, threadIdx.x);
    store_tile(&to, y, x, out);
}

__constant__ CUtensorMap c_left;

/// The left matrix's map is in constant memory, the right one's in global memory.
__global__ void product(const CUtensorMap* right, float* out, int rows, int columns, int depth) {
    __shared__ alignas(128) float a[k_tile][k_tile];
    __shared__ alignas(128) float b[k_tile][k_tile];
    __shared__ Barrier barrier;
    begin(barrier);
    const int column = blockIdx.x * k_tile + threadIdx.x;
    float sum[k_tile / 8] = {};
    for (int k = 0; k < depth; k += k_tile) {
        load_tile(a, &c_left, k, blockIdx.y * k_tile, barrier, sizeof a);
        load_tile(b, right, blockIdx.x * k_tile, k, barrier, sizeof b);
        for (int i = 0; i < k_tile; ++i)
            for (int n = 0; n < k_tile / 8; ++n) sum[n] += a[threadIdx.y + 8 * n][i] * b[i][threadIdx.x];
        __syncthreads();
    }
    for (int n = 0; n < k_tile / 8; ++n) {
        const int row = blockIdx.y * k_tile + threadIdx.y + 8 * n;
        if (row < rows && column < columns) out[row * columns + column] = sum[n];
    }
}

/// Every block adds the same tile, from a column on.
__global__ void add_tiles(const __grid_constant__ CUtensorMap map, int column) {
    __shared__ alignas(128) int tile[k_tile][k_tile];
    for (int i = threadIdx.y; i < k_tile; i += blockDim.y) tile[i][threadIdx.x] = i * k_tile + threadIdx.x;
    cde::fence_proxy_async_shared_cta();
    __syncthreads();
    if (threadIdx.x != 0 || threadIdx.y != 0) return;
    const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(tile));
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
                 "r"(column), "r"(5), "r"(shared)
                 : "memory");
    cde::cp_async_bulk_commit_group();
    cde::cp_async_bulk_wait_group_read<0>();
}

decltype(&cuTensorMapEncodeTiled) encode;
decltype(&cuTensorMapReplaceAddress) replace_address;

template <typename Function>
void find(const char* name, Function& function) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult status;
    CHECK(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &status));
    EXPECT(status == cudaDriverEntryPointSuccess);
    function = reinterpret_cast<Function>(found);
}

CUresult try_map(CUtensorMap& map, CUtensorMapDataType type, void* address, int width, int height, CUtensorMapSwizzle swizzle,
                 cuuint32_t box = k_tile) {
    const cuuint64_t sizes[] = {cuuint64_t(width), cuuint64_t(height)}, strides[] = {cuuint64_t(width) * 4};
    const cuuint32_t boxes[] = {box, k_tile}, steps[] = {1, 1};
    return encode(&map, type, 2, address, sizes, strides, boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                  CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

CUtensorMap map_of(CUtensorMapDataType type, void* address, int width, int height,
                   CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE) {
    CUtensorMap map{};
    EXPECT_EQ(try_map(map, type, address, width, height, swizzle), CUDA_SUCCESS);
    return map;
}

void transposes() {
    constexpr int k_width = 100, k_height = 76;  // not multiples of a tile
    std::vector<int> in(k_width * k_height);
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<int>(i * 7 + 1);
    DeviceArray<int> from(in), to(in.size()), other(in.size());
    CUtensorMap in_map = map_of(CU_TENSOR_MAP_DATA_TYPE_INT32, from.data(), k_width, k_height, CU_TENSOR_MAP_SWIZZLE_128B);
    CUtensorMap out_map = map_of(CU_TENSOR_MAP_DATA_TYPE_INT32, to.data(), k_height, k_width, CU_TENSOR_MAP_SWIZZLE_128B);
    const dim3 grid((k_width + k_tile - 1) / k_tile, (k_height + k_tile - 1) / k_tile), block(k_tile, 8);
    for (DeviceArray<int>* result : {&to, &other}) {
        EXPECT_EQ(replace_address(&out_map, result->data()), CUDA_SUCCESS);
        transpose<<<grid, block>>>(in_map, out_map);
        CHECK(cudaDeviceSynchronize());
        const std::vector<int> out = result->download();
        for (int y = 0; y < k_height; ++y)
            for (int x = 0; x < k_width; ++x) EXPECT_EQ(out[x * k_height + y], in[y * k_width + x]);
    }
}

void multiplies() {
    constexpr int k_rows = 50, k_columns = 72, k_depth = 44;
    std::vector<float> a(k_rows * k_depth), b(k_depth * k_columns);
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 13) - 6;
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 11) - 5;
    DeviceArray<float> left(a), right(b), out(size_t{k_rows} * k_columns);
    const CUtensorMap maps[] = {map_of(CU_TENSOR_MAP_DATA_TYPE_FLOAT32, left.data(), k_depth, k_rows),
                                map_of(CU_TENSOR_MAP_DATA_TYPE_FLOAT32, right.data(), k_columns, k_depth)};
    CHECK(cudaMemcpyToSymbol(c_left, &maps[0], sizeof maps[0]));
    CUtensorMap* right_map = nullptr;
    CHECK(cudaMalloc(&right_map, sizeof *right_map));
    CHECK(cudaMemcpy(right_map, &maps[1], sizeof maps[1], cudaMemcpyHostToDevice));
    const dim3 grid((k_columns + k_tile - 1) / k_tile, (k_rows + k_tile - 1) / k_tile);
    product<<<grid, dim3(k_tile, 8)>>>(right_map, out.data(), k_rows, k_columns, k_depth);
    CHECK(cudaDeviceSynchronize());
    const std::vector<float> found = out.download();
    for (int row = 0; row < k_rows; ++row)
        for (int column = 0; column < k_columns; ++column) {
            float sum = 0;
            for (int k = 0; k < k_depth; ++k) sum += a[row * k_depth + k] * b[k * k_columns + column];
            EXPECT_EQ(found[row * k_columns + column], sum);
        }
    CHECK(cudaFree(right_map));
}

void adds() {
    constexpr int k_height = 40, k_blocks = 6;
    for (const int width : {64, 24}) {  // the tile is wider than the second tensor
        DeviceArray<int> sums(std::vector<int>(width * k_height, 1));
        add_tiles<<<k_blocks, dim3(k_tile, 8)>>>(map_of(CU_TENSOR_MAP_DATA_TYPE_INT32, sums.data(), width, k_height), 4);
        CHECK(cudaDeviceSynchronize());
        const std::vector<int> found = sums.download();
        for (int y = 0; y < k_height; ++y)
            for (int x = 0; x < width; ++x) {
                const bool inside = x >= 4 && x < 4 + k_tile && y >= 5 && y < 5 + k_tile;
                EXPECT_EQ(found[y * width + x], 1 + (inside ? k_blocks * ((y - 5) * k_tile + x - 4) : 0));
            }
    }
    // Sums begin at a multiple of 16 bytes. It is the last thing that this context is given.
    DeviceArray<int> sums(std::vector<int>(64 * k_height, 1));
    add_tiles<<<1, dim3(k_tile, 8)>>>(map_of(CU_TENSOR_MAP_DATA_TYPE_INT32, sums.data(), 64, k_height), 3);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalInstruction);
}

void refuses() {
    DeviceArray<float> memory(4096);
    CUtensorMap map{};
    auto* misaligned = reinterpret_cast<char*>(memory.data()) + 8;
    const auto f32 = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    EXPECT_EQ(try_map(map, f32, misaligned, 32, 32, CU_TENSOR_MAP_SWIZZLE_NONE), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(try_map(map, f32, memory.data(), 33, 32, CU_TENSOR_MAP_SWIZZLE_NONE), CUDA_ERROR_INVALID_VALUE);  // stride
    EXPECT_EQ(try_map(map, f32, memory.data(), 32, 32, CU_TENSOR_MAP_SWIZZLE_64B), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(try_map(map, f32, memory.data(), 32, 32, CU_TENSOR_MAP_SWIZZLE_NONE, 257), CUDA_ERROR_INVALID_VALUE);
}

/// Programs make the same maps in each step. Of other memory they are others, and of memory that is gone as well.
void repeats() {
    DeviceArray<float> memory(4096), other(4096);
    const auto f32 = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    const CUtensorMap first = map_of(f32, memory.data(), 32, 32), second = map_of(f32, other.data(), 32, 32);
    const CUtensorMap wider = map_of(f32, memory.data(), 64, 32);
    EXPECT(std::memcmp(&first, &second, sizeof first) != 0);
    EXPECT(std::memcmp(&first, &wider, sizeof first) != 0);
    for (int step = 0; step < 100; ++step) {
        CUtensorMap again = map_of(f32, memory.data(), 32, 32);
        EXPECT_EQ(std::memcmp(&again, &first, sizeof first), 0);
        EXPECT_EQ(replace_address(&again, other.data()), CUDA_SUCCESS);
        EXPECT_EQ(std::memcmp(&again, &second, sizeof first), 0);
        EXPECT_EQ(try_map(again, f32, memory.data(), 64, 32, CU_TENSOR_MAP_SWIZZLE_NONE), CUDA_SUCCESS);
        EXPECT_EQ(std::memcmp(&again, &wider, sizeof first), 0);
    }
}

int main(int argc, char** argv) {
    CHECK(cudaFree(nullptr));
    find("cuTensorMapEncodeTiled", encode);
    find("cuTensorMapReplaceAddress", replace_address);
    if (argc > 1 && std::strcmp(argv[1], "sums") == 0) {
        adds();
        return passed("sums by tensor maps");
    }
    transposes();
    multiplies();
    repeats();
    refuses();
    return passed("tensor maps");
}
