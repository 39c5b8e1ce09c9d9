// Warp collectives: shuffles of all kinds, votes, match, reductions, with partial masks and divergence.
#include "check.h"

__global__ void reduce(const int* in, int* out, int n) {
    __shared__ int warp_sums[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = i < n ? in[i] : 0;
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffffu, value, offset);
    if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x < 32) {
        value = threadIdx.x < blockDim.x / 32 ? warp_sums[threadIdx.x] : 0;
        for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
        if (threadIdx.x == 0) atomicAdd(out, value);
    }
}

__global__ void collectives(unsigned* out) {
    unsigned lane = threadIdx.x;
    out[lane] = __ballot_sync(0xffffffffu, lane % 3 == 0);
    out[32 + lane] = __any_sync(0xffffffffu, lane == 31) + 2 * __all_sync(0xffffffffu, lane < 31);
    out[64 + lane] = __match_any_sync(0xffffffffu, lane / 5);
    out[96 + lane] = __shfl_up_sync(0xffffffffu, lane * 10, 3, 16);
    if (lane % 2) {
        unsigned mask = __activemask();
        out[128 + lane] = __shfl_sync(mask, lane, 1) + (__popc(mask) << 8);
    } else {
        out[128 + lane] = __popc(__ballot_sync(0x55555555u, lane > 15));
    }
    __syncwarp();
    out[160 + lane] = __shfl_sync(0xffffffffu, out[lane] + lane, (lane + 1) % 32);
    double wide = __shfl_xor_sync(0xffffffffu, lane * 0.5, 1);
    out[192 + lane] = static_cast<unsigned>(wide * 2);
}

__global__ void inclusive_scan(int* data) {
    int value = data[threadIdx.x];
    for (int offset = 1; offset < 32; offset *= 2) {
        int other = __shfl_up_sync(0xffffffffu, value, offset);
        if (threadIdx.x % 32 >= offset) value += other;
    }
    data[threadIdx.x] = value;
}

// Eight lanes reduce over the whole warp's distance: what the others would give counts as 0.
__global__ void reduce_few(int* out) {
    int value = static_cast<int>(threadIdx.x) + 100;
    const unsigned members = __ballot_sync(~0u, threadIdx.x < 8);
    if (threadIdx.x < 8) {
        for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(members, value, offset);
    }
    if (threadIdx.x == 0) *out = value;
}

int main() {
    const int n = 10000;
    std::vector<int> in(n);
    Random random(3);
    int expected = 0;
    for (auto& x : in) x = static_cast<int>(random.next() % 1000) - 500, expected += x;
    DeviceArray<int> din(in), dout(std::vector<int>{0});
    reduce<<<(n + 255) / 256, 256>>>(din.data(), dout.data(), n);
    CHECK(cudaGetLastError());
    EXPECT_EQ(dout.download()[0], expected);

    DeviceArray<unsigned> dwarp(224);
    collectives<<<1, 32>>>(dwarp.data());
    CHECK(cudaGetLastError());
    auto out = dwarp.download();
    unsigned ballot = 0;
    for (unsigned lane = 0; lane < 32; lane += 3) ballot |= 1u << lane;
    for (unsigned lane = 0; lane < 32; ++lane) {
        EXPECT_EQ(out[lane], ballot);
        EXPECT_EQ(out[32 + lane], 1u);
        unsigned match = 0;
        for (unsigned other = 0; other < 32; ++other) match |= (other / 5 == lane / 5 ? 1u : 0u) << other;
        EXPECT_EQ(out[64 + lane], match);
        EXPECT_EQ(out[96 + lane], (lane % 16 >= 3 ? lane - 3 : lane) * 10);
        EXPECT_EQ(out[128 + lane], lane % 2 ? 1u + (16u << 8) : 8u);
        EXPECT_EQ(out[160 + lane], ballot + (lane + 1) % 32);
        EXPECT_EQ(out[192 + lane], lane ^ 1u);
    }

    DeviceArray<int> dfew(std::vector<int>{0});
    reduce_few<<<1, 32>>>(dfew.data());
    CHECK(cudaGetLastError());
    EXPECT_EQ(dfew.download()[0], 828);

    std::vector<int> scan(128, 1);
    DeviceArray<int> dscan(scan);
    inclusive_scan<<<1, 128>>>(dscan.data());
    scan = dscan.download();
    for (int i = 0; i < 128; ++i) EXPECT_EQ(scan[i], i % 32 + 1);
    return passed("warp collectives");
}
