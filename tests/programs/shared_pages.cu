// Memory that host and device share by address: who sees what when, and what the program may do with it beside CUDA.
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>

#include "shared_memory.h"

__global__ void through(Boxed* boxed) {
    for (int i = 0; i < boxed->count; ++i) boxed->inner[i] *= 2;
}
__managed__ int counter = 40;
__managed__ int table[3000];
__device__ int plain_variable;
__global__ void count(int n) {
    counter += n;
    for (int i = 0; i < 3000; ++i) table[i] += i;
}

static const int k_n = 300000;  // more than a mebibyte

static void turns() {
    int* data;
    CHECK(cudaMallocManaged(&data, k_n * sizeof(int)));
    for (int i = 0; i < k_n; ++i) data[i] = i;
    for (int round = 1; round <= 5; ++round) {
        add<<<8, 128>>>(data, k_n, 1);
        CHECK(cudaDeviceSynchronize());
        EXPECT_EQ(data[k_n / 2 + 1], k_n / 2 + 1 + 2 * round - 1);
        // One word of a page is written here, the rest of the page is the device's.
        for (int i = 0; i < k_n; i += 10000) data[i] += 1000;
        add<<<8, 128>>>(data, k_n, 1);
        CHECK(cudaStreamSynchronize(nullptr));
    }
    for (int i = 0; i < k_n; ++i) EXPECT_EQ(data[i], i + 10 + (i % 10000 == 0 ? 5000 : 0));
    CHECK(cudaFree(data));
}

static void peer_copies() {
    int *from, *to;
    CHECK(cudaMallocManaged(&from, k_n * sizeof(int)));
    CHECK(cudaMallocManaged(&to, k_n * sizeof(int)));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    for (int round = 0; round < 4; ++round) {
        for (int i = 0; i < k_n; ++i) from[i] = i + round, to[i] = -1;
        if (round % 2 == 0)
            CHECK(cudaMemcpyPeer(to, 0, from, 0, k_n * sizeof(int)));
        else
            CHECK(cudaMemcpyPeerAsync(to, 0, from, 0, k_n * sizeof(int), stream));
        CHECK(cudaDeviceSynchronize());
        for (int i = 0; i < k_n; ++i) EXPECT_EQ(to[i], i + round);
    }
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(from));
    CHECK(cudaFree(to));
}

