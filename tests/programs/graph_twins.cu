// The order of copies to host memory in graphs, whatever the order in which their nodes were added, and child graphs that are in
// a graph twice, whose functions and copies see to each other, copies behind nodes that wait. A copy within host memory that waits
// for the legacy stream.
#include <unistd.h>

#include <cstring>

#include "check.h"

constexpr int k_words = 4;
constexpr size_t k_bytes = k_words * sizeof(int);

struct Scene {
    int *device, *host;  // two parts on the device
    cudaGraph_t graph, child;

    Scene() {
        const int numbers[2 * k_words] = {10, 11, 12, 13, 20, 21, 22, 23};
        CHECK(cudaMalloc(&device, 2 * k_bytes));
        CHECK(cudaMemcpy(device, numbers, sizeof numbers, cudaMemcpyHostToDevice));
        CHECK(cudaMallocHost(&host, k_bytes));
        std::memset(host, 0, k_bytes);
        CHECK(cudaGraphCreate(&graph, 0));
        CHECK(cudaGraphCreate(&child, 0));
    }
    cudaGraphNode_t copy(cudaGraph_t into, int part, std::vector<cudaGraphNode_t> behind = {}) {
        cudaGraphNode_t node;
        CHECK(cudaGraphAddMemcpyNode1D(&node, into, behind.data(), behind.size(), host, device + part * k_words, k_bytes,
                                       cudaMemcpyDeviceToHost));
        return node;
    }
    cudaGraphNode_t copy_back(cudaGraph_t into, int part, cudaGraphNode_t behind) {
        cudaGraphNode_t node;
        CHECK(cudaGraphAddMemcpyNode1D(&node, into, &behind, 1, device + part * k_words, host, k_bytes, cudaMemcpyHostToDevice));
        return node;
    }
    cudaGraphNode_t twice_plus_one(cudaGraph_t into, cudaGraphNode_t behind) {
        const auto function = [](void* words) {
            for (int i = 0; i < k_words; ++i) static_cast<int*>(words)[i] = 2 * static_cast<int*>(words)[i] + 1;
        };
        const cudaHostNodeParams params{function, host};
        cudaGraphNode_t node;
        CHECK(cudaGraphAddHostNode(&node, into, &behind, 1, &params));
        return node;
    }
    cudaGraphNode_t inside(cudaGraph_t what, std::vector<cudaGraphNode_t> behind = {}) {
        cudaGraphNode_t node;
        CHECK(cudaGraphAddChildGraphNode(&node, graph, behind.data(), behind.size(), what));
        return node;
    }
    void run(int times = 1) {
        cudaGraphExec_t exec;
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        for (int i = 0; i < times; ++i) CHECK(cudaGraphLaunch(exec, cudaStreamPerThread));
        CHECK(cudaStreamSynchronize(cudaStreamPerThread));
        CHECK(cudaGraphExecDestroy(exec));
    }
    /// Of host memory, and of the second part on the device.
    int expect(int first_here, int step_here, int first_there, int step_there) {
        int there[k_words];
        CHECK(cudaMemcpy(there, device + k_words, k_bytes, cudaMemcpyDeviceToHost));
        for (int i = 0; i < k_words; ++i) {
            EXPECT_EQ(host[i], first_here + i * step_here);
            EXPECT_EQ(there[i], first_there + i * step_there);
        }
        return 0;
    }
};

static int later_copies_arrive_later() {
    {
        Scene in_child;  // nodes of child graphs are told behind all others
        in_child.copy(in_child.child, 0);
        in_child.copy(in_child.graph, 1, {in_child.inside(in_child.child)});
        in_child.run();
        if (in_child.expect(20, 1, 20, 1) != 0) return 1;
    }
    Scene added_before;
    const auto later = added_before.copy(added_before.graph, 1), earlier = added_before.copy(added_before.graph, 0);
    CHECK(cudaGraphAddDependencies(added_before.graph, &earlier, &later, nullptr, 1));
    added_before.run();
    if (added_before.expect(20, 1, 20, 1) != 0) return 1;
    // The same where a function has it, and the device gets what that makes of it.
    added_before.copy_back(added_before.graph, 1, added_before.twice_plus_one(added_before.graph, later));
    added_before.run(2);
    return added_before.expect(83, 4, 83, 4);
}

