// Managed memory that is attached to streams: each side has it whatever other streams are doing (A7). An access that waits for
// all of them gives up after two seconds; each is a cuCtxSynchronize more than waits.toml allows.
#include <thread>

#include "check.h"

constexpr int k_large = 1 << 20, k_page = 1024;

__global__ void add(int* data, int n, int what) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) data[i] += what;
}
// Runs until somebody writes a value that is not 0.
__global__ void hold(volatile int* gate) {
    while (*gate == 0) {
    }
}

/// A stream that is busy until the end of it.
struct Busy {
    cudaStream_t stream, opener;
    DeviceArray<int> gate{1};

    Busy() {
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        CHECK(cudaStreamCreateWithFlags(&opener, cudaStreamNonBlocking));
        CHECK(cudaMemset(gate.data(), 0, sizeof(int)));
        CHECK(cudaDeviceSynchronize());
        hold<<<1, 1, 0, stream>>>(gate.data());
    }
    void end() {
        const int open = 1;
        EXPECT(cudaStreamQuery(stream) == cudaErrorNotReady);
        CHECK(cudaMemcpyAsync(gate.data(), &open, sizeof open, cudaMemcpyHostToDevice, opener));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaStreamDestroy(stream));
        CHECK(cudaStreamDestroy(opener));
    }
};

static cudaStream_t make_stream() {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static int* allocate(int n, unsigned flags = cudaMemAttachGlobal) {
    int* data;
    CHECK(cudaMallocManaged(&data, n * sizeof(int), flags));
    return data;
}

// In turns with a kernel, beside a stream that does not end.
static void in_turns(int n) {
    int* data = allocate(n);
    for (int i = 0; i < n; ++i) data[i] = i;
    const cudaStream_t stream = make_stream();
    CHECK(cudaStreamAttachMemAsync(stream, data, 0, cudaMemAttachSingle));
    CHECK(cudaStreamSynchronize(stream));
    Busy busy;
    for (int round = 0; round < 5; ++round) {
        add<<<8, 128, 0, stream>>>(data, n, 10);
        CHECK(cudaStreamSynchronize(stream));
        for (int i = 0; i < n; i += 100) EXPECT_EQ(data[i], i + 11 * round + 10);
        for (int i = 0; i < n; ++i) data[i] += 1;
    }
    busy.end();
    // Everybody's again: any stream may use it, and an access waits for all.
    CHECK(cudaStreamAttachMemAsync(stream, data, 0, cudaMemAttachGlobal));
    CHECK(cudaStreamSynchronize(stream));
    add<<<8, 128>>>(data, n, 5);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < n; i += 7) EXPECT_EQ(data[i], i + 60);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(data));
}

// Threads with a stream and memory each, as in CUDA's example.
static void threads() {
    constexpr int k_threads = 3;
    int *small[k_threads], *large[k_threads];
    cudaStream_t streams[k_threads];
    for (int t = 0; t < k_threads; ++t) {
        small[t] = allocate(k_page * (t + 1), cudaMemAttachHost);
        large[t] = allocate(100000, cudaMemAttachHost);
        streams[t] = make_stream();
    }
    Busy busy;
    std::vector<std::thread> all;
    for (int t = 0; t < k_threads; ++t) {
        all.emplace_back([t, stream = streams[t], data = small[t], more = large[t]] {
            for (int i = 0; i < k_page; ++i) data[i] = more[i] = t;
            CHECK(cudaStreamAttachMemAsync(stream, data));
            CHECK(cudaStreamAttachMemAsync(stream, more));
            CHECK(cudaStreamSynchronize(stream));
            for (int round = 0; round < 10; ++round) {
                add<<<2, 64, 0, stream>>>(data, k_page, 1);
                add<<<2, 64, 0, stream>>>(more, k_page, 2);
                CHECK(cudaStreamSynchronize(stream));
                for (int i = 0; i < k_page; ++i) {
                    EXPECT_EQ(data[i], t + 2 * round + 1);
                    EXPECT_EQ(more[i], t + 3 * round + 2);
                    ++data[i];
                    ++more[i];
                }
            }
        });
    }
    for (std::thread& thread : all) thread.join();
    busy.end();
    for (int t = 0; t < k_threads; ++t) {
        CHECK(cudaStreamDestroy(streams[t]));
        CHECK(cudaFree(small[t]));
        CHECK(cudaFree(large[t]));
    }
}