static void copies() {
    int *managed, *device;
    std::vector<int> host(k_n, 3);
    CHECK(cudaMallocManaged(&managed, k_n * sizeof(int)));
    CHECK(cudaMalloc(&device, k_n * sizeof(int)));
    for (int i = 0; i < k_n; ++i) managed[i] = i;
    CHECK(cudaMemcpy(device, managed, k_n * sizeof(int), cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < k_n; ++i) managed[i] = -1;  // the copy has been made
    CHECK(cudaMemcpy(host.data(), device, k_n * sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0; i < k_n; ++i) EXPECT_EQ(host[i], i);
    CHECK(cudaMemcpy(managed, device, k_n * sizeof(int), cudaMemcpyDefault));
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(managed[k_n - 1], k_n - 1);
    CHECK(cudaMemset(managed, 0x11, k_n * sizeof(int)));
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(managed[17], 0x11111111);
    managed[18] = 5;
    CHECK(cudaMemcpy(host.data(), managed, k_n * sizeof(int), cudaMemcpyDeviceToHost));
    EXPECT_EQ(host[18], 5);
    EXPECT_EQ(host[19], 0x11111111);
    std::fill(host.begin(), host.end(), 9);
    CHECK(cudaMemcpy(managed + 1, host.data(), 1000 * sizeof(int), cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(managed[0], 0x11111111);
    EXPECT_EQ(managed[1], 9);
    EXPECT_EQ(managed[1001], 0x11111111);
    CHECK(cudaMemcpy2D(managed, 64, host.data(), 32, 32, 10, cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(managed[16], 9);
    EXPECT_EQ(managed[15], 9);  // of the copy before
    CHECK(cudaMemset(managed, 0, 4096));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy2D(managed, 64, host.data(), 32, 32, 10, cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(managed[7], 9);
    EXPECT_EQ(managed[8], 0);
    CHECK(cudaFree(managed));
    CHECK(cudaFree(device));
}

static void attributes() {
    int managed_memory = 0, concurrent = 0, device = 0;
    CHECK(cudaGetDevice(&device));
    CHECK(cudaDeviceGetAttribute(&managed_memory, cudaDevAttrManagedMemory, device));
    CHECK(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, device));
    EXPECT_EQ(managed_memory, 1);
    char* data;
    CHECK(cudaMallocManaged(&data, 100000));
    cudaPointerAttributes about;
    CHECK(cudaPointerGetAttributes(&about, data + 5));
    EXPECT(about.type == cudaMemoryTypeManaged);
    EXPECT(about.devicePointer == data + 5 && about.hostPointer == data + 5);
    cudaMemLocation here{cudaMemLocationTypeDevice, device};
    (void)here;
#if CUDART_VERSION >= 13000
    CHECK(cudaMemAdvise(data, 100000, cudaMemAdviseSetReadMostly, here));
    CHECK(cudaMemPrefetchAsync(data, 100000, here, 0, nullptr));
    // Batches take no default stream but the thread's own.
    void* whole = data;
    size_t bytes = 100000, first = 0;
    EXPECT_EQ(cudaMemPrefetchBatchAsync(&whole, &bytes, 1, &here, &first, 1, 0, nullptr), cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemDiscardBatchAsync(&whole, &bytes, 1, 0, nullptr), cudaErrorInvalidValue);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
    CHECK(cudaMemPrefetchBatchAsync(&whole, &bytes, 1, &here, &first, 1, 0, cudaStreamPerThread));
#else
    CHECK(cudaMemAdvise(data, 100000, cudaMemAdviseSetReadMostly, device));
    CHECK(cudaMemPrefetchAsync(data, 100000, device, nullptr));
#endif
    int value = -7;
    CHECK(cudaMemRangeGetAttribute(&value, sizeof value, cudaMemRangeAttributeReadMostly, data, 100000));
    EXPECT_EQ(value, 1);
    CHECK(cudaMemRangeGetAttribute(&value, sizeof value, cudaMemRangeAttributeLastPrefetchLocation, data, 4096));
    EXPECT_EQ(value, device);
    CHECK(cudaFree(data));
    EXPECT(cudaMemRangeGetAttribute(&value, sizeof value, cudaMemRangeAttributeReadMostly, data, 4096) ==
           cudaErrorInvalidValue);
    cudaGetLastError();
}

static void prefetches() {
    int* data;
    CHECK(cudaMallocManaged(&data, k_n * sizeof(int)));
    add<<<8, 128>>>(data, 0, 0);
    CHECK(cudaMemset(data, 0, k_n * sizeof(int)));
    add<<<8, 128>>>(data, k_n, 21);
    cudaMemLocation host{cudaMemLocationTypeHost, 0};
    (void)host;
#if CUDART_VERSION >= 13000
    CHECK(cudaMemPrefetchAsync(data + 3, 900000, host, 0, nullptr));
#else
    CHECK(cudaMemPrefetchAsync(data + 3, 900000, cudaCpuDeviceId, nullptr));
#endif
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < k_n; ++i) EXPECT_EQ(data[i], 21);
    CHECK(cudaFree(data));
}

static void attached() {
    int *mine, *both;
    CHECK(cudaMallocManaged(&mine, 5000000, cudaMemAttachHost));
    CHECK(cudaMallocManaged(&both, k_n * sizeof(int)));
    for (int i = 0; i < k_n; ++i) both[i] = mine[i] = i;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int round = 0; round < 20; ++round) {
        add<<<8, 128, 0, stream>>>(both, k_n, 1);
        for (int i = 0; i < 1000; ++i) mine[i] += 1;  // is the host's, whatever runs
    }
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(both[7], 27);
    CHECK(cudaStreamAttachMemAsync(stream, mine, 0, cudaMemAttachSingle));
    CHECK(cudaStreamSynchronize(stream));
    add<<<8, 128, 0, stream>>>(mine, 1000, 1);
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(mine[i], i + 21);
    // Passed to a kernel all the same: it works, as where both may use managed memory at the same time.
    CHECK(cudaStreamAttachMemAsync(stream, mine, 0, cudaMemAttachHost));
    CHECK(cudaStreamSynchronize(stream));
    for (int round = 1; round < 4; ++round) {
        mine[0] += 1;
        add<<<8, 128, 0, stream>>>(mine, 1000, 1);
        CHECK(cudaStreamSynchronize(stream));
        EXPECT_EQ(mine[0], 21 + 2 * round);
    }
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(mine));
    CHECK(cudaFree(both));
}

static void nested() {
    Boxed* boxed;
    CHECK(cudaMallocManaged(&boxed, sizeof *boxed));
    CHECK(cudaMallocManaged(&boxed->inner, 100 * sizeof(int)));
    boxed->count = 100;
    for (int i = 0; i < 100; ++i) boxed->inner[i] = i;
    through<<<1, 1>>>(boxed);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 100; ++i) EXPECT_EQ(boxed->inner[i], 2 * i);
    CHECK(cudaFree(boxed->inner));
    CHECK(cudaFree(boxed));
}

static void variables() {
    EXPECT_EQ(counter, 40);
    counter = 50;
    count<<<1, 1>>>(3);
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(counter, 53);
    for (int i = 0; i < 3000; ++i) {
        EXPECT_EQ(table[i], i);
        table[i] = 5;
    }
    count<<<1, 1>>>(3);
    int value = 77, back = 0;
    CHECK(cudaMemcpyToSymbol(plain_variable, &value, sizeof value));
    CHECK(cudaMemcpyFromSymbol(&back, plain_variable, sizeof back));
    EXPECT_EQ(back, 77);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 3000; ++i) EXPECT_EQ(table[i], i + 5);
}

static void threads() {
    std::vector<std::thread> all;
    for (int t = 0; t < 4; ++t) {
        all.emplace_back([t] {
            cudaStream_t stream;
            CHECK(cudaStreamCreate(&stream));
            int* data;
            for (int round = 0; round < 10; ++round) {
                CHECK(cudaMallocManaged(&data, 20000 * sizeof(int)));
                for (int i = 0; i < 20000; ++i) data[i] = t;
                add<<<2, 64, 0, stream>>>(data, 20000, round);
                CHECK(cudaStreamSynchronize(stream));
                for (int i = 0; i < 20000; ++i) EXPECT_EQ(data[i], t + round);
                CHECK(cudaFree(data));
            }
            CHECK(cudaStreamDestroy(stream));
        });
    }
    for (std::thread& one : all) one.join();
}

static sigjmp_buf g_back;
static volatile int g_seen = 0;
static void on_fault(int, siginfo_t*, void*) {
    g_seen = g_seen + 1;
    siglongjmp(g_back, 1);
}

// The program has a handler of its own for SIGSEGV, from before its first managed memory, or from after.
static void signals(bool before) {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    if (before) EXPECT_EQ(sigaction(SIGSEGV, &action, nullptr), 0);
    int* data;
    CHECK(cudaMallocManaged(&data, 4096));
    if (!before) EXPECT_EQ(sigaction(SIGSEGV, &action, nullptr), 0);
    *data = 1;
    for (int i = 0; i < 3; ++i) {
        add<<<1, 1>>>(data, 1, 1);
        CHECK(cudaDeviceSynchronize());
        EXPECT_EQ(*data, 2 + i);
        if (sigsetjmp(g_back, 1) == 0) {
            *reinterpret_cast<volatile int*>(16) = 1;
            EXPECT(!"a store to address 16 went through");
        }
    }
    EXPECT_EQ(g_seen, 3);
    CHECK(cudaFree(data));
}

static void host_function(void* data) {
    int* values = static_cast<int*>(data);
    for (int i = 0; i < 5000; ++i) values[i] *= 2;
}
static void callbacks() {
    int* data;
    CHECK(cudaMallocManaged(&data, 5000 * sizeof(int)));
    for (int i = 0; i < 5000; ++i) data[i] = i;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    add<<<1, 64, 0, stream>>>(data, 5000, 1);
    CHECK(cudaLaunchHostFunc(stream, host_function, data));
    CHECK(cudaStreamSynchronize(stream));
    add<<<1, 64, 0, stream>>>(data, 5000, 1);
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < 5000; ++i) EXPECT_EQ(data[i], 2 * (i + 1) + 1);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(data));
}

