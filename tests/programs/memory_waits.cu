// Memory calls that wait for the device; and memory that runs out. With the argument `frees`: what is freed beside kernels that
// wait for a later call. With `threads` it is another thread that has what the device waits for: a server lets it go on. On
// NVIDIA's driver that had no end (docs/driver-behaviour.md, DB-67).
#include <cstring>
#include <thread>

#include "check.h"

__global__ void wait_for(volatile int* gate) {
    while (*gate == 0) {
    }
}

/// Writes to the gate after a while, in which a call begins to wait.
__global__ void open_later(int* gate) {
    for (volatile int i = 0; i < 20000; i = i + 1) {
    }
    *gate = 1;
}

static bool g_other_threads = false;

struct Gate {
    int* flag = nullptr;
    int* one = nullptr;
    cudaStream_t stream = nullptr;
    Gate() {
        CHECK(cudaMalloc(&flag, sizeof(int)));
        CHECK(cudaMallocHost(&one, sizeof(int)));
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        *one = 1;
        open_itself();  // loads the kernel, which waits for the device (docs/driver-behaviour.md, DB-15)
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemset(flag, 0, sizeof(int)));
        CHECK(cudaDeviceSynchronize());
    }
    void open() const { CHECK(cudaMemcpyAsync(flag, one, sizeof(int), cudaMemcpyHostToDevice, stream)); }
    void open_itself() const {
        open_later<<<1, 1, 0, stream>>>(flag);
        CHECK(cudaGetLastError());
    }
    ~Gate() {
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaStreamDestroy(stream));
        CHECK(cudaFreeHost(one));
        CHECK(cudaFree(flag));
    }
};

/// `waiting` cannot end before the gate is open: the device opens it, or a thread that begins only now.
template <typename Waiting>
static void with_gate(cudaStream_t stream, Waiting waiting) {
    Gate gate;
    wait_for<<<1, 1, 0, stream>>>(gate.flag);
    CHECK(cudaGetLastError());
    if (g_other_threads) {
        std::thread other([&] { gate.open(); });
        waiting();
        other.join();
    } else {
        gate.open_itself();
        waiting();
    }
    CHECK(cudaDeviceSynchronize());
}

static void copies() {
    const std::vector<char> bytes(300000, 'c');
    char* device = nullptr;
    CHECK(cudaMalloc(&device, bytes.size()));
    with_gate(nullptr, [&] { CHECK(cudaMemcpy(device, bytes.data(), bytes.size(), cudaMemcpyHostToDevice)); });
    std::vector<char> back(bytes.size());
    CHECK(cudaMemcpy(back.data(), device, bytes.size(), cudaMemcpyDeviceToHost));
    EXPECT(back == bytes);
    with_gate(nullptr, [&] { CHECK(cudaMemcpy2D(device, 1000, bytes.data(), 500, 500, 100, cudaMemcpyHostToDevice)); });
    CHECK(cudaFree(device));
}

static void frees() {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    for (size_t bytes : {size_t{1000}, size_t{8} << 20}) {
        void *first = nullptr, *second = nullptr;
        CHECK(cudaMalloc(&first, bytes));
        with_gate(stream, [&] { CHECK(cudaFree(first)); });
        CHECK(cudaMalloc(&second, bytes));
        CHECK(cudaMemset(second, 7, bytes));
        CHECK(cudaFree(second));
    }
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFreeHost(nullptr));
    CHECK(cudaFree(nullptr));
}

/// What was freed is given back at a moment at which no kernel can wait for a call that the free keeps out: neither later, beside
/// the next kernel, nor where a stream's memory goes beside a kernel of another one.
static void frees_beside_kernels() {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int round = 0; round < 100; ++round) {
        int *freed = nullptr, *pooled = nullptr;
        CHECK(cudaMalloc(&freed, size_t{4} << 20));
        CHECK(cudaMallocAsync(&pooled, size_t{4} << 20, stream));
        CHECK(cudaMemsetAsync(pooled, 1, 1000, stream));
        CHECK(cudaMemset(freed, 1, 1000));
        CHECK(cudaFree(freed));
        Gate gate;
        wait_for<<<1, 1>>>(gate.flag);
        CHECK(cudaGetLastError());
        CHECK(cudaFreeAsync(pooled, stream));
        CHECK(cudaStreamSynchronize(stream));
        gate.open_itself();
        CHECK(cudaDeviceSynchronize());
    }
    CHECK(cudaStreamDestroy(stream));
}

