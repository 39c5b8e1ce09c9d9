// Threads that are cancelled while they are in calls of CUDA's, which are no cancellation points: each goes behind the call, and
// takes nothing with it that the others need (A3).
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <atomic>

#include "check.h"

__global__ void add(int* out, int count) {
    for (int i = 0; i < count; ++i) out[0] += i;
}

static constexpr size_t k_size = 1 << 20;
static std::atomic<int> g_begun{0};

// What a call is in while it is cancelled is left to chance, and so there are many.
static void* work(void* argument) {
    const int kind = *static_cast<int*>(argument);
    int* device = nullptr;
    static char host[k_size];
    CHECK(cudaMalloc(&device, k_size));
    for (int i = 0;; ++i) {
        if (kind == 0) {
            add<<<1, 1, 0, cudaStreamPerThread>>>(device, 20000);
            CHECK(cudaStreamSynchronize(cudaStreamPerThread));
        } else if (kind == 1) {
            for (int k = 0; k < 300; ++k) add<<<1, 1, 0, cudaStreamPerThread>>>(device, 1);
        } else if (kind == 2) {
            CHECK(cudaMemcpy(device, host, k_size, cudaMemcpyHostToDevice));
        } else if (kind == 3) {
            CHECK(cudaMemcpy(host, device, k_size, cudaMemcpyDeviceToHost));
        } else {
            void* more = nullptr;
            CHECK(cudaMalloc(&more, 64 * k_size));
            CHECK(cudaFree(more));
        }
        if (i == 0) ++g_begun;
        pthread_testcancel();
    }
}

int main() {
    constexpr int k_kinds = 5, k_rounds = 12;
    for (int kind = 0; kind < k_kinds; ++kind)
        for (int round = 1; round <= k_rounds; ++round) {
            const int before = g_begun;
            pthread_t thread;
            EXPECT_EQ(pthread_create(&thread, nullptr, work, &kind), 0);
            while (g_begun == before) sched_yield();
            const timespec a_while{0, 300000L * round};
            nanosleep(&a_while, nullptr);
            EXPECT_EQ(pthread_cancel(thread), 0);
            void* result = nullptr;
            EXPECT_EQ(pthread_join(thread, &result), 0);
            EXPECT(result == PTHREAD_CANCELED);
            CHECK(cudaDeviceSynchronize());
        }
    return passed("cancelled threads");
}
