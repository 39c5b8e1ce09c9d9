// Copies to the same page-locked memory land in the order of their streams, be they short, long or a graph's (A7).
#include <atomic>
#include <thread>

#include "check.h"

constexpr int k_steps = 25;

struct Scene {
    explicit Scene(size_t count) : size(count) {
        CHECK(cudaMallocHost(&host, count * sizeof(int)));
        for (int i = 0; i < 2; ++i) {
            CHECK(cudaMalloc(&device[i], count * sizeof(int)));
            CHECK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
            CHECK(cudaMemset(device[i], i + 1, count * sizeof(int)));
        }
        CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
        CHECK(cudaDeviceSynchronize());
    }
    ~Scene() {
        CHECK(cudaEventDestroy(event));
        for (int i = 0; i < 2; ++i) {
            CHECK(cudaStreamDestroy(streams[i]));
            CHECK(cudaFree(device[i]));
        }
        CHECK(cudaFreeHost(host));
    }
    // The words that are there when the last copy is known to be done: the second one's, as far as it goes, then the first one's.
    void expect(size_t first, size_t second) const {
        const size_t last = first > second ? first : second;
        for (size_t i = 0; i < last; ++i) EXPECT_EQ(host[i], i < second ? 0x02020202 : 0x01010101);
    }
    void copy(int which, size_t count, cudaStream_t stream) {
        CHECK(cudaMemcpyAsync(host, device[which], count * sizeof(int), cudaMemcpyDeviceToHost, stream));
    }
    const size_t size;
    int* host = nullptr;
    int* device[2] = {};
    cudaStream_t streams[2] = {};
    cudaEvent_t event = nullptr;
};

static void in_streams(size_t first, size_t second, bool apart) {
    Scene scene(first > second ? first : second);
    cudaStream_t last = scene.streams[apart ? 1 : 0];
    for (int step = 0; step < k_steps; ++step) {
        scene.copy(0, first, scene.streams[0]);
        if (apart) {
            CHECK(cudaEventRecord(scene.event, scene.streams[0]));
            CHECK(cudaStreamWaitEvent(last, scene.event, 0));
        }
        scene.copy(1, second, last);
        CHECK(cudaStreamSynchronize(last));
        scene.expect(first, second);
    }
}

// The second one waits: its bytes come with an answer.
static void synchronous(size_t first, size_t second) {
    Scene scene(first > second ? first : second);
    for (int step = 0; step < k_steps; ++step) {
        scene.copy(0, first, nullptr);
        CHECK(cudaMemcpy(scene.host, scene.device[1], second * sizeof(int), cudaMemcpyDeviceToHost));
        scene.expect(first, second);
    }
}

static void of_graphs(size_t first, size_t second, bool graph_first) {
    Scene scene(first > second ? first : second);
    cudaStream_t stream = scene.streams[0];
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    graph_first ? scene.copy(0, first, stream) : scene.copy(1, second, stream);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int step = 0; step < k_steps; ++step) {
        if (graph_first) CHECK(cudaGraphLaunch(exec, stream));
        graph_first ? scene.copy(1, second, stream) : scene.copy(0, first, stream);
        if (!graph_first) CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        scene.expect(first, second);
    }
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

// Memory becomes the device's with the launch of a graph, because its address was copied there.
static void beside_named_memory() {
    constexpr size_t k_words = 1000;
    Scene scene(k_words);
    cudaStream_t stream = scene.streams[0];
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    scene.copy(0, k_words, stream);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    int* named = nullptr;
    int** place = nullptr;
    CHECK(cudaMallocHost(&named, sizeof *named));
    CHECK(cudaMalloc(&place, sizeof *place));
    CHECK(cudaMemcpy(place, &named, sizeof named, cudaMemcpyHostToDevice));
    CHECK(cudaGraphLaunch(exec, stream));
    scene.copy(1, k_words, stream);
    CHECK(cudaStreamSynchronize(stream));
    scene.expect(0, k_words);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaFree(place));
    CHECK(cudaFreeHost(named));
}

struct Gate {
    static void wait(void* gate) {
        while (!static_cast<Gate*>(gate)->open) std::this_thread::yield();
    }
    std::atomic<bool> open{false};
};

