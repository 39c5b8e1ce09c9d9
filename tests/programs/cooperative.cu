// Cooperative groups: tiles, coalesced groups, and a grid that synchronises with itself.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "check.h"

namespace cg = cooperative_groups;

__global__ void tiles(const int* in, int* out, int n) {
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = i < n ? in[i] : 0;
    int sum = cg::reduce(tile, value, cg::plus<int>());
    if (tile.thread_rank() == 0) out[i / 8] = sum;
    if (value % 2) {
        auto odd = cg::coalesced_threads();
        if (odd.thread_rank() == 0) atomicAdd(&out[n / 8], odd.size());
    }
}

__global__ void grid_steps(int* data, int n, int steps) {
    auto grid = cg::this_grid();
    for (int step = 0; step < steps; ++step) {
        for (unsigned long long i = grid.thread_rank(); i < n; i += grid.size()) {
            int left = data[(step % 2) * n + (i + n - 1) % n], right = data[(step % 2) * n + (i + 1) % n];
            data[((step + 1) % 2) * n + i] = left + right;
        }
        grid.sync();
    }
}

int main() {
    const int n = 512;
    std::vector<int> in(n);
    Random random(31);
    int odd = 0;
    for (auto& x : in) x = static_cast<int>(random.next() % 100), odd += x % 2;
    DeviceArray<int> din(in), dout(std::vector<int>(n / 8 + 1, 0));
    tiles<<<n / 128, 128>>>(din.data(), dout.data(), n);
    CHECK(cudaGetLastError());
    auto out = dout.download();
    for (int t = 0; t < n / 8; ++t) {
        int sum = 0;
        for (int k = 0; k < 8; ++k) sum += in[t * 8 + k];
        EXPECT_EQ(out[t], sum);
    }
    EXPECT_EQ(out[n / 8], odd);

    int supported = 0, per_sm = 0;
    CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrCooperativeLaunch, 0));
    EXPECT_EQ(supported, 1);
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, grid_steps, 32, 0));
    int blocks = std::min(4, per_sm * properties.multiProcessorCount), size = 100, steps = 9;
    std::vector<int> state(2 * size, 0);
    for (int i = 0; i < size; ++i) state[i] = i % 3;
    DeviceArray<int> dstate(state);
    int* pointer = dstate.data();
    void* arguments[] = {&pointer, &size, &steps};
    CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(grid_steps), blocks, 32, arguments));
    CHECK(cudaDeviceSynchronize());
    std::vector<int> expected(state.begin(), state.begin() + size), next(size);
    for (int step = 0; step < steps; ++step) {
        for (int i = 0; i < size; ++i) next[i] = expected[(i + size - 1) % size] + expected[(i + 1) % size];
        expected = next;
    }
    auto got = dstate.download();
    for (int i = 0; i < size; ++i) EXPECT_EQ(got[(steps % 2) * size + i], expected[i]);
    void* too_many[] = {&pointer, &size, &steps};
    EXPECT_EQ(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(grid_steps), 1000000, 32, too_many), cudaErrorCooperativeLaunchTooLarge);
    cudaGetLastError();
    return passed("cooperative groups");
}