// A kernel between two host functions in one stream: it reads what the first has written.
static void callbacks_and_kernels() {
    int* data;
    CHECK(cudaMallocManaged(&data, 5000 * sizeof(int)));
    for (int i = 0; i < 5000; ++i) data[i] = i;
    CHECK(cudaLaunchHostFunc(nullptr, host_function, data));
    CHECK(cudaDeviceSynchronize());
    add<<<1, 64>>>(data, 5000, 1);
    CHECK(cudaLaunchHostFunc(nullptr, host_function, data));
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 5000; ++i) EXPECT_EQ(data[i], 2 * (2 * i + 1));
    CHECK(cudaFree(data));
}

// Kernels and functions take turns in a stream that nobody waits for: each finds what the other has written.
static void callback_in_turn(cudaStream_t, cudaError_t, void* data) { function_in_turn(data); }
static void callbacks_in_turn() {
    Turns turns{nullptr, 5000};
    CHECK(cudaMallocManaged(&turns.values, 5000 * sizeof(int)));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    add<<<1, 64, 0, stream>>>(turns.values, 5000, 1);
    CHECK(cudaLaunchHostFunc(stream, function_in_turn, &turns));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 5000; ++i) turns.values[i] = i;
    for (int turn = 0; turn < 4; ++turn) {
        add<<<1, 64, 0, stream>>>(turns.values, 5000, 1);
        CHECK(cudaLaunchHostFunc(stream, function_in_turn, &turns));
        add<<<1, 64, 0, stream>>>(turns.values, 5000, 1);
        CHECK(cudaStreamAddCallback(stream, callback_in_turn, &turns, 0));
        CHECK(cudaGraphLaunch(exec, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(turns.right);
    EXPECT_EQ(turns.done, 12);
    for (int i = 0; i < 5000; ++i) EXPECT_EQ(turns.values[i], i + 132);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(turns.values));
}

// Each has pages of its own, and there is no most.
__global__ void add_to_each(int** data, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i][0] += i;
}
static void many() {
    const int n = 1100;
    int** data;
    CHECK(cudaMallocManaged(&data, n * sizeof(int*)));
    for (int i = 0; i < n; ++i) {
        CHECK(cudaMallocManaged(&data[i], 300000));
        data[i][0] = 1;
    }
    add_to_each<<<10, 128>>>(data, n);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < n; ++i) EXPECT_EQ(data[i][0], i + 1);
}

