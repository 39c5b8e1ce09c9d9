// Asks again and again whether work is done, as progress bars and allocators do: the answers are right, and a loop that polls
// costs one blocking round trip, not one for each question.
#include <thread>

#include "check.h"

__global__ void count_down(unsigned* out, unsigned from, unsigned add) {
    unsigned value = from;
    while (value != 0) value -= (value & 1) != 0 ? 1 : 2;
    atomicAdd(out, add + value);
}

static unsigned long poll_event(cudaEvent_t event) {
    unsigned long polls = 1;
    cudaError_t state;
    while ((state = cudaEventQuery(event)) == cudaErrorNotReady) ++polls;
    CHECK(state);
    return polls;
}

/// What is known to be done is not asked for: five.
static void ask_when_all_is_done(unsigned* sum) {
    cudaStream_t beside, blocking;
    CHECK(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking));
    CHECK(cudaStreamCreate(&blocking));
    constexpr int k_questions = 100;
    count_down<<<1, 1, 0, beside>>>(sum, 2, 0);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < k_questions; ++i) {
        for (cudaStream_t stream : {cudaStream_t{}, cudaStreamPerThread, beside, blocking}) CHECK(cudaStreamQuery(stream));
    }
    // Other streams are done all the same.
    count_down<<<1, 1>>>(sum, 2, 0);
    CHECK(cudaStreamSynchronize(0));
    for (int i = 0; i < k_questions; ++i) {
        for (cudaStream_t stream : {cudaStream_t{}, cudaStreamPerThread, beside, blocking}) CHECK(cudaStreamQuery(stream));
    }
    // Not so what was given work since.
    count_down<<<1, 1, 0, beside>>>(sum, 400000, 0);
    const cudaError_t asked = cudaStreamQuery(beside);
    if (asked != cudaErrorNotReady) CHECK(asked);
    // Nor is a stream done that is captured.
    cudaGraph_t graph;
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed));
    EXPECT_EQ(cudaStreamQuery(blocking), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(cudaStreamEndCapture(blocking, &graph), cudaErrorStreamCaptureInvalidated);
    cudaGetLastError();
    CHECK(cudaStreamDestroy(beside));
    CHECK(cudaStreamDestroy(blocking));
}

int main() {
    const unsigned steps = 200000;
    unsigned *sum, result = 0;
    cudaStream_t stream;
    cudaEvent_t event, other;
    CHECK(cudaMalloc(&sum, sizeof(*sum)));
    CHECK(cudaMemset(sum, 0, sizeof(*sum)));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaEventCreate(&other));
    EXPECT_EQ(cudaEventQuery(event), cudaSuccess);  // never recorded

    for (unsigned i = 0; i < 3; ++i) {  // three loops, one round trip: of an event that was asked about the end is told
        count_down<<<1, 1, 0, stream>>>(sum, steps, 1);
        CHECK(cudaEventRecord(event, stream));
        std::printf("event: %lu questions\n", poll_event(event));
        CHECK(cudaEventSynchronize(event));  // known by now
    }

    count_down<<<1, 1, 0, stream>>>(sum, steps, 10);  // one
    unsigned long polls = 1;
    cudaError_t state;
    while ((state = cudaStreamQuery(stream)) == cudaErrorNotReady) ++polls;
    CHECK(state);
    std::printf("stream: %lu questions\n", polls);
    CHECK(cudaStreamQuery(stream));

    count_down<<<1, 1>>>(sum, steps, 10000);  // one; the default stream
    for (polls = 1; (state = cudaStreamQuery(0)) == cudaErrorNotReady; ++polls) {
    }
    CHECK(state);
    std::printf("default stream: %lu questions\n", polls);

    count_down<<<1, 1, 0, cudaStreamPerThread>>>(sum, steps, 100000);  // one; this thread's own
    for (polls = 1; (state = cudaStreamQuery(cudaStreamPerThread)) == cudaErrorNotReady; ++polls) {
    }
    CHECK(state);
    std::printf("default stream of the thread: %lu questions\n", polls);
    std::thread other_thread([&] {  // and another one's, which ends while it is watched: one
        count_down<<<1, 1, 0, cudaStreamPerThread>>>(sum, steps, 1000000);
        const cudaError_t asked = cudaStreamQuery(cudaStreamPerThread);
        if (asked != cudaErrorNotReady) CHECK(asked);
    });
    other_thread.join();

    // A synchronisation answers for everything recorded before it: one.
    count_down<<<1, 1, 0, stream>>>(sum, steps, 100);
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaEventQuery(event));
    CHECK(cudaEventSynchronize(event));

    // So does one of the default stream, and a copy in it: two.
    count_down<<<1, 1>>>(sum, steps, 10000000);
    CHECK(cudaEventRecord(event));
    CHECK(cudaStreamSynchronize(0));
    CHECK(cudaEventQuery(event));
    count_down<<<1, 1>>>(sum, steps, 100000000);
    CHECK(cudaEventRecord(event));
    CHECK(cudaMemcpy(&result, sum, sizeof(result), cudaMemcpyDeviceToHost));
    CHECK(cudaEventQuery(event));
    EXPECT_EQ(result, 111110113u);

    // An event that is destroyed while it is watched, and a stream likewise: two.
    count_down<<<1, 1, 0, stream>>>(sum, steps, 1000);
    CHECK(cudaEventRecord(other, stream));
    cudaError_t first = cudaEventQuery(other);
    if (first != cudaErrorNotReady) CHECK(first);
    CHECK(cudaEventDestroy(other));
    first = cudaStreamQuery(stream);
    if (first != cudaErrorNotReady) CHECK(first);
    CHECK(cudaStreamDestroy(stream));

    ask_when_all_is_done(sum);
    CHECK(cudaDeviceSynchronize());                                           // one
    CHECK(cudaMemcpy(&result, sum, sizeof(result), cudaMemcpyDeviceToHost));  // one
    EXPECT_EQ(result, 111111113u);
    CHECK(cudaEventDestroy(event));
    CHECK(cudaFree(sum));
    std::printf("verified\n");
    return 0;
}
