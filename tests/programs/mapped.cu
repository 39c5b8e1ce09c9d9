// Page-locked memory of the program's that kernels use: allocated (at its own address) and registered (any bytes).
#include <sys/mman.h>

#include <chrono>
#include <string>

#include "shared_memory.h"

__global__ void take(char* out, const char* in, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = in[i];
}
__global__ void through(Boxed boxed) {
    for (int i = 0; i < boxed.count; ++i) boxed.inner[i] *= 2;
}
// Says what it has seen, until it is told to stop.
__global__ void answer(volatile int* question, volatile int* answers, long long limit) {
    const long long end = clock64() + limit;
    while (clock64() < end) {
        const int asked = *question;
        *answers = asked + 1;
        __threadfence_system();
        if (asked < 0) return;
    }
}

static const int k_n = 300000;

static void allocated(unsigned flags, bool asks) {
    int *data, *device;
    CHECK(cudaHostAlloc(&data, k_n * sizeof(int), flags));
    for (int i = 0; i < k_n; ++i) data[i] = i;
    device = data;
    if (asks) {
        CHECK(cudaHostGetDevicePointer(&device, data + 10, 0));
        device -= 10;
    }
    for (int round = 1; round <= 4; ++round) {
        add<<<8, 128>>>(device, k_n, 1);
        CHECK(cudaDeviceSynchronize());
        for (int i = 0; i < k_n; i += 999) EXPECT_EQ(data[i], i + round);
    }
    cudaPointerAttributes about;
    CHECK(cudaPointerGetAttributes(&about, data));
    EXPECT(about.type == cudaMemoryTypeHost && about.hostPointer == data && about.devicePointer == device);
    // Copies and fills of it go on as before.
    std::vector<int> back(k_n);
    int* other;
    CHECK(cudaMalloc(&other, k_n * sizeof(int)));
    CHECK(cudaMemcpy(other, data, k_n * sizeof(int), cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize());
    data[5] = -1;
    CHECK(cudaMemcpy(back.data(), other, k_n * sizeof(int), cudaMemcpyDeviceToHost));
    EXPECT_EQ(back[5], 9);
    CHECK(cudaMemcpyAsync(data, other, k_n * sizeof(int), cudaMemcpyDeviceToHost));
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(data[5], 9);
    CHECK(cudaMemset(data, 1, 4096));
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(data[1023], 0x01010101);
    EXPECT_EQ(data[1024], 1028);
    CHECK(cudaFree(other));
    CHECK(cudaFreeHost(data));
}

static void in_structures() {
    Boxed boxed;
    CHECK(cudaMallocHost(&boxed.inner, 100 * sizeof(int)));
    boxed.count = 100;
    for (int i = 0; i < 100; ++i) boxed.inner[i] = i;
    through<<<1, 1>>>(boxed);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 100; ++i) EXPECT_EQ(boxed.inner[i], 2 * i);
    CHECK(cudaFreeHost(boxed.inner));
}

struct Link {
    Link* next;
    int value;
};
__device__ Link* k_head;
__global__ void walk(Link* link, int what) {
    for (; link; link = link->next) link->value += what;
}
__global__ void walk_from_variable(int what) {
    for (Link* link = k_head; link; link = link->next) link->value += what;
}

// Memory that was allocated to be the device's as well, of which no parameter has the address: lists, and a variable.
static void nested() {
    Link* head = nullptr;
    std::vector<Link*> links;
    const auto add_links = [&] {
        for (int i = 0; i < 5; ++i) {
            Link* link;
            CHECK(cudaHostAlloc(&link, sizeof *link, cudaHostAllocMapped));
            *link = {head, static_cast<int>(links.size())};
            links.push_back(head = link);
        }
    };
    add_links();
    walk<<<1, 1>>>(head, 100);
    CHECK(cudaDeviceSynchronize());
    add_links();
    CHECK(cudaMemcpyToSymbol(k_head, &head, sizeof head));
    walk_from_variable<<<1, 1>>>(1000);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 10; ++i) EXPECT_EQ(links[i]->value, i + (i < 5 ? 1100 : 1000));
    for (Link* link : links) CHECK(cudaFreeHost(link));
}

__global__ void behind_one(int what, int* data) { data[0] = what; }
__global__ void behind_two(int what, Boxed boxed, char step, int* data) {
    for (int i = 0; i < boxed.count; ++i) boxed.inner[i] = what;
    data[1] += step;
}

