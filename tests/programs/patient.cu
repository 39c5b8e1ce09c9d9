// For test_heartbeat.py. `rounds`: one verified round per line on stdin. `pipe`: one thread waits because nobody reads stdout,
// while the device goes on printing for another one, from when there is a line on stdin; the descriptor that is its second
// argument is told.
#include <unistd.h>

#include <iostream>
#include <string>
#include <thread>

#include "check.h"

__global__ void increment(int* data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] += 1;
}
__global__ void speak(int lines) {
    for (int i = 0; i < lines; ++i)
        printf(
            "%04d 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef012345678\n",
            i);
}

class Counter {
public:
    Counter() : m_host(k_count) {
        CHECK(cudaStreamCreateWithFlags(&m_stream, cudaStreamNonBlocking));
        CHECK(cudaMalloc(&m_device, k_count * sizeof(int)));
        CHECK(cudaMemsetAsync(m_device, 0, k_count * sizeof(int), m_stream));
    }
    void round() {
        ++m_rounds;
        increment<<<(k_count + 255) / 256, 256, 0, m_stream>>>(m_device, k_count);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpyAsync(m_host.data(), m_device, k_count * sizeof(int), cudaMemcpyDeviceToHost, m_stream));
        CHECK(cudaStreamSynchronize(m_stream));
        for (int value : m_host) EXPECT_EQ(value, m_rounds);
    }
    cudaStream_t stream() const { return m_stream; }
    int rounds() const { return m_rounds; }

private:
    static constexpr int k_count = 4096;
    std::vector<int> m_host;
    int* m_device = nullptr;
    cudaStream_t m_stream = nullptr;
    int m_rounds = 0;
};

static int rounds() {
    Counter counter;
    for (std::string line; std::getline(std::cin, line);) {
        counter.round();
        std::printf("round %d\n", counter.rounds());
        std::fflush(stdout);
    }
    return passed("rounds");
}

static int pipe_that_nobody_reads(int answers) {
    constexpr int k_lines = 4000;  // much more than a pipe holds
    Counter mine, first, second;
    for (Counter* counter : {&mine, &first, &second}) counter->round();
    const auto print = [](Counter* counter) {
        speak<<<1, 1, 0, counter->stream()>>>(k_lines);
        CHECK(cudaStreamSynchronize(counter->stream()));  // writes what was printed, and waits for the reader
        counter->round();
    };
    std::thread writer(print, &first);
    std::string line;
    std::getline(std::cin, line);  // the pipe is full
    std::thread next(print, &second);
    EXPECT_EQ(write(answers, "printed\n", 8), 8);
    writer.join();  // when the pipe is read
    next.join();
    mine.round();
    CHECK(cudaDeviceSynchronize());
    return passed("pipe");
}

int main(int argc, char** argv) { return argc > 2 ? pipe_that_nobody_reads(std::atoi(argv[2])) : rounds(); }