// In an order that leads round and round among memory that is here, when other memory is fetched.
static void circles() {
    const int n = 75000;
    int *a, *b, *c;
    for (int** data : {&a, &b, &c}) CHECK(cudaMallocManaged(data, n * sizeof(int)));
    for (int* data : {a, b, c}) std::memset(data, 0, n * sizeof(int));
    int rounds = 0;
    const auto next = [&] {
        for (int* data : {a, b, c}) add<<<1, 64>>>(data, n, 1);
        CHECK(cudaDeviceSynchronize());
        ++rounds;
    };
    const auto look = [&](const int* data) {
        for (int k = 0; k < n; k += 1000) EXPECT_EQ(data[k], rounds);
    };
    for (int i = 0; i < 6; ++i) {
        next();
        for (int* data : {a, b}) look(data);
    }
    next();
    for (int* data : {c, a, b}) look(data);
    next();
    for (int* data : {a, b, c}) look(data);
    for (int* data : {a, b, c}) CHECK(cudaFree(data));
}

// The program comes to its memory while another stream works and one is being captured: that is no part of the capture.
static void captures() {
    constexpr int k_few = 20000;
    int *other, *own;
    cudaStream_t stream, beside;
    CHECK(cudaMallocManaged(&other, k_few * sizeof(int)));
    CHECK(cudaMallocManaged(&own, k_few * sizeof(int)));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamCreate(&beside));
    for (int i = 0; i < k_few; ++i) other[i] = own[i] = i;
    add<<<1, 64, 0, beside>>>(other, k_few, 1);
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    add<<<1, 64, 0, stream>>>(own, k_few, 2);
    for (int i = 0; i < k_few; ++i) own[i] = 5 * i;
    add<<<1, 64, 0, stream>>>(own, k_few, 3);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamSynchronize(beside));
    for (int i = 0; i < k_few; ++i) {
        EXPECT_EQ(own[i], 5 * i + 5);
        EXPECT_EQ(other[i], i + 1);
    }
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(beside));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(own));
    CHECK(cudaFree(other));
}

static void graphs() {
    int *data, *copy;
    CHECK(cudaMallocManaged(&data, 5000 * sizeof(int)));
    CHECK(cudaMallocManaged(&copy, 5000 * sizeof(int)));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    add<<<1, 64, 0, stream>>>(data, 5000, 1);
    CHECK(cudaMemcpyAsync(copy, data, 5000 * sizeof(int), cudaMemcpyDefault, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 5000; ++i) data[i] = i;
    for (int round = 1; round < 5; ++round) {
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (int i = 0; i < 5000; ++i) EXPECT_EQ(copy[i], i + 2 * round - 1);
        for (int i = 0; i < 5000; ++i) data[i] += 1;
    }
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(data));
    CHECK(cudaFree(copy));
}

