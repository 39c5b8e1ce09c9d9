// Much registered memory of which kernels change a little, at other places each time, and all of it now and then (A7): what they
// change is found, also beside a running kernel, and what they leave alone does not travel.
#include <string>
#include <vector>

#include "shared_memory.h"

static const int k_n = (4 << 20) / sizeof(int) + 77;  // the last part is a short one

__global__ void set(int* data, int where, int what) { data[where] = what; }
// Writes all over the memory, one word after the other, each when the program has seen the one before.
__global__ void step_through(volatile int* data, int n, int stride, volatile int* seen) {
    for (int at = 0; at < n; at += stride) {
        data[at] = at + 1;
        __threadfence_system();
        while (*seen != at + 1) {
        }
    }
}

static void parts() {
    std::vector<int> memory(k_n + 1);
    int *data = memory.data() + 1, *device;  // at an odd place
    for (int i = 0; i < k_n; ++i) data[i] = i;
    CHECK(cudaHostRegister(data, k_n * sizeof(int), cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(&device, data, 0));
    std::vector<int> expected(data, data + k_n);
    const auto check = [&] {
        CHECK(cudaDeviceSynchronize());
        EXPECT(std::equal(expected.begin(), expected.end(), data));
    };
    for (int round = 0; round < 20; ++round) {
        const int at = round == 19 ? k_n - 1 : round * 54321 % k_n;
        set<<<1, 1>>>(device, at, -round);
        expected[at] = -round;
        check();
        // The program changes what is nobody else's.
        const int own = (at + 40000) % k_n;
        data[own] = expected[own] = 7 * round;
    }
    add<<<64, 128>>>(device, k_n, 3);
    for (int& one : expected) one += 3;
    check();
    set<<<1, 1>>>(device, 5, 1);
    expected[5] = 1;
    check();
    CHECK(cudaHostUnregister(data));
}

static void beside() {
    std::vector<int> memory(k_n);
    int *device, *seen, *device_seen;
    CHECK(cudaHostRegister(memory.data(), k_n * sizeof(int), cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(&device, memory.data(), 0));
    CHECK(cudaHostAlloc(&seen, sizeof *seen, cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer(&device_seen, seen, 0));
    *seen = 0;
    const int stride = k_n / 20;
    step_through<<<1, 1>>>(device, k_n, stride, device_seen);
    CHECK(cudaGetLastError());
    volatile int* data = memory.data();
    for (int at = 0; at < k_n; at += stride) {
        while (data[at] != at + 1) {
        }
        *static_cast<volatile int*>(seen) = at + 1;
    }
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < k_n; ++i) EXPECT_EQ(memory[i], i % stride == 0 ? i + 1 : 0);
    CHECK(cudaHostUnregister(memory.data()));
    CHECK(cudaFreeHost(seen));
}

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "parts";
    if (what == "parts")
        parts();
    else if (what == "beside")
        beside();
    else
        return 2;
    return passed(what.c_str());
}