// The host's: no kernel is given it, and the end of the stream that it was attached in brings back what held first.
static void of_the_host() {
    int* data = allocate(k_large);
    for (int i = 0; i < k_large; ++i) data[i] = 1;
    const cudaStream_t stream = make_stream();
    add<<<8, 128, 0, stream>>>(data, k_large, 1);
    CHECK(cudaStreamAttachMemAsync(stream, data, 0, cudaMemAttachHost));
    CHECK(cudaStreamSynchronize(stream));
    Busy busy;
    for (int i = 0; i < k_large; i += 64) EXPECT_EQ(data[i], 2);
    data[3] = 9;
    busy.end();
    CHECK(cudaStreamDestroy(stream));
    add<<<8, 128>>>(data, k_large, 1);
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(data[3], 10);
    EXPECT_EQ(data[k_large - 1], 3);
    CHECK(cudaFree(data));
}

// One stream's, and used by another's work nevertheless, as on devices where both sides may use managed memory at the same
// time.
static void in_another_stream(int n) {
    int* data = allocate(n);
    for (int i = 0; i < n; ++i) data[i] = i;
    const cudaStream_t stream = make_stream(), other = make_stream();
    CHECK(cudaStreamAttachMemAsync(stream, data, 0, cudaMemAttachSingle));
    add<<<8, 128, 0, stream>>>(data, n, 1);
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < n; i += 9) EXPECT_EQ(data[i], i + 1);
    data[5] = 100;
    add<<<8, 128>>>(data, n, 10);
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(data[5], 110);
    EXPECT_EQ(data[n - 1], n + 10);
    CHECK(cudaStreamAttachMemAsync(stream, data, 0, cudaMemAttachSingle));
    add<<<8, 128, 0, stream>>>(data, n, 1);
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(data[6], 18);
    CHECK(cudaMemset(data + 8, 0, 64 * sizeof(int)));
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(data[8], 0);
    EXPECT_EQ(data[71], 0);
    EXPECT_EQ(data[72], 84);
    CHECK(cudaStreamAttachMemAsync(stream, data, 0, cudaMemAttachSingle));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(data[9], 0);
    CHECK(cudaMemcpyAsync(data + 8, data + 80, 64 * sizeof(int), cudaMemcpyDefault, other));
    CHECK(cudaStreamSynchronize(other));
    EXPECT_EQ(data[8], 92);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaStreamDestroy(other));
    CHECK(cudaFree(data));
}

int main() {
    // Code that is loaded while a kernel runs may wait for it.
    DeviceArray<int> any(1);
    add<<<1, 1>>>(any.data(), 1, 1);
    const int open = 1;
    CHECK(cudaMemcpy(any.data(), &open, sizeof open, cudaMemcpyHostToDevice));
    hold<<<1, 1>>>(any.data());
    CHECK(cudaDeviceSynchronize());
    in_turns(k_large);
    in_turns(k_page * 3);
    threads();
    of_the_host();
    in_another_stream(k_large);
    in_another_stream(k_page * 3);
    int* data = allocate(100);
    EXPECT(cudaStreamAttachMemAsync(nullptr, data, 0, cudaMemAttachSingle) == cudaErrorInvalidValue);
    EXPECT(cudaStreamAttachMemAsync(nullptr, data, 16, cudaMemAttachGlobal) == cudaErrorInvalidValue);
    cudaGetLastError();
    CHECK(cudaFree(data));
    return passed("attached memory");
}