// A stream that is held up keeps no other one's copies from the same memory; what it copies in the end is what stays.
static void beside_one_that_waits(size_t first, size_t second, bool joined) {
    Scene scene(first > second ? first : second);
    for (int step = 0; step < 3; ++step) {
        Gate gate;
        CHECK(cudaLaunchHostFunc(scene.streams[0], Gate::wait, &gate));
        scene.copy(0, first, scene.streams[0]);
        // Others wait for each other.
        if (joined) {
            CHECK(cudaEventRecord(scene.event, scene.streams[1]));
            CHECK(cudaStreamWaitEvent(scene.streams[1], scene.event, 0));
        }
        scene.copy(1, second, scene.streams[1]);
        struct Seen {
            const int* host;
            int word;
        } seen{scene.host, 0};
        const auto look = [](void* at) { static_cast<Seen*>(at)->word = static_cast<Seen*>(at)->host[0]; };
        if (step == 2) {
            CHECK(cudaEventRecord(scene.event, scene.streams[1]));
            cudaError_t done = cudaErrorNotReady;
            while (done == cudaErrorNotReady) done = cudaEventQuery(scene.event);
            CHECK(done);
        } else {
            CHECK(cudaStreamSynchronize(scene.streams[1]));
        }
        for (size_t i = 0; i < second; ++i) EXPECT_EQ(scene.host[i], 0x02020202);
        gate.open = true;
        CHECK(cudaStreamSynchronize(scene.streams[0]));
        for (size_t i = 0; i < first; ++i) EXPECT_EQ(scene.host[i], 0x01010101);
        // A function finds what comes before it in its stream.
        scene.copy(1, second, scene.streams[1]);
        CHECK(cudaLaunchHostFunc(scene.streams[1], look, &seen));
        CHECK(cudaStreamSynchronize(scene.streams[1]));
        EXPECT_EQ(seen.word, 0x02020202);
    }
}

// Two streams copy halves of the same rows.
static void in_columns() {
    constexpr size_t k_rows = 500, k_pitch = 400, k_half = k_pitch / 2;
    Scene scene(k_rows * k_pitch / sizeof(int));
    Gate gate;
    char* const rows = reinterpret_cast<char*>(scene.host);
    const auto copy = [&](int which) {
        CHECK(cudaMemcpy2DAsync(rows + which * k_half, k_pitch, scene.device[which], k_pitch, k_half, k_rows,
                                cudaMemcpyDeviceToHost, scene.streams[which]));
    };
    CHECK(cudaLaunchHostFunc(scene.streams[0], Gate::wait, &gate));
    copy(0);
    copy(1);
    CHECK(cudaStreamSynchronize(scene.streams[1]));
    for (size_t row = 0; row < k_rows; ++row) EXPECT_EQ(+rows[row * k_pitch + k_half], 2);
    gate.open = true;
    CHECK(cudaStreamSynchronize(scene.streams[0]));
    for (size_t row = 0; row < k_rows; ++row) {
        EXPECT_EQ(+rows[row * k_pitch], 1);
        EXPECT_EQ(+rows[row * k_pitch + k_half - 1], 1);
        EXPECT_EQ(+rows[row * k_pitch + k_pitch - 1], 2);
    }
}

// Each overwrites what the one before it has brought, and a part of it is seen in between.
static void many() {
    constexpr size_t k_long = 60000, k_short = 100;
    Scene scene(k_long);
    for (int step = 0; step < k_steps; ++step) {
        for (int i = 0; i < 8; ++i) scene.copy(i % 2, i % 2 == 0 ? k_long : k_short, scene.streams[0]);
        CHECK(cudaEventRecord(scene.event, scene.streams[0]));
        CHECK(cudaEventSynchronize(scene.event));
        scene.expect(k_long, k_short);
    }
}

int main() {
    constexpr size_t k_sizes[][2] = {{60000, 1000}, {300000, 1000}, {1000, 300000}, {1000, 1000}};
    for (const auto& [first, second] : k_sizes) {
        for (bool apart : {false, true}) in_streams(first, second, apart);
        synchronous(first, second);
        for (bool graph_first : {false, true}) of_graphs(first, second, graph_first);
    }
    for (const auto& [first, second] : k_sizes) {
        for (bool joined : {false, true}) beside_one_that_waits(first, second, joined);
    }
    in_columns();
    beside_named_memory();
    many();
    return passed("copies in order");
}
