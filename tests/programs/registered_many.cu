// Many small pieces of registered memory (A7, B2): what the device has changed of them comes with few questions, however many there
// are and whichever of them kernels use, also while another thread registers memory and takes it back.
//   registered_many waits|threads|steps
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

__global__ void bump(int* data, int what) { data[threadIdx.x] += what; }

static const int k_pieces = 40, k_ints = 12, k_stride = 4096 / sizeof(int) / 4, k_rounds = 10;
static int g_area[k_pieces * k_stride], g_other[k_pieces * k_stride];

static std::vector<int*> register_all(int* area) {
    std::vector<int*> device(k_pieces);
    for (int i = 0; i < k_pieces; ++i) {
        CHECK(cudaHostRegister(area + i * k_stride, k_ints * sizeof(int), cudaHostRegisterMapped));
        CHECK(cudaHostGetDevicePointer(&device[i], area + i * k_stride, 0));
    }
    return device;
}

static void unregister_all(int* area) {
    for (int i = 0; i < k_pieces; ++i) CHECK(cudaHostUnregister(area + i * k_stride));
}

// Each round uses as many pieces as its number says.
static void use(int rounds) {
    const std::vector<int*> device = register_all(g_area);
    std::vector<int> expected(k_pieces, 0);
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int round = 0; round < rounds; ++round) {
        for (int i = 0; i <= round % k_pieces; ++i) {
            bump<<<1, k_ints, 0, stream>>>(device[i], round + 1);
            expected[i] += round + 1;
        }
        CHECK(cudaStreamSynchronize(stream));
        for (int i = 0; i < k_pieces; ++i)
            for (int k = 0; k < k_ints; ++k) EXPECT_EQ(g_area[i * k_stride + k], expected[i]);
    }
    CHECK(cudaStreamDestroy(stream));
    unregister_all(g_area);
}

// Steps that change a little on both sides, and end with a wait for the device or for a stream: it brings what the device has.
static void steps() {
    int* device;
    CHECK(cudaHostRegister(g_area, 4096, cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(&device, g_area, 0));
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    int expected = 0;
    for (int step = 0; step < 100; ++step) {
        g_area[5] += 2;
        const bool whole = step < 50;
        bump<<<1, k_ints, 0, whole ? nullptr : stream>>>(device, step);
        expected += 2 + step;
        CHECK(whole ? cudaDeviceSynchronize() : cudaStreamSynchronize(stream));
        EXPECT_EQ(g_area[5], expected);
    }
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaHostUnregister(g_area));
}

int main(int argc, char** argv) {
    if (argc < 2) return 2;
    std::atomic<bool> done{false};
    std::thread other;
    if (argv[1] == std::string("threads")) {
        other = std::thread([&] {
            while (!done.load()) {
                const std::vector<int*> device = register_all(g_other);
                bump<<<1, k_ints>>>(device[k_pieces - 1], 1);
                CHECK(cudaGetLastError());
                unregister_all(g_other);
            }
        });
        use(40 * k_rounds);
        done.store(true);
        other.join();
    } else if (argv[1] == std::string("steps")) {
        steps();
    } else {
        use(k_rounds);
    }
    return passed("many registered pieces");
}
