// The smallest whole program: two copies in, one kernel, one copy out.
#include "check.h"

__global__ void add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

int main() {
    const int n = 100003;
    std::vector<float> a(n), b(n);
    Random random(1);
    for (int i = 0; i < n; ++i) a[i] = random.uniform(), b[i] = random.uniform();
    DeviceArray<float> da(a), db(b), dc(n);
    add<<<(n + 255) / 256, 256>>>(da.data(), db.data(), dc.data(), n);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    auto c = dc.download();
    for (int i = 0; i < n; ++i) EXPECT_EQ(c[i], a[i] + b[i]);
    return passed("vector addition");
}
