// Memory becomes the device's as well while functions of the program's hold up a stream: nothing waits for them, and what they
// write there is found by what comes behind them (A7). In a process of its own each: what is first is so once.
#include <atomic>
#include <cstring>

#include "check.h"

__global__ void add(int* to, const int* from, int more) { *to = *from + more; }

// A function that waits for the program, and then writes.
struct Writer {
    std::atomic<bool> begun{false}, open{false};
    int* to = nullptr;
    int value = 0;
    static void run(void* self) {
        auto* const writer = static_cast<Writer*>(self);
        writer->begun = true;
        writer->begun.notify_all();
        writer->open.wait(false);
        *writer->to = writer->value;
    }
    void release() {
        open = true;
        open.notify_all();
    }
};

struct Memory {
    int* host = nullptr;
    int* device = nullptr;
};

static int g_own[1024];

static Memory begin_to_share(const char* kind, int* locked) {
    Memory memory;
    if (std::strcmp(kind, "managed") == 0) {
        CHECK(cudaMallocManaged(&memory.host, 64 << 10));
        memory.device = memory.host;
    } else if (std::strcmp(kind, "registered") == 0) {
        CHECK(cudaHostRegister(g_own, sizeof g_own, cudaHostRegisterMapped));
        memory.host = g_own;
        CHECK(cudaHostGetDevicePointer(reinterpret_cast<void**>(&memory.device), g_own, 0));
    } else {
        memory.host = memory.device = locked;  // by its address alone
    }
    return memory;
}

int main(int count, char** arguments) {
    const char* const kind = count > 1 ? arguments[1] : "locked";
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    DeviceArray<int> found(2);
    int* locked;
    CHECK(cudaMallocHost(&locked, 64 << 10));
    std::memset(locked, 0, 64 << 10);
    add<<<1, 1>>>(found.data(), found.data(), 0);  // a first launch may wait for the context
    CHECK(cudaDeviceSynchronize());

    Writer running, pending;
    CHECK(cudaLaunchHostFunc(stream, Writer::run, &running));
    running.begun.wait(false);
    const Memory memory = begin_to_share(kind, locked);
    running.to = memory.host;
    running.value = 5;
    add<<<1, 1, 0, stream>>>(found.data(), memory.device, 1);
    pending.to = memory.host + 1;
    pending.value = 7;
    CHECK(cudaLaunchHostFunc(stream, Writer::run, &pending));
    add<<<1, 1, 0, stream>>>(found.data() + 1, memory.device + 1, 2);
    add<<<1, 1, 0, stream>>>(memory.device + 2, found.data() + 1, 0);
    memory.host[3] = 11;  // beside the function
    CHECK(cudaGetLastError());
    running.release();
    pending.release();
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(found.download()[0], 6);
    EXPECT_EQ(found.download()[1], 9);
    EXPECT_EQ(memory.host[0], 5);
    EXPECT_EQ(memory.host[1], 7);
    EXPECT_EQ(memory.host[2], 9);
    EXPECT_EQ(memory.host[3], 11);
    return passed("memory that begins to be shared");
}