// Parameters that are aligned to eight bytes because of what stands before them.
static void behind_others() {
    int* data;
    Boxed boxed;
    CHECK(cudaMallocHost(&data, 2 * sizeof(int)));
    CHECK(cudaMallocHost(&boxed.inner, 10 * sizeof(int)));
    data[0] = data[1] = 0;
    boxed.count = 10;
    behind_one<<<1, 1>>>(7, data);
    behind_two<<<1, 1>>>(3, boxed, 1, data);
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(data[0], 7);
    EXPECT_EQ(data[1], 1);
    for (int i = 0; i < 10; ++i) EXPECT_EQ(boxed.inner[i], 3);

    int* others[2];
    for (int*& other : others) CHECK(cudaMallocHost(&other, sizeof(int)));
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributePriority;
    cudaLaunchConfig_t config{};
    config.gridDim = config.blockDim = dim3(1), config.attrs = &attribute, config.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(&config, behind_one, 8, others[0]));
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    behind_one<<<1, 1, 0, stream>>>(9, others[1]);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(*others[0], 8);
    EXPECT_EQ(*others[1], 9);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    for (int* memory : {data, boxed.inner, others[0], others[1]}) CHECK(cudaFreeHost(memory));
}

// Several of them on one page, and the page is a stack's; what lies beside them is nobody else's.
static void registered() {
    volatile char before[64];
    int one[4] = {1, 2, 3, 4}, two[4] = {5, 6, 7, 8};
    volatile char behind[64];
    for (int i = 0; i < 64; ++i) before[i] = behind[i] = static_cast<char>(i);
    int *d_one, *d_two;
    CHECK(cudaHostRegister(one, sizeof one, cudaHostRegisterMapped));
    CHECK(cudaHostRegister(two, sizeof two, cudaHostRegisterDefault));
    CHECK(cudaHostGetDevicePointer(&d_one, one, 0));
    CHECK(cudaHostGetDevicePointer(&d_two, two + 1, 0));
    for (int round = 1; round < 4; ++round) {
        add<<<1, 32>>>(d_one, 4, 10);
        add<<<1, 32>>>(d_two, 3, 20);
        for (int i = 0; i < 64; ++i) before[i] = behind[i] = static_cast<char>(i + round);
        CHECK(cudaDeviceSynchronize());
        for (int i = 0; i < 4; ++i) EXPECT_EQ(one[i], i + 1 + 10 * round + (round - 1) * 100);
        for (int i = 1; i < 4; ++i) EXPECT_EQ(two[i], i + 5 + 20 * round);
        EXPECT_EQ(two[0], 5);
        for (int i = 0; i < 4; ++i) one[i] += 100;
        for (int i = 0; i < 64; ++i) EXPECT(before[i] == static_cast<char>(i + round) && behind[i] == before[i]);
    }
    CHECK(cudaHostUnregister(one));
    CHECK(cudaHostUnregister(two));
    std::vector<int> large(k_n, 7);
    int* device;
    CHECK(cudaHostRegister(large.data(), k_n * sizeof(int), cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(&device, large.data(), 0));
    add<<<8, 128>>>(device, k_n, 3);
    CHECK(cudaHostUnregister(large.data()));
    for (int i = 0; i < k_n; ++i) EXPECT_EQ(large[i], 10);
}

// Fills and copies take the program's own address of registered memory, also as the device's.
static void named_by_its_own_address() {
    std::vector<unsigned> memory(4096, 5);
    unsigned* device;
    const size_t bytes = memory.size() * sizeof(unsigned);
    CHECK(cudaHostRegister(memory.data(), bytes, cudaHostRegisterMapped));
    CHECK(cudaMalloc(&device, bytes));
    CHECK(cudaMemset(device, 7, bytes));
    CHECK(cudaMemset(memory.data(), 1, bytes / 2));
    EXPECT_EQ(memory[2047], 0x01010101u);
    EXPECT_EQ(memory[2048], 5u);
    CHECK(cudaMemset2D(memory.data() + 2048, 64, 2, 32, 8));
    EXPECT_EQ(memory[2048 + 7], 0x02020202u);
    EXPECT_EQ(memory[2048 + 8], 5u);
    EXPECT_EQ(memory[2048 + 16], 0x02020202u);
    unsigned* mapped;
    CHECK(cudaHostGetDevicePointer(&mapped, memory.data(), 0));
    CHECK(cudaMemset(mapped + 2048, 3, 64));
    EXPECT_EQ(memory[2048 + 8], 0x03030303u);
    CHECK(cudaMemset2D(mapped + 2048, 64, 4, 32, 2));
    EXPECT_EQ(memory[2048 + 8], 0x03030303u);
    EXPECT_EQ(memory[2048 + 16], 0x04040404u);
    CHECK(cudaMemset(mapped + 2048, 5, 128));
    CHECK(cudaMemset2D(mapped + 2048, 64, 2, 32, 8));
    EXPECT_EQ(memory[2048 + 16], 0x02020202u);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    memory[1] = 8;
    CHECK(cudaMemsetAsync(memory.data() + 4, 3, 16, stream));
    CHECK(cudaMemcpyAsync(device, memory.data(), 64, cudaMemcpyHostToDevice, stream));
    add<<<1, 32, 0, stream>>>(reinterpret_cast<int*>(device), 8, 1);
    CHECK(cudaStreamSynchronize(stream));
    unsigned back[16];
    CHECK(cudaMemcpy(back, device, sizeof back, cudaMemcpyDeviceToHost));
    EXPECT_EQ(back[1], 9u);
    EXPECT_EQ(back[4], 0x03030304u);
    EXPECT_EQ(back[8], 0x01010101u);
    EXPECT_EQ(back[15], 0x01010101u);
    CHECK(cudaMemcpy(memory.data() + 100, memory.data(), 32, cudaMemcpyDeviceToDevice));
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(memory[101], 8u);
    CHECK(cudaMemcpy(memory.data(), device, bytes, cudaMemcpyDeviceToDevice));
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(memory[4095], 0x07070707u);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaHostUnregister(memory.data()));
    EXPECT_EQ(memory[4], 0x03030304u);
    CHECK(cudaFree(device));
}

