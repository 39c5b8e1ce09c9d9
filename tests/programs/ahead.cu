// What a program asks again and again in the same order comes along with the first answer; nothing that it reads is older than what
// it asked before. Steps of a training loop, reads piece by piece, times of events; and the same where other streams, threads and
// calls come between, whose results must be seen.
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"

__global__ void step(unsigned* loss, unsigned long long* accuracy, unsigned number) {
    *loss = number;
    *accuracy = number * 1000ull;
}

__global__ void fill(unsigned* out, unsigned count, unsigned from) {
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x) out[i] = from + i;
}

__global__ void count_down(unsigned* out, unsigned from, unsigned to) {
    unsigned value = from;
    while (value != 0) value -= (value & 1) != 0 ? 1 : 2;
    *out = to + value;
}

/// A step, a wait and two reads: one round trip once it is known.
static void training(unsigned* loss, unsigned long long* accuracy) {
    for (unsigned number = 1; number <= 20; ++number) {
        step<<<1, 1>>>(loss, accuracy, number);
        CHECK(cudaDeviceSynchronize());
        unsigned got_loss = 0;
        unsigned long long got_accuracy = 0;
        CHECK(cudaMemcpy(&got_loss, loss, sizeof got_loss, cudaMemcpyDeviceToHost));
        EXPECT_EQ(got_loss, number);
        if (number % 7 == 0) step<<<1, 1>>>(loss, accuracy, number + 500);  // comes between, and is seen
        CHECK(cudaMemcpyAsync(&got_accuracy, accuracy, sizeof got_accuracy, cudaMemcpyDeviceToHost));
        CHECK(cudaStreamSynchronize(0));
        EXPECT_EQ(got_accuracy, (number % 7 == 0 ? number + 500 : number) * 1000ull);
    }
}

/// 64 KiB in pieces of 256 bytes, some of them twice, and changed behind what was read.
static void pieces(unsigned* memory) {
    constexpr unsigned k_words = 16384, k_piece = 64;
    unsigned piece[k_piece];
    for (unsigned from : {0u, 1000000u}) {
        fill<<<1, 128>>>(memory, k_words, from);
        for (unsigned at = 0; at < k_words; at += k_piece) {
            CHECK(cudaMemcpy(piece, memory + at, sizeof piece, cudaMemcpyDeviceToHost));
            for (unsigned i = 0; i < k_piece; ++i) EXPECT_EQ(piece[i], from + at + i);
        }
    }
    for (unsigned i = 0; i < 40; ++i) {  // written between the reads: none of them may be of before
        const unsigned value = 77 + i;
        CHECK(cudaMemcpy(memory + i * k_piece + 5, &value, sizeof value, cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(piece, memory + i * k_piece, sizeof piece, cudaMemcpyDeviceToHost));
        EXPECT_EQ(piece[5], value);
    }
}

static void times(unsigned* loss, unsigned long long* accuracy) {
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    for (int i = 0; i < 20; ++i) {
        CHECK(cudaEventRecord(begin));
        step<<<1, 1>>>(loss, accuracy, 1);
        CHECK(cudaEventRecord(end));
        CHECK(cudaEventSynchronize(end));
        float first = -1, second = -2;
        CHECK(cudaEventElapsedTime(&first, begin, end));
        CHECK(cudaEventElapsedTime(&second, begin, end));
        EXPECT_EQ(first >= 0, true);
        EXPECT_EQ(first, second);
    }
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
}

/// Reads the same word while another thread's kernel changes it: the last word is the kernel's.
static void other_thread(unsigned* loss) {
    unsigned zero = 0, got = 0;
    CHECK(cudaMemcpy(loss, &zero, sizeof zero, cudaMemcpyHostToDevice));
    for (int i = 0; i < 10; ++i) CHECK(cudaMemcpy(&got, loss, sizeof got, cudaMemcpyDeviceToHost));
    EXPECT_EQ(got, 0u);
    std::thread launches([&] { count_down<<<1, 1>>>(loss, 20000, 42); });
    launches.join();
    CHECK(cudaMemcpy(&got, loss, sizeof got, cudaMemcpyDeviceToHost));
    EXPECT_EQ(got, 42u);
}

/// A stream that the default one does not wait for writes while this thread does nothing but read.
static void beside(unsigned* loss) {
    cudaStream_t stream;
    unsigned got = 0, zero = 0;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMemcpy(loss, &zero, sizeof zero, cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize());
    count_down<<<1, 1, 0, stream>>>(loss, 200000, 43);
    do CHECK(cudaMemcpy(&got, loss, sizeof got, cudaMemcpyDeviceToHost));
    while (got != 43);
    CHECK(cudaStreamDestroy(stream));
}

/// What is known to be done is not waited for again; what frees memory changes what there is of it.
static void again(unsigned* loss, unsigned long long* accuracy) {
    step<<<1, 1>>>(loss, accuracy, 5);
    for (int i = 0; i < 100; ++i) {
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaStreamSynchronize(0));
    }
    size_t before = 0, during = 0, after = 0, total = 0;
    void* memory;
    CHECK(cudaMemGetInfo(&before, &total));
    CHECK(cudaMalloc(&memory, 64 << 20));
    CHECK(cudaMemGetInfo(&during, &total));
    CHECK(cudaFree(memory));
    CHECK(cudaMemGetInfo(&after, &total));
    EXPECT_EQ(before - during >= (64u << 20), true);
    EXPECT_EQ(after - during >= (64u << 20), true);
}

int main(int argc, char** argv) {
    const char* part = argc > 1 ? argv[1] : "all";
    const auto is = [&](const char* name) { return std::strcmp(part, name) == 0 || std::strcmp(part, "all") == 0; };
    unsigned *loss, *memory;
    unsigned long long* accuracy;
    CHECK(cudaMalloc(&loss, sizeof *loss));
    CHECK(cudaMalloc(&accuracy, sizeof *accuracy));
    CHECK(cudaMalloc(&memory, 65536));
    if (is("training")) training(loss, accuracy);
    if (is("pieces")) pieces(memory);
    if (is("times")) times(loss, accuracy);
    if (is("thread")) other_thread(loss);
    if (is("again")) again(loss, accuracy);
    if (is("beside")) beside(loss);
    CHECK(cudaFree(loss));
    CHECK(cudaFree(accuracy));
    CHECK(cudaFree(memory));
    std::puts("ahead: verified");
    return 0;
}
