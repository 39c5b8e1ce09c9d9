// What a program asks again and again in the same order comes along with the first answer; nothing that it reads is older than
// what it asked before. Steps of a training loop, reads piece by piece, times of events; and the same where other streams,
// threads and calls come between, whose results must be seen.
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
    volatile unsigned* const seen = out;  // or the loop would be left out: it is known what it comes to
    unsigned value = from;
    while (value != 0) *seen = value -= (value & 1) != 0 ? 1 : 2;
    *seen = to + value;
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

static float between(cudaEvent_t start, cudaEvent_t end) {
    float milliseconds = -1;
    CHECK(cudaEventElapsedTime(&milliseconds, start, end));
    return milliseconds;
}

/// Event after event, one wait, and the time between each and the next: a few round trips a step. Each time is that of its own
/// pair.
static void neighbours(unsigned* out) {
    constexpr int k_events = 101, k_steps = 5;
    constexpr unsigned k_long = 400000, k_short = 2;
    std::vector<cudaEvent_t> events(k_events);
    for (cudaEvent_t& event : events) CHECK(cudaEventCreate(&event));
    for (int step = 0; step < k_steps; ++step) {
        for (int i = 0; i < k_events; ++i) {
            CHECK(cudaEventRecord(events[i]));
            count_down<<<1, 1>>>(out, i % 10 == step ? k_long : k_short, 0);
        }
        CHECK(cudaDeviceSynchronize());
        float sum = 0;
        int longer = 0;
        std::vector<float> times;
        for (int i = 0; i + 1 < k_events; ++i) {
            times.push_back(between(events[i], events[i + 1]));
            EXPECT(times.back() >= 0);
            sum += times.back();
        }
        for (int i = 0; i + 1 < k_events; ++i) {
            float rest = 0;
            for (int j = i / 10 * 10; j < i / 10 * 10 + 10; ++j) rest = j != i && times[j] > rest ? times[j] : rest;
            longer += i % 10 == step && times[i] > rest ? 1 : 0;
        }
        EXPECT(longer >= 7);  // of ten: what else the machine does may make others long
        const float whole = between(events.front(), events.back());
        EXPECT(sum > whole - 0.1f && sum < whole + 0.1f);  // half a microsecond each
    }
    for (cudaEvent_t event : events) CHECK(cudaEventDestroy(event));
}

/// New events for each step, as frameworks have them: a wait brings their time once two steps have asked for it. An event that
/// was recorded again has another time.
static void new_events(unsigned* out) {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    for (int step = 0; step < 40; ++step) {
        cudaEvent_t begin, end;
        CHECK(cudaEventCreate(&begin));
        CHECK(cudaEventCreate(&end));
        const bool in_stream = step >= 20;
        const cudaStream_t used = in_stream ? stream : cudaStream_t{};
        CHECK(cudaEventRecord(begin, used));
        count_down<<<1, 1, 0, used>>>(out, 2, 0);
        CHECK(cudaEventRecord(end, used));
        CHECK(in_stream ? cudaStreamSynchronize(used) : cudaEventSynchronize(end));
        const float once = between(begin, end);
        EXPECT(once >= 0);
        if (step == 39) {
            count_down<<<1, 1, 0, used>>>(out, 2000000, 0);
            CHECK(cudaEventRecord(end, used));
            CHECK(cudaStreamSynchronize(used));
            EXPECT(between(begin, end) > once);
        }
        CHECK(cudaEventDestroy(begin));
        CHECK(cudaEventDestroy(end));
    }
    CHECK(cudaStreamDestroy(stream));
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
    if (is("neighbours")) neighbours(loss);
    if (is("new_events")) new_events(loss);
    if (is("thread")) other_thread(loss);
    if (is("again")) again(loss, accuracy);
    if (is("beside")) beside(loss);
    CHECK(cudaFree(loss));
    CHECK(cudaFree(accuracy));
    CHECK(cudaFree(memory));
    std::puts("ahead: verified");
    return 0;
}