// Copies from and to registered memory, fills of it and kernels that use it at its other address are one order, in their
// stream; none of them waits.
static void registered_in_order() {
    const int n = 5000;
    const size_t bytes = n * sizeof(int);
    cudaStream_t stream, opener;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&opener, cudaStreamNonBlocking));
    std::vector<int> memory(n + 2, 1), back(n), back_before(n);
    int *here, *gate, *before, *device, *rows;
    CHECK(cudaHostRegister(memory.data() + 1, bytes, cudaHostRegisterMapped));
    int* registered = memory.data() + 1;
    CHECK(cudaHostGetDevicePointer(&here, registered, 0));
    CHECK(cudaMalloc(&gate, sizeof(int)));
    CHECK(cudaMalloc(&before, bytes));
    CHECK(cudaMalloc(&device, bytes));
    CHECK(cudaMalloc(&rows, bytes));
    CHECK(cudaMemset(gate, 0, sizeof(int)));
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < n; ++i) registered[i] = i;
    hold<<<1, 1, 0, stream>>>(gate);
    add<<<(n + 127) / 128, 128, 0, stream>>>(here, n, 100);
    CHECK(cudaMemcpyAsync(before, registered, bytes, cudaMemcpyHostToDevice, stream));  // what the kernel has written
    CHECK(cudaMemsetAsync(registered, 1, bytes / 2, stream));
    CHECK(cudaMemcpyAsync(device, registered, bytes, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpy2DAsync(rows, 200, registered + 5, 400, 200, 10, cudaMemcpyHostToDevice, stream));
    add<<<(n + 127) / 128, 128, 0, stream>>>(device, n, 5);
    CHECK(cudaMemcpyAsync(registered, device, bytes, cudaMemcpyDeviceToHost, stream));
    add<<<(n + 127) / 128, 128, 0, stream>>>(here, n, 30);  // finds what was copied
    CHECK(cudaMemsetAsync(gate, 1, sizeof(int), opener));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(back_before.data(), before, bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(back.data(), rows, 10 * 200, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; ++i) {
        EXPECT_EQ(back_before[i], i + 100);
        EXPECT_EQ(registered[i], (i < n / 2 ? 0x01010101 : i + 100) + 35);
    }
    for (int row = 0; row < 10; ++row)
        for (int i = 0; i < 50; ++i) EXPECT_EQ(back[row * 50 + i], 0x01010101);
    EXPECT(memory[0] == 1 && memory[n + 1] == 1);
    // Synchronous ones are done when they return.
    add<<<(n + 127) / 128, 128, 0, stream>>>(here, n, 1);
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(device, registered, bytes, cudaMemcpyHostToDevice));
    for (int i = 0; i < n; ++i) registered[i] = -1;
    CHECK(cudaMemcpy(back.data(), device, bytes, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; ++i) EXPECT_EQ(back[i], (i < n / 2 ? 0x01010101 : i + 100) + 36);
    CHECK(cudaMemcpy(registered, device, bytes, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; ++i) EXPECT_EQ(registered[i], back[i]);
    // A part of it.
    CHECK(cudaMemcpy(device, registered + n / 2, bytes / 2, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(back.data(), device, bytes / 2, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n / 2; ++i) EXPECT_EQ(back[i], registered[n / 2 + i]);
    CHECK(cudaHostUnregister(registered));
    for (int* one : {gate, before, device, rows}) CHECK(cudaFree(one));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaStreamDestroy(opener));
}

// What the program cannot use itself, or is the device's, is refused.
static void not_registered() {
    const size_t size = 1 << 16;
    char* memory = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT(memory != MAP_FAILED);
    EXPECT_EQ(mprotect(memory + size / 2, size / 2, PROT_NONE), 0);
    EXPECT_EQ(cudaHostRegister(memory, size, cudaHostRegisterMapped), cudaErrorInvalidValue);
    CHECK(cudaHostRegister(memory, size / 2, cudaHostRegisterMapped));
    CHECK(cudaHostUnregister(memory));
    // What the program may only read is for kernels that only read.
    for (size_t i = 0; i < size / 2; ++i) memory[i] = static_cast<char>(i % 100);
    EXPECT_EQ(mprotect(memory, size / 2, PROT_READ), 0);
    EXPECT_EQ(cudaHostRegister(memory, size / 2, cudaHostRegisterMapped), cudaErrorInvalidValue);
    int supported = 0;
    CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrHostRegisterReadOnlySupported, 0));
    EXPECT_EQ(supported, 1);
    CHECK(cudaHostRegister(memory, size / 2, cudaHostRegisterMapped | cudaHostRegisterReadOnly));
    char *device, *copy;
    CHECK(cudaHostGetDevicePointer(&device, memory, 0));
    CHECK(cudaMalloc(&copy, size / 2));
    take<<<4, 128>>>(copy, device, static_cast<int>(size / 2));
    std::vector<char> back(size / 2);
    CHECK(cudaMemcpy(back.data(), copy, size / 2, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < size / 2; ++i) EXPECT_EQ(back[i], static_cast<char>(i % 100));
    CHECK(cudaHostUnregister(memory));
    CHECK(cudaFree(copy));
    munmap(memory, size);
    EXPECT_EQ(cudaHostRegister(memory, size, cudaHostRegisterMapped), cudaErrorInvalidValue);
    int* managed;
    CHECK(cudaMallocManaged(&managed, 4096));
    EXPECT(cudaHostRegister(managed, 4096, cudaHostRegisterMapped) != cudaSuccess);
    CHECK(cudaFree(managed));
    cudaGetLastError();
}

// A loop without a CUDA call sees what a kernel writes while it runs, and the kernel what the loop writes.
static void beside(bool registers) {
    int memory[2] = {0, 0};
    int *data = memory, *device;
    if (registers)
        CHECK(cudaHostRegister(memory, sizeof memory, cudaHostRegisterMapped));
    else
        CHECK(cudaHostAlloc(&data, 2 * sizeof(int), cudaHostAllocMapped));
    volatile int* seen = data;
    seen[0] = seen[1] = 0;
    CHECK(cudaHostGetDevicePointer(&device, data, 0));
    answer<<<1, 1>>>(device, device + 1, 20000000000ll);
    CHECK(cudaGetLastError());
    for (int i = 1; i < 20; ++i) {
        seen[0] = i;
        while (seen[1] != i + 1) {
        }
    }
    seen[0] = -1;
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(seen[1], 0);
    if (registers)
        CHECK(cudaHostUnregister(memory));
    else
        CHECK(cudaFreeHost(data));
}

// Also when nothing has been going on for a while, and nothing but kernels touches the memory.
static void beside_again() {
    const auto start = std::chrono::steady_clock::now();
    int memory[2] = {0, 0};
    int* device;
    CHECK(cudaHostRegister(memory, sizeof memory, cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(&device, memory, 0));
    volatile int* seen = memory;
    for (int round = 0; round < 3; ++round) {
        add<<<1, 1>>>(device, 1, 1);
        CHECK(cudaDeviceSynchronize());
        seen[0] = 10 * round;
        answer<<<1, 1>>>(device, device + 1, 20000000000ll);
        CHECK(cudaGetLastError());
        while (seen[1] != 10 * round + 1) {
        }
        seen[0] = -1;
        CHECK(cudaDeviceSynchronize());
    }
    CHECK(cudaHostUnregister(memory));
    // A second each where nobody looks.
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    EXPECT(seconds < 1.5);
}

// Kernels and functions of the program take turns in a stream that nobody waits for.
static void functions(bool registers) {
    std::vector<int> memory(3000);
    Turns turns{memory.data(), 3000};
    int* device;
    if (registers)
        CHECK(cudaHostRegister(turns.values, 3000 * sizeof(int), cudaHostRegisterMapped));
    else
        CHECK(cudaHostAlloc(&turns.values, 3000 * sizeof(int), cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer(&device, turns.values, 0));
    for (int i = 0; i < 3000; ++i) turns.values[i] = i;
    for (int turn = 0; turn < 5; ++turn) {
        add<<<1, 64>>>(device, 3000, 1);
        CHECK(cudaLaunchHostFunc(nullptr, function_in_turn, &turns));
    }
    add<<<1, 64>>>(device, 3000, 1);
    CHECK(cudaDeviceSynchronize());
    EXPECT(turns.right);
    EXPECT_EQ(turns.done, 5);
    for (int i = 0; i < 3000; ++i) EXPECT_EQ(turns.values[i], i + 56);
    if (registers)
        CHECK(cudaHostUnregister(turns.values));
    else
        CHECK(cudaFreeHost(turns.values));
}

// Memory that nothing but the nodes of a graph names: kernels and fills that were added, and what their parameters become.
static void in_graphs() {
    const int n = 1000;
    int *first, *second, *third, *filled, *refilled;
    for (int** data : {&first, &second, &third, &filled, &refilled}) {
        CHECK(cudaMallocHost(data, n * sizeof(int)));
        for (int i = 0; i < n; ++i) (*data)[i] = i;
    }
    int count = n, what = 5;
    void* args[] = {&first, &count, &what};
    cudaKernelNodeParams kernel{};
    kernel.func = reinterpret_cast<void*>(add);
    kernel.gridDim = dim3(2), kernel.blockDim = dim3(64), kernel.kernelParams = args;
    cudaMemsetParams fill{};
    fill.dst = filled, fill.elementSize = 4, fill.value = 77, fill.width = 10, fill.height = 1;
    cudaGraph_t graph;
    cudaGraphNode_t added, cleared;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddKernelNode(&added, graph, nullptr, 0, &kernel));
    CHECK(cudaGraphAddMemsetNode(&cleared, graph, nullptr, 0, &fill));
    const auto check = [&](int in_first, int in_second, int in_third, int in_refilled) {
        CHECK(cudaDeviceSynchronize());
        for (int i = 0; i < n; ++i) {
            EXPECT_EQ(first[i], i + in_first);
            EXPECT_EQ(second[i], i + in_second);
            EXPECT_EQ(third[i], i + in_third);
            EXPECT_EQ(filled[i], i < 10 ? 77 : i);
            EXPECT_EQ(refilled[i], i < 10 ? in_refilled + (in_refilled == 0 ? i : 0) : i);
        }
    };
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, 0));
    check(5, 0, 0, 0);
    args[0] = &second;
    CHECK(cudaGraphExecKernelNodeSetParams(exec, added, &kernel));
    CHECK(cudaGraphLaunch(exec, 0));
    check(5, 5, 0, 0);
    CHECK(cudaGraphExecDestroy(exec));
    cudaGraphNodeParams params{};
    params.type = cudaGraphNodeTypeKernel;
    params.kernel.func = kernel.func, params.kernel.gridDim = kernel.gridDim, params.kernel.blockDim = kernel.blockDim;
    params.kernel.kernelParams = args;
    args[0] = &third;
    CHECK(cudaGraphNodeSetParams(added, &params));
    fill.dst = refilled, fill.value = 78;
    CHECK(cudaGraphMemsetNodeSetParams(cleared, &fill));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, 0));
    check(5, 5, 5, 78);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    for (int* data : {first, second, third, filled, refilled}) CHECK(cudaFreeHost(data));
}

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    if (what == "mapped")
        allocated(cudaHostAllocMapped, true);
    else if (what == "passed")
        allocated(cudaHostAllocDefault, false), in_structures(), behind_others();
    else if (what == "nested")
        nested();
    else if (what == "graphs")
        in_graphs();
    else if (what == "registered")
        registered(), not_registered(), named_by_its_own_address(), registered_in_order();
    else if (what == "beside")
        beside(false);
    else if (what == "beside_registered")
        beside(true), beside_again();
    else if (what == "functions")
        functions(false), functions(true);
    else
        return 2;
    return passed(what.c_str());
}
