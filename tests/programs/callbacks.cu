// Host functions and stream callbacks run in stream order, and the stream waits for them. `threads`: each thread waits for the
// callback of its own stream, and frees what that has used while others add theirs; none is lost.
#include <atomic>
#include <future>
#include <string>
#include <thread>

#include "check.h"

__global__ void set(int* data, int value) { *data = value; }
__global__ void copy(int* to, const int* from) { *to = *from; }

struct Order {
    std::atomic<int> next{0};
    int seen[8] = {};
};
static void CUDART_CB host_function(void* data) {
    auto* order = static_cast<Order*>(data);
    order->seen[order->next.fetch_add(1)] = 1;
}
static void CUDART_CB stream_callback(cudaStream_t, cudaError_t status, void* data) {
    auto* order = static_cast<Order*>(data);
    order->seen[order->next.fetch_add(1)] = status == cudaSuccess ? 2 : -1;
}

static void CUDART_CB tell(cudaStream_t, cudaError_t, void* done) { static_cast<std::promise<void>*>(done)->set_value(); }

static void wait_for_own_callback(int value) {
    cudaStream_t stream;
    int *data, *host;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&data, sizeof(int)));
    CHECK(cudaMallocHost(&host, sizeof(int)));
    std::promise<void> done;
    set<<<1, 1, 0, stream>>>(data, value);
    CHECK(cudaMemcpyAsync(host, data, sizeof(int), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamAddCallback(stream, tell, &done, 0));
    done.get_future().wait();
    EXPECT_EQ(*host, value);
    CHECK(cudaFreeHost(host));
    CHECK(cudaFree(data));
    CHECK(cudaStreamDestroy(stream));
}

static int threads() {
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i)
        threads.emplace_back([i] {
            for (int round = 0; round < 60; ++round) wait_for_own_callback(round * 8 + i);
        });
    for (std::thread& thread : threads) thread.join();
    return passed("callbacks");
}

int main(int argc, char** argv) {
    if (argc > 1 && std::string(argv[1]) == "threads") return threads();
    Order order;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    int *data, *host;
    CHECK(cudaMalloc(&data, 2 * sizeof(int)));
    CHECK(cudaMallocHost(&host, 2 * sizeof(int)));
    for (int round = 0; round < 4; ++round) {
        set<<<1, 1, 0, stream>>>(data, round + 10);
        CHECK(cudaMemcpyAsync(host, data, sizeof(int), cudaMemcpyDeviceToHost, stream));
        if (round % 2 == 0)
            CHECK(cudaLaunchHostFunc(stream, host_function, &order));
        else
            CHECK(cudaStreamAddCallback(stream, stream_callback, &order, 0));
        copy<<<1, 1, 0, stream>>>(data + 1, data);
    }
    CHECK(cudaMemcpyAsync(host + 1, data + 1, sizeof(int), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(order.next.load(), 4);
    for (int round = 0; round < 4; ++round) EXPECT_EQ(order.seen[round], round % 2 == 0 ? 1 : 2);
    EXPECT_EQ(host[0], 13);
    EXPECT_EQ(host[1], 13);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(data));
    CHECK(cudaFreeHost(host));
    return passed("callbacks");
}
