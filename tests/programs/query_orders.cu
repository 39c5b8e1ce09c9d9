// What a program knows to be done stays done, however it has come to know it: by a wait or a question for a stream, an event, a
// time between events, or a function that a stream has called; of that stream's earlier events, and of others that its work has
// waited for. Several threads, streams of all kinds; events are recorded again and again, or made for one record.
#include <atomic>
#include <thread>
#include <vector>

#include "check.h"

constexpr unsigned k_short = 10, k_long = 20000;

__global__ void count_up(unsigned* counter, unsigned from) {
    unsigned value = from;
    while (value != 0) value -= (value & 1) != 0 ? 1 : 2;
    *counter += 1 + value;
}

template <typename Ask>
static void poll(Ask ask) {
    cudaError_t state;
    while ((state = ask()) == cudaErrorNotReady) {
    }
    CHECK(state);
}

/// The answer may be either.
static void ask_once(cudaError_t answer) {
    EXPECT(answer == cudaSuccess || answer == cudaErrorNotReady);
    (void)cudaGetLastError();
}

/// A stream with two events around each piece of work, and a page-locked word that has the result.
class Lane {
public:
    explicit Lane(cudaStream_t stream) : m_stream(stream) {
        CHECK(cudaMalloc(&m_counter, sizeof *m_counter));
        CHECK(cudaMemsetAsync(m_counter, 0, sizeof *m_counter, stream));
        CHECK(cudaMallocHost(&m_result, sizeof *m_result));
        for (cudaEvent_t* event : {&begin, &end}) CHECK(cudaEventCreate(event));
    }
    ~Lane() {
        for (cudaEvent_t event : {begin, end}) CHECK(cudaEventDestroy(event));
        CHECK(cudaFreeHost(m_result));
        CHECK(cudaFree(m_counter));
    }

    void work(unsigned length) {
        CHECK(cudaEventRecord(begin, m_stream));
        count_up<<<1, 1, 0, m_stream>>>(m_counter, length);
        CHECK(cudaMemcpyAsync(m_result, m_counter, sizeof *m_counter, cudaMemcpyDeviceToHost, m_stream));
        CHECK(cudaEventRecord(end, m_stream));
        ++m_expected;
    }
    /// All of it is done, and whoever asks is told so.
    void expect_done() const {
        EXPECT_EQ(*m_result, m_expected);
        CHECK(cudaEventQuery(end));
        CHECK(cudaEventQuery(begin));
        CHECK(cudaEventSynchronize(begin));
    }

    cudaEvent_t begin = nullptr, end = nullptr;

private:
    cudaStream_t m_stream;
    unsigned *m_counter = nullptr, *m_result = nullptr;
    unsigned m_expected = 0;
};

/// One of the ways in which a program may learn that a lane's work is done; others ask before, and are not told.
static void learn(Lane& lane, cudaStream_t stream, int how) {
    float milliseconds = -1;
    if (how == 0) poll([&] { return cudaEventQuery(lane.end); });
    if (how == 1) poll([&] { return cudaStreamQuery(stream); });
    if (how == 2) {
        ask_once(cudaEventQuery(lane.end));
        CHECK(cudaStreamSynchronize(stream));
    }
    if (how == 3) {
        ask_once(cudaStreamQuery(stream));
        CHECK(cudaEventSynchronize(lane.end));
    }
    if (how == 4) poll([&] { return cudaEventElapsedTime(&milliseconds, lane.begin, lane.end); });
    if (how == 5) {
        CHECK(cudaEventSynchronize(lane.begin));
        CHECK(cudaEventQuery(lane.begin));
        poll([&] { return cudaStreamQuery(stream); });
    }
    if (how == 6) {
        std::atomic<bool> called{false};
        const auto call = [](void* flag) { static_cast<std::atomic<bool>*>(flag)->store(true); };
        ask_once(cudaEventQuery(lane.end));
        CHECK(cudaLaunchHostFunc(stream, call, &called));
        while (!called) std::this_thread::yield();
    }
}

static void run_lane(int id, cudaStream_t stream) {
    Lane lane(stream);
    for (int step = 0; step < 35; ++step) {
        const int how = (step + id) % 7;
        lane.work((step + id) % 3 == 0 ? k_long : k_short);
        learn(lane, stream, how);
        lane.expect_done();
        float milliseconds = -1, again = -1;
        CHECK(cudaEventElapsedTime(&milliseconds, lane.begin, lane.end));
        CHECK(cudaEventElapsedTime(&again, lane.begin, lane.end));
        EXPECT(milliseconds >= 0);
        EXPECT_EQ(milliseconds, again);
        // An event that is made for one record, or destroyed while its end is awaited.
        cudaEvent_t fresh;
        CHECK(cudaEventCreate(&fresh));
        CHECK(cudaEventQuery(fresh));
        CHECK(cudaEventRecord(fresh, stream));
        ask_once(cudaEventQuery(fresh));
        if (step % 2 == 0) {
            poll([&] { return cudaEventQuery(fresh); });
            CHECK(cudaEventElapsedTime(&milliseconds, lane.end, fresh));
            EXPECT(milliseconds >= 0);
        }
        CHECK(cudaEventDestroy(fresh));
    }
    CHECK(cudaStreamSynchronize(stream));
}

/// What is done in one stream says that what it has waited for in another one is.
static void run_two(int id) {
    cudaStream_t first, second;
    CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&second, id % 2 != 0 ? cudaStreamNonBlocking : cudaStreamDefault));
    {
        Lane earlier(first), later(second);
        for (int step = 0; step < 35; ++step) {
            earlier.work(step % 2 == 0 ? k_long : k_short);
            ask_once(cudaEventQuery(earlier.end));
            ask_once(cudaStreamQuery(first));
            CHECK(cudaStreamWaitEvent(second, earlier.end, 0));
            later.work(k_short);
            learn(later, second, (step + id) % 7);
            earlier.expect_done();
        }
        CHECK(cudaDeviceSynchronize());
        later.expect_done();
        earlier.expect_done();
    }
    CHECK(cudaStreamDestroy(first));
    CHECK(cudaStreamDestroy(second));
}

int main() {
    CHECK(cudaFree(nullptr));
    std::vector<std::thread> threads;
    threads.emplace_back(run_lane, 0, cudaStreamPerThread);
    threads.emplace_back(run_lane, 1, cudaStreamPerThread);
    threads.emplace_back([] {
        cudaStream_t stream;
        CHECK(cudaStreamCreate(&stream));
        run_lane(2, stream);
        CHECK(cudaStreamDestroy(stream));
    });
    threads.emplace_back(run_two, 3);
    for (std::thread& thread : threads) thread.join();
    run_two(4);
    run_lane(5, cudaStreamLegacy);
    CHECK(cudaDeviceSynchronize());
    return passed("what is done stays done");
}