/// What a pool keeps is there for those who find no other memory.
static void kept_by_a_pool() {
    cudaMemPool_t pool;
    cudaStream_t stream;
    uint64_t threshold = UINT64_MAX;
    size_t free_bytes = 0, total_bytes = 0;
    void *kept = nullptr, *more = nullptr;
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    CHECK(cudaMallocAsync(&kept, free_bytes / 2, stream));
    CHECK(cudaMemsetAsync(kept, 1, 1000, stream));
    CHECK(cudaFreeAsync(kept, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMalloc(&more, free_bytes / 10 * 8));
    CHECK(cudaMemset(more, 1, 1000));
    CHECK(cudaFree(more));
    CHECK(cudaStreamDestroy(stream));
}

/// What is not there is refused by the call that asks for it, and given once there is room.
static void runs_out() {
    size_t free_bytes = 0, total_bytes = 0, now = 0;
    CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    void *most = nullptr, *more = nullptr;
    CHECK(cudaMalloc(&most, free_bytes / 10 * 9));
    EXPECT_EQ(cudaMalloc(&more, free_bytes / 10 * 2), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(most));
    CHECK(cudaMalloc(&more, free_bytes / 10 * 8));
    CHECK(cudaMemset(more, 1, 1000));
    CHECK(cudaFree(more));
    CHECK(cudaMemGetInfo(&now, &total_bytes));
    // But for what other processes, or a server's workers, have taken meanwhile.
    EXPECT(now + (size_t{8} << 20) + total_bytes / 50 >= free_bytes);
    // In small pieces, which nobody waits for, until the device says no.
    std::vector<void*> pieces;
    CHECK(cudaMalloc(&most, free_bytes / 100 * 97));
    for (;;) {
        const cudaError_t result = cudaMalloc(&more, size_t{8} << 20);
        if (result == cudaErrorMemoryAllocation) break;
        CHECK(result);
        pieces.push_back(more);
        EXPECT(pieces.size() * (size_t{8} << 20) <= free_bytes / 10);
    }
    EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
    CHECK(cudaDeviceSynchronize());
    for (void* piece : pieces) CHECK(cudaFree(piece));
    CHECK(cudaFree(most));
}

/// Many allocations and frees with work in between, in streams that do not wait for each other: no piece is anybody else's.
__global__ void fill(int* data, int count, int value) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) data[i] = value;
}
static void reuse() {
    constexpr int k_count = 1000, k_rounds = 200;
    cudaStream_t streams[4];
    for (auto& stream : streams) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    int* results = nullptr;
    CHECK(cudaMalloc(&results, k_rounds * k_count * sizeof(int)));
    for (int i = 0; i < k_rounds; ++i) {
        int* data = nullptr;
        CHECK(cudaMalloc(&data, k_count * sizeof(int)));
        fill<<<1, 32, 0, streams[i % 4]>>>(data, k_count, i);
        CHECK(cudaMemcpyAsync(results + i * k_count, data, k_count * sizeof(int), cudaMemcpyDeviceToDevice, streams[i % 4]));
        CHECK(cudaFree(data));
    }
    CHECK(cudaDeviceSynchronize());
    std::vector<int> got(static_cast<size_t>(k_rounds) * k_count);
    CHECK(cudaMemcpy(got.data(), results, got.size() * sizeof(int), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], static_cast<int>(i / k_count));
    for (auto& stream : streams) CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(results));
}

/// Memory that another stream frees while one is captured: the capture goes on.
static void capture() {
    cudaStream_t stream, other;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    int *kept = nullptr, *freed = nullptr;
    CHECK(cudaMalloc(&kept, 1000 * sizeof(int)));
    CHECK(cudaMallocAsync(&freed, size_t{8} << 20, other));
    fill<<<1, 32, 0, other>>>(freed, 1000, 1);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    fill<<<1, 32, 0, stream>>>(kept, 1000, 5);
    CHECK(cudaFreeAsync(freed, other));
    CHECK(cudaStreamSynchronize(other));
    fill<<<1, 32, 0, stream>>>(kept, 500, 6);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    std::vector<int> got(1000);
    CHECK(cudaMemcpy(got.data(), kept, 1000 * sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(got[i], i < 500 ? 6 : 5);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaStreamDestroy(other));
    CHECK(cudaFree(kept));
}

int main(int argc, char** argv) {
    if (argc > 1 && std::strcmp(argv[1], "frees") == 0) {
        frees_beside_kernels();
        kept_by_a_pool();
        return passed("frees beside kernels");
    }
    g_other_threads = argc > 1 && std::strcmp(argv[1], "threads") == 0;
    copies();
    frees();
    if (g_other_threads) return passed("memory calls that wait for other threads");
    runs_out();
    reuse();
    capture();
    std::printf("memory calls that wait: verified\n");
}