static void system_calls() {
    char* data;
    CHECK(cudaMallocManaged(&data, 3 * 4096));
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const char text[] = "through a pipe";
    EXPECT_EQ(write(ends[1], text, sizeof text), static_cast<ssize_t>(sizeof text));
    EXPECT_EQ(read(ends[0], data + 4090, sizeof text), static_cast<ssize_t>(sizeof text));
    EXPECT_EQ(strcmp(data + 4090, text), 0);
    for (int round = 0; round < 3; ++round) {
        add<<<1, 1>>>(reinterpret_cast<int*>(data), 1, 1);
        CHECK(cudaDeviceSynchronize());
        EXPECT_EQ(write(ends[1], data + 4090, sizeof text), static_cast<ssize_t>(sizeof text));
        EXPECT_EQ(read(ends[0], data + 2 * 4096 - 5, sizeof text), static_cast<ssize_t>(sizeof text));
        EXPECT_EQ(strcmp(data + 2 * 4096 - 5, text), 0);
    }
    CHECK(cudaFree(data));
}

// A child of fork() has no CUDA, and what it does leaves its parent's memory alone.
static void forks() {
    int* data;
    CHECK(cudaMallocManaged(&data, 4096));
    *data = 5;
    add<<<1, 1>>>(data, 1, 1);
    CHECK(cudaDeviceSynchronize());
    const pid_t child = fork();
    if (child == 0) _exit(cudaDeviceSynchronize() == cudaSuccess ? 1 : 0);
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT_EQ(*data, 6);
    CHECK(cudaFree(data));
}

// But for page-locked memory: what kernels have written the child finds.
static void forks_with_page_locked() {
    const int n = 100000;
    int* data;
    CHECK(cudaHostAlloc(&data, n * sizeof(int), cudaHostAllocMapped));
    for (int i = 0; i < n; ++i) data[i] = i;
    for (int round = 1; round <= 2; ++round) {
        add<<<1, 64>>>(data, n, 1);
        CHECK(cudaDeviceSynchronize());
        const pid_t child = fork();
        if (child == 0) {
            for (int i = 0; i < n; ++i)
                if (data[i] != i + round) _exit(1);
            _exit(0);
        }
        int status = -1;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    CHECK(cudaFreeHost(data));
}

__global__ void wait_for(volatile int* flag) {
    while (*flag == 0) {
    }
    flag[1] = *flag + 1;
}

// A kernel waits for an access that CUDA does not allow while it runs: both come to their end.
static void waited_for() {
    volatile int* flag;
    CHECK(cudaMallocManaged(const_cast<int**>(&flag), 2 * sizeof(int)));
    flag[0] = flag[1] = 0;
    wait_for<<<1, 1>>>(flag);
    CHECK(cudaGetLastError());
    flag[0] = 41;
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(flag[1], 42);
    CHECK(cudaFree(const_cast<int*>(flag)));
}

__global__ void fails(int* data) { *data = 1; }

// What a kernel that has failed leaves is undefined, but the program may look at it.
static void failed() {
    int* data;
    CHECK(cudaMallocManaged(&data, sizeof(int)));
    *data = 5;
    fails<<<1, 1>>>(reinterpret_cast<int*>(8));
    EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    EXPECT_EQ(*data, 5);
}

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    if (what == "turns")
        turns();
    else if (what == "copies")
        copies(), peer_copies();
    else if (what == "attributes")
        attributes();
    else if (what == "prefetches")
        prefetches();
    else if (what == "attached")
        attached();
    else if (what == "nested")
        nested();
    else if (what == "variables")
        variables();
    else if (what == "threads")
        threads();
    else if (what == "signals_before")
        signals(true);
    else if (what == "signals_after")
        signals(false);
    else if (what == "callbacks")
        callbacks(), callbacks_and_kernels(), callbacks_in_turn();
    else if (what == "many")
        many();
    else if (what == "circles")
        circles();
    else if (what == "graphs")
        graphs();
    else if (what == "captures")
        captures();
    else if (what == "system_calls")
        system_calls();
    else if (what == "forks")
        forks(), forks_with_page_locked();
    else if (what == "waited_for")
        waited_for();
    else if (what == "failed")
        failed();
    else
        return 2;
    return passed(what.c_str());
}
