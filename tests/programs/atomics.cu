// Atomics on global and shared memory, of every kind, and a lock.
#include "check.h"

__global__ void histogram(const unsigned char* data, int n, unsigned* bins) {
    __shared__ unsigned local[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[data[i]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[i], local[i]);
}

__global__ void kinds(int* i, unsigned* u, unsigned long long* l, float* f, double* d) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&i[0], t);
    atomicSub(&i[1], t);
    atomicMin(&i[2], 100 - t);
    atomicMax(&i[3], t - 100);
    atomicAnd(&u[0], ~(1u << (t % 32)));
    atomicOr(&u[1], 1u << (t % 20));
    atomicXor(&u[2], 1u << (t % 32));
    atomicInc(&u[3], 99u);
    atomicDec(&u[4], 49u);
    atomicAdd(&l[0], 1ull << 33);
    atomicMax(&l[1], static_cast<unsigned long long>(t) << 32);
    atomicAdd(&f[0], 0.5f);
    atomicAdd(&d[0], 0.25);
    float old = f[1], assumed;
    do {
        assumed = old;
        old = __int_as_float(atomicCAS(reinterpret_cast<int*>(&f[1]), __float_as_int(assumed), __float_as_int(fmaxf(assumed, t * 2.0f))));
    } while (__float_as_int(old) != __float_as_int(assumed));
}

__global__ void locked(int* lock, int* value) {
    for (int tries = 0; tries < 3; ++tries) {
        bool done = false;
        while (!done) {
            if (atomicExch(lock, 1) == 0) {
                __threadfence();
                *reinterpret_cast<volatile int*>(value) += 1;
                __threadfence();
                atomicExch(lock, 0);
                done = true;
            }
        }
    }
}

int main() {
    const int n = 50000;
    std::vector<unsigned char> data(n);
    std::vector<unsigned> expected(256, 0);
    Random random(5);
    for (auto& x : data) x = static_cast<unsigned char>(random.next() % 256), ++expected[x];
    DeviceArray<unsigned char> ddata(data);
    DeviceArray<unsigned> dbins(std::vector<unsigned>(256, 0));
    histogram<<<20, 128>>>(ddata.data(), n, dbins.data());
    CHECK(cudaGetLastError());
    auto bins = dbins.download();
    for (int i = 0; i < 256; ++i) EXPECT_EQ(bins[i], expected[i]);

    DeviceArray<int> di(std::vector<int>{0, 0, 1000, -1000});
    DeviceArray<unsigned> du(std::vector<unsigned>{0xffffffffu, 0, 0, 0, 0});
    DeviceArray<unsigned long long> dl(std::vector<unsigned long long>{0, 0});
    DeviceArray<float> df(std::vector<float>{0, 0});
    DeviceArray<double> dd(std::vector<double>{0});
    const int threads = 4 * 96;
    kinds<<<4, 96>>>(di.data(), du.data(), dl.data(), df.data(), dd.data());
    CHECK(cudaGetLastError());
    const int sum = threads * (threads - 1) / 2;
    EXPECT_EQ(di.download()[0], sum);
    EXPECT_EQ(di.download()[1], -sum);
    EXPECT_EQ(di.download()[2], 100 - (threads - 1));
    EXPECT_EQ(di.download()[3], threads - 1 - 100);
    EXPECT_EQ(du.download()[0], 0u);
    EXPECT_EQ(du.download()[1], 0xfffffu);
    EXPECT_EQ(du.download()[2], threads / 32 % 2 ? 0xffffffffu : 0u);
    EXPECT_EQ(du.download()[3], static_cast<unsigned>(threads % 100));
    EXPECT_EQ(du.download()[4], static_cast<unsigned>((50 - threads % 50) % 50));
    EXPECT(dl.download()[0] == static_cast<unsigned long long>(threads) << 33);
    EXPECT(dl.download()[1] == static_cast<unsigned long long>(threads - 1) << 32);
    EXPECT_EQ(df.download()[0], threads * 0.5f);
    EXPECT_EQ(df.download()[1], (threads - 1) * 2.0f);
    EXPECT_EQ(dd.download()[0], threads * 0.25);

    DeviceArray<int> dlock(std::vector<int>{0}), dvalue(std::vector<int>{0});
    locked<<<3, 64>>>(dlock.data(), dvalue.data());
    CHECK(cudaGetLastError());
    EXPECT_EQ(dvalue.download()[0], 3 * 64 * 3);
    return passed("atomics");
}
