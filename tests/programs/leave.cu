// Leaves the GPU in the way that its argument says, holding memory, with work under way and threads that wait. For the tests
// that look at the server afterwards.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>

#include "check.h"

__global__ void never_end(volatile int* flag) {
    while (*flag == 0) {
    }
}
__global__ void write_to(int* address) { *address = 1; }
__global__ void add_one(int* data) { *data += 1; }

constexpr size_t k_bytes = 64 << 20;

// A kernel without end, and two threads that wait for it.
static void wait_for_ever(int* flag) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    never_end<<<1, 1, 0, stream>>>(flag);
    CHECK(cudaGetLastError());
    cudaEvent_t event;
    CHECK(cudaEventCreate(&event));
    CHECK(cudaEventRecord(event, stream));
    // The driver's functions: libcudart cannot be called any more, nor returned to, once the process has begun to exit.
    cudaDriverEntryPointQueryResult status;
    void *synchronize_stream = nullptr, *synchronize_event = nullptr;
    CHECK(cudaGetDriverEntryPointByVersion("cuStreamSynchronize", &synchronize_stream, 12000, cudaEnableDefault, &status));
    CHECK(cudaGetDriverEntryPointByVersion("cuEventSynchronize", &synchronize_event, 12000, cudaEnableDefault, &status));
    std::thread([=] { reinterpret_cast<int (*)(cudaStream_t)>(synchronize_stream)(stream); }).detach();
    std::thread([=] { reinterpret_cast<int (*)(cudaEvent_t)>(synchronize_event)(event); }).detach();
}

static void verify(int* data) {
    int value = -1;
    CHECK(cudaMemset(data, 0, sizeof(int)));
    add_one<<<1, 1>>>(data);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&value, data, sizeof value, cudaMemcpyDeviceToHost));
    EXPECT_EQ(value, 1);
}

static int* allocate() {
    int* data;
    CHECK(cudaMalloc(&data, k_bytes));
    CHECK(cudaMemset(data, 0, k_bytes));
    CHECK(cudaDeviceSynchronize());
    return data;
}

// A kernel fault ends all waits with its error, and the process with it.
static int fault(int* data) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cudaError_t waited = cudaSuccess;
    write_to<<<1, 1, 0, stream>>>(data);
    write_to<<<1, 1, 0, stream>>>(reinterpret_cast<int*>(16));
    std::thread waiting([&] { waited = cudaStreamSynchronize(stream); });
    const cudaError_t error = cudaDeviceSynchronize();
    waiting.join();
    EXPECT(error == cudaErrorIllegalAddress || waited == cudaErrorIllegalAddress);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    return 0;
}

static int reset(int* data) {
    size_t before, after, total;
    verify(data);
    CHECK(cudaMemGetInfo(&before, &total));
    CHECK(cudaDeviceReset());
    data = allocate();
    verify(data);
    CHECK(cudaMemGetInfo(&after, &total));
    EXPECT_EQ(before, after);
    return 0;
}

// The child ends with its exit handlers, libcudart's included; the parent's session must not notice.
static int fork_a_child(int* data) {
    const pid_t child = fork();
    if (child == 0) {
        if (cudaDeviceSynchronize() == cudaSuccess) _exit(2);
        std::exit(0);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
    verify(data);
    return 0;
}

int main(int argc, char** argv) {
    const std::string how = argc > 1 ? argv[1] : "";
    int* data = allocate();
    std::printf("working\n");
    std::fflush(stdout);
    if (how == "fault") return fault(data);
    if (how == "reset") return reset(data);
    if (how == "fork") return fork_a_child(data);
    EXPECT(how == "exit" || how == "stay");
    wait_for_ever(data);
    if (how == "stay") pause();  // until somebody kills us
    return 0;
}
