// Steps that end with a loop which asks whether the work is done, as pipelines of frameworks have them: of an event, of an
// event whose time is asked for then, or of a stream. Each step's result is there when the answer is yes. The second argument
// says how many steps, if not 40.
#include <cstring>

#include "check.h"

constexpr unsigned k_from = 300000;  // longer than a question takes: the first answer of a step is "not yet"

__global__ void count_down(unsigned* out, unsigned from) {
    unsigned value = from;
    while (value != 0) value -= (value & 1) != 0 ? 1 : 2;
    *out += 1 + value;
}

template <typename Ask>
static void poll(Ask ask) {
    cudaError_t state;
    while ((state = ask()) == cudaErrorNotReady) {
    }
    CHECK(state);
}

int main(int argc, char** argv) {
    EXPECT(argc == 2 || argc == 3);
    const auto steps = static_cast<unsigned>(argc == 3 ? std::strtoul(argv[2], nullptr, 10) : 40);
    const bool of_stream = std::strcmp(argv[1], "stream") == 0, with_times = std::strcmp(argv[1], "times") == 0;
    EXPECT(of_stream || with_times || std::strcmp(argv[1], "event") == 0);
    unsigned *sum, *result;  // result: page-locked, which the device writes while nothing waits
    cudaStream_t stream;
    cudaEvent_t begin, end;
    CHECK(cudaMalloc(&sum, sizeof(*sum)));
    CHECK(cudaMemset(sum, 0, sizeof(*sum)));
    CHECK(cudaMallocHost(&result, sizeof(*result)));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaDeviceSynchronize());
    for (unsigned step = 1; step <= steps; ++step) {
        if (with_times) CHECK(cudaEventRecord(begin, stream));
        count_down<<<1, 1, 0, stream>>>(sum, k_from);
        CHECK(cudaMemcpyAsync(result, sum, sizeof(*sum), cudaMemcpyDeviceToHost, stream));
        if (of_stream) {
            poll([&] { return cudaStreamQuery(stream); });
        } else {
            CHECK(cudaEventRecord(end, stream));
            poll([&] { return cudaEventQuery(end); });
        }
        EXPECT_EQ(*result, step);
        float milliseconds = -1;
        if (with_times) CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
        EXPECT_EQ(with_times, milliseconds >= 0);
    }
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFreeHost(result));
    CHECK(cudaFree(sum));
    std::printf("verified\n");
    return 0;
}