static int a_child_graph_is_there_twice() {
    Scene scene;
    auto last = scene.twice_plus_one(scene.child, scene.copy(scene.child, 0));
    last = scene.copy_back(scene.child, 1, last);
    const auto first = scene.inside(scene.child);
    last = scene.twice_plus_one(scene.graph, scene.inside(scene.child, {first}));
    for (int round = 1; round <= 2; ++round) {
        scene.run(round);
        if (scene.expect(43, 4, 21, 2) != 0) return 1;
    }
    // As what an executable graph is updated to.
    Scene other;
    auto end = other.twice_plus_one(other.child, other.copy(other.child, 0));
    end = other.copy_back(other.child, 1, end);
    const auto begin = other.inside(other.child);
    other.twice_plus_one(other.graph, other.inside(other.child, {begin}));
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, other.graph, 0));
    CHECK(cudaGraphLaunch(exec, cudaStreamPerThread));
    cudaGraphExecUpdateResultInfo info;
    CHECK(cudaGraphExecUpdate(exec, scene.graph, &info));
    CHECK(cudaStreamSynchronize(cudaStreamPerThread));
    if (other.expect(43, 4, 21, 2) != 0) return 1;
    std::memset(scene.host, 0, k_bytes);
    std::memset(other.host, 0, k_bytes);
    CHECK(cudaGraphLaunch(exec, cudaStreamPerThread));
    CHECK(cudaStreamSynchronize(cudaStreamPerThread));
    for (int i = 0; i < k_words; ++i) EXPECT_EQ(other.host[i], 0);
    return scene.expect(43, 4, 21, 2);
}

static int copies_within_host_memory_wait_for_the_legacy_stream() {
    int* words;
    CHECK(cudaMallocHost(&words, 2 * sizeof(int)));
    cudaStream_t blocking;
    CHECK(cudaStreamCreate(&blocking));
    for (cudaStream_t stream : {blocking, cudaStreamPerThread}) {
        words[0] = 1, words[1] = 0;
        const auto function = [](void* word) {
            usleep(50'000);  // a copy that does not wait is sooner
            *static_cast<int*>(word) += 100;
        };
        CHECK(cudaLaunchHostFunc(cudaStreamLegacy, function, words));
        CHECK(cudaMemcpyAsync(words + 1, words, sizeof(int), cudaMemcpyHostToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        EXPECT_EQ(words[1], 101);
    }
    return 0;
}

static int copies_behind_waits_find_what_was_waited_for() {
    int *word, *device;
    CHECK(cudaMallocHost(&word, sizeof(int)));
    CHECK(cudaMalloc(&device, sizeof(int)));
    cudaStream_t writes, runs;
    CHECK(cudaStreamCreateWithFlags(&writes, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&runs, cudaStreamNonBlocking));
    cudaEvent_t written;
    CHECK(cudaEventCreateWithFlags(&written, cudaEventDisableTiming));
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t wait, copy;
    CHECK(cudaGraphAddEventWaitNode(&wait, graph, nullptr, 0, written));
    CHECK(cudaGraphAddMemcpyNode1D(&copy, graph, &wait, 1, device, word, sizeof(int), cudaMemcpyHostToDevice));
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int round = 0; round < 3; ++round) {
        cudaGraphExecUpdateResultInfo info;
        if (round == 2) CHECK(cudaGraphExecUpdate(exec, graph, &info));
        *word = round;
        const auto function = [](void* word) {
            usleep(50'000);  // a copy that does not wait is sooner
            *static_cast<int*>(word) += 100;
        };
        CHECK(cudaLaunchHostFunc(writes, function, word));
        CHECK(cudaEventRecord(written, writes));
        CHECK(cudaGraphLaunch(exec, runs));
        CHECK(cudaStreamSynchronize(runs));
        int got = 0;
        CHECK(cudaMemcpy(&got, device, sizeof(int), cudaMemcpyDeviceToHost));
        EXPECT_EQ(got, round + 100);
    }
    return 0;
}

int main() {
    if (later_copies_arrive_later() != 0 || a_child_graph_is_there_twice() != 0) return 1;
    if (copies_within_host_memory_wait_for_the_legacy_stream() != 0) return 1;
    if (copies_behind_waits_find_what_was_waited_for() != 0) return 1;
    return passed("graph twins");
}
