// Copies from page-locked memory read it when their stream comes to them, and not when they are made: what the program writes
// there meanwhile, what its functions write, and what copies before them bring (A7).
#include <time.h>

#include <atomic>
#include <cstring>

#include "driver_calls.h"

__device__ int g_symbol[4];

__global__ void fill(int* to, int count, int value) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) to[i] = value + i;
}

static void write_slowly(void* to);

// A stream that stands still until open(): a function in it waits for the program.
class Held {
public:
    explicit Held(unsigned flags = cudaStreamDefault) {
        CHECK(cudaStreamCreateWithFlags(&m_stream, flags));
        CHECK(cudaLaunchHostFunc(m_stream, [](void* held) { static_cast<Held*>(held)->m_open.wait(false); }, this));
    }
    ~Held() {
        open();
        CHECK(cudaStreamSynchronize(m_stream));
        CHECK(cudaStreamDestroy(m_stream));
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    cudaStream_t stream() const { return m_stream; }
    void open() {
        m_open = true;
        m_open.notify_all();
    }
    void finish() {
        open();
        CHECK(cudaStreamSynchronize(m_stream));
    }

private:
    std::atomic<bool> m_open{false};
    cudaStream_t m_stream = nullptr;
};

struct Locked {
    explicit Locked(size_t count) : size(count) { CHECK(cudaMallocHost(&data, count * sizeof(int))); }
    ~Locked() {
        if (data != nullptr) CHECK(cudaFreeHost(data));
    }
    void set(int value) {
        for (size_t i = 0; i < size; ++i) data[i] = value + static_cast<int>(i);
    }
    size_t bytes() const { return size * sizeof(int); }
    const size_t size;
    int* data = nullptr;
};

static void expect_from(const std::vector<int>& found, int value) {
    for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], value + static_cast<int>(i));
}

// None of the calls waits for the function, which waits for the program.
static void written_meanwhile() {
    Locked host(4), large((8 << 20) / sizeof(int) + 5);
    DeviceArray<int> device(4), beside(4), much(large.size);
    host.set(1), large.set(10);
    int registered[4] = {};
    CHECK(cudaHostRegister(registered, sizeof registered, cudaHostRegisterDefault));
    DeviceArray<int> of_registered(4);
    cudaStream_t other;
    cudaEvent_t event;
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaMemcpyToSymbol(g_symbol, host.data, host.bytes()));  // its module is loaded, which would wait
    Held held(cudaStreamNonBlocking);
    CHECK(cudaMemcpyAsync(device.data(), host.data, host.bytes(), cudaMemcpyHostToDevice, held.stream()));
    CHECK(cudaMemcpyAsync(much.data(), large.data, large.bytes(), cudaMemcpyDefault, held.stream()));
    CHECK(cudaMemcpyAsync(of_registered.data(), registered, sizeof registered, cudaMemcpyHostToDevice, held.stream()));
    CHECK(cudaMemcpyToSymbolAsync(g_symbol, host.data, host.bytes(), 0, cudaMemcpyHostToDevice, held.stream()));
    CHECK(cudaEventRecord(event, held.stream()));
    CHECK(cudaStreamWaitEvent(other, event, 0));
    CHECK(cudaMemcpyAsync(beside.data(), host.data, host.bytes(), cudaMemcpyHostToDevice, other));
    EXPECT_EQ(static_cast<int>(cudaStreamQuery(held.stream())), static_cast<int>(cudaErrorNotReady));
    host.set(2), large.set(20);
    for (int i = 0; i < 4; ++i) registered[i] = 30 + i;
    held.finish();
    CHECK(cudaStreamSynchronize(other));
    expect_from(device.download(), 2);
    expect_from(beside.download(), 2);
    expect_from(much.download(), 20);
    expect_from(of_registered.download(), 30);
    int symbol[4];
    CHECK(cudaMemcpyFromSymbol(symbol, g_symbol, sizeof symbol));
    EXPECT_EQ(symbol[3], 5);
    CHECK(cudaHostUnregister(registered));
    CHECK(cudaEventDestroy(event));
    CHECK(cudaStreamDestroy(other));
}

// Rows with gaps, and an array.
static void in_rows() {
    constexpr int k_width = 3, k_pitch = 8, k_rows = 4;
    Locked host(k_pitch * k_rows);
    DeviceArray<int> device(k_width * k_rows);
    const cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
    cudaArray_t array;
    CHECK(cudaMallocArray(&array, &format, k_width, k_rows));
    host.set(0);
    Held held;
    CHECK(cudaMemcpy2DAsync(device.data(), k_width * sizeof(int), host.data, k_pitch * sizeof(int), k_width * sizeof(int),
                            k_rows, cudaMemcpyHostToDevice, held.stream()));
    CHECK(cudaMemcpy2DToArrayAsync(array, 0, 0, host.data, k_pitch * sizeof(int), k_width * sizeof(int), k_rows,
                                   cudaMemcpyHostToDevice, held.stream()));
    host.set(100);
    held.finish();
    const std::vector<int> found = device.download();
    std::vector<int> of_array(k_width * k_rows);
    CHECK(cudaMemcpy2DFromArray(of_array.data(), k_width * sizeof(int), array, 0, 0, k_width * sizeof(int), k_rows,
                                cudaMemcpyDeviceToHost));
    for (int row = 0; row < k_rows; ++row) {
        for (int i = 0; i < k_width; ++i) {
            EXPECT_EQ(found[row * k_width + i], 100 + row * k_pitch + i);
            EXPECT_EQ(of_array[row * k_width + i], 100 + row * k_pitch + i);
        }
    }
    CHECK(cudaFreeArray(array));
}

// What is copied to page-locked memory, and on from there, comes in the order of the stream, and nobody waits between.
static void by_way_of_the_host() {
    constexpr int k_count = 1 << 18;
    Locked host(k_count);
    DeviceArray<int> from(k_count), first(k_count), second(k_count);
    host.set(-1);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    for (int value : {1000, 2000}) {
        fill<<<1, 128, 0, stream>>>(from.data(), k_count, value);
        CHECK(cudaMemcpyAsync(host.data, from.data(), host.bytes(), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaMemcpyAsync((value == 1000 ? first : second).data(), host.data, host.bytes(), cudaMemcpyHostToDevice, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    expect_from(first.download(), 1000);
    expect_from(second.download(), 2000);
    EXPECT_EQ(host.data[k_count - 1], 2000 + k_count - 1);
    CHECK(cudaStreamDestroy(stream));
}

// Each copy brings what the function before it has written.
static void between_functions() {
    constexpr int k_steps = 20;
    Locked host(1);
    DeviceArray<int> device(k_steps);
    host.data[0] = 0;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    for (int i = 0; i < k_steps; ++i) {
        CHECK(cudaLaunchHostFunc(stream, [](void* word) { ++*static_cast<int*>(word); }, host.data));
        CHECK(cudaMemcpyAsync(device.data() + i, host.data, sizeof(int), cudaMemcpyHostToDevice, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    expect_from(device.download(), 1);
    CHECK(cudaStreamDestroy(stream));
}

// A copy that waits does so for its own stream, and for no function of another one.
static void synchronous() {
    Locked host(4);
    DeviceArray<int> device(4);
    host.set(5);
    Held held(cudaStreamNonBlocking);
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaEventRecord(event, nullptr));
    CHECK(cudaStreamWaitEvent(held.stream(), event, 0));
    CHECK(cudaMemcpy(device.data(), host.data, host.bytes(), cudaMemcpyHostToDevice));
    expect_from(device.download(), 5);
    held.finish();
    CHECK(cudaEventDestroy(event));
}

// The stream waits for a value that the program writes, in one call or in a batch.
static void behind_a_value(bool in_a_batch) {
    Locked host(4);
    DeviceArray<int> device(4), beside(4);
    DeviceArray<unsigned> word(std::vector<unsigned>{0});
    const auto address = reinterpret_cast<CUdeviceptr>(word.data());
    cudaStream_t stream, other;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    host.set(1);
    if (in_a_batch) {
        CUstreamBatchMemOpParams wait{};
        wait.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
        wait.waitValue.address = address;
        wait.waitValue.value = 1;
        DRIVER(cuStreamBatchMemOp(stream, 1, &wait, 0));
    } else {
        DRIVER(cuStreamWaitValue32(stream, address, 1, CU_STREAM_WAIT_VALUE_GEQ));
    }
    CHECK(cudaMemcpyAsync(device.data(), host.data, host.bytes(), cudaMemcpyHostToDevice, stream));
    host.set(2);
    CHECK(cudaMemcpyAsync(beside.data(), host.data, host.bytes(), cudaMemcpyHostToDevice, other));
    CHECK(cudaStreamSynchronize(other));
    host.set(3);
    // Kernels may find the memory from now on, but this is no launch, and the copy waits for it.
    DeviceArray<int*> place(1);
    CHECK(cudaMemcpyAsync(place.data(), &host.data, sizeof host.data, cudaMemcpyHostToDevice, other));
    DRIVER(cuStreamWriteValue32(other, address, 1, 0));
    CHECK(cudaStreamSynchronize(stream));
    // The stream has passed it: this is read at once.
    CHECK(cudaMemcpyAsync(beside.data(), host.data, host.bytes(), cudaMemcpyHostToDevice, stream));
    expect_from(device.download(), 3);
    CHECK(cudaStreamSynchronize(stream));
    expect_from(beside.download(), 3);
    for (cudaStream_t one : {stream, other}) CHECK(cudaStreamDestroy(one));
}

// The same, and the wait is a graph's; or what is behind it is a graph's copy.
static void in_graphs() {
    Locked host(4);
    DeviceArray<int> device(4), of_graph(4);
    DeviceArray<unsigned> word(std::vector<unsigned>{0});
    const auto address = reinterpret_cast<CUdeviceptr>(word.data());
    cudaStream_t stream, other;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    cudaGraph_t waits, copies;
    cudaGraphExec_t waiting, copying;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    DRIVER(cuStreamWaitValue32(stream, address, 1, CU_STREAM_WAIT_VALUE_GEQ));
    CHECK(cudaStreamEndCapture(stream, &waits));
    CHECK(cudaGraphInstantiate(&waiting, waits, 0));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaMemcpyAsync(of_graph.data(), host.data, host.bytes(), cudaMemcpyHostToDevice, stream));
    CHECK(cudaStreamEndCapture(stream, &copies));
    CHECK(cudaGraphInstantiate(&copying, copies, 0));
    host.set(1);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaGraphLaunch(waiting, stream));
    CHECK(cudaMemcpyAsync(device.data(), host.data, host.bytes(), cudaMemcpyHostToDevice, stream));
    CHECK(cudaGraphLaunch(copying, stream));
    host.set(2);
    DRIVER(cuStreamWriteValue32(other, address, 1, 0));
    CHECK(cudaStreamSynchronize(stream));
    expect_from(device.download(), 2);
    expect_from(of_graph.download(), 2);
    for (cudaGraphExec_t exec : {waiting, copying}) CHECK(cudaGraphExecDestroy(exec));
    for (cudaGraph_t graph : {waits, copies}) CHECK(cudaGraphDestroy(graph));
    for (cudaStream_t one : {stream, other}) CHECK(cudaStreamDestroy(one));
}

// Two registrations side by side, and a few words far apart.
static void spread_out() {
    constexpr int k_half = 2048, k_rows = 100, k_apart = 1 << 18;
    int* memory = static_cast<int*>(aligned_alloc(4096, 2 * k_half * sizeof(int)));
    CHECK(cudaHostRegister(memory, k_half * sizeof(int), cudaHostRegisterDefault));
    CHECK(cudaHostRegister(memory + k_half, k_half * sizeof(int), cudaHostRegisterDefault));
    Locked wide(static_cast<size_t>(k_rows) * k_apart);
    DeviceArray<int> both(2 * k_half), words(k_rows);
    Held held(cudaStreamNonBlocking);
    CHECK(cudaMemcpyAsync(both.data(), memory, 2 * k_half * sizeof(int), cudaMemcpyHostToDevice, held.stream()));
    CHECK(cudaMemcpy2DAsync(words.data(), sizeof(int), wide.data, k_apart * sizeof(int), sizeof(int), k_rows,
                            cudaMemcpyHostToDevice, held.stream()));
    for (int i = 0; i < 2 * k_half; ++i) memory[i] = 7 + i;
    for (int row = 0; row < k_rows; ++row) wide.data[static_cast<size_t>(row) * k_apart] = 50 + row;
    held.finish();
    expect_from(both.download(), 7);
    expect_from(words.download(), 50);
    for (int* half : {memory, memory + k_half}) CHECK(cudaHostUnregister(half));
    free(memory);
}

// What functions write to memory of both sides is copied on from there, and what is copied there the program sees.
static void of_both_sides(bool managed) {
    int* shared = nullptr;
    if (managed) {
        CHECK(cudaMallocManaged(&shared, 2 * sizeof(int)));
    } else {
        CHECK(cudaHostAlloc(&shared, 2 * sizeof(int), cudaHostAllocMapped));
    }
    Locked from(1), to(1);
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    shared[0] = 1, shared[1] = 1, from.data[0] = 5, to.data[0] = 0;
    CHECK(cudaLaunchHostFunc(stream, write_slowly, shared));
    CHECK(cudaMemcpyAsync(shared + 1, from.data, sizeof(int), cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(to.data, shared, sizeof(int), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(shared[0], 7);
    EXPECT_EQ(shared[1], 5);
    EXPECT_EQ(to.data[0], 7);
    CHECK(cudaStreamDestroy(stream));
    CHECK(managed ? cudaFree(shared) : cudaFreeHost(shared));
}

static void write_slowly(void* to) {
    const timespec a_while{0, 20000000};
    nanosleep(&a_while, nullptr);
    *static_cast<int*>(to) = 7;
}

// Memory does not go before it was read, and a copy that waits returns when it was.
static void freed_behind() {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    DeviceArray<int> device(1);
    Locked host(1);
    host.data[0] = 1;
    CHECK(cudaLaunchHostFunc(stream, write_slowly, host.data));
    CHECK(cudaMemcpyAsync(device.data(), host.data, sizeof(int), cudaMemcpyHostToDevice, stream));
    CHECK(cudaFreeHost(host.data));
    host.data = nullptr;
    EXPECT_EQ(device.download()[0], 7);
    Locked other(1);
    CHECK(cudaLaunchHostFunc(nullptr, write_slowly, other.data));
    CHECK(cudaMemcpy(device.data(), other.data, sizeof(int), cudaMemcpyHostToDevice));
    other.data[0] = 8;
    EXPECT_EQ(device.download()[0], 7);
    CHECK(cudaStreamDestroy(stream));
}

// More than is kept for such copies.
static void many() {
    constexpr int k_copies = 12;
    Locked host((10 << 20) / sizeof(int));
    DeviceArray<int> device(host.size * k_copies);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaLaunchHostFunc(stream, write_slowly, host.data));
    for (int i = 0; i < k_copies; ++i) {
        CHECK(cudaMemcpyAsync(device.data() + i * host.size, host.data, host.bytes(), cudaMemcpyHostToDevice, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    const std::vector<int> found = device.download();
    for (int i = 0; i < k_copies; ++i) EXPECT_EQ(found[i * host.size], 7);
    CHECK(cudaStreamDestroy(stream));
}

__global__ void end_badly(int* nowhere) { *nowhere = 1; }

static void hold(void* opened) { static_cast<std::atomic<bool>*>(opened)->wait(false); }

// Of a context that has failed nothing is read any more, and nobody waits for it. The stream is held until all has
// been asked for: otherwise the function may have failed before, and the calls behind it say so.
static void failed() {
    Locked host(4);
    std::atomic<bool> opened{false};
    DeviceArray<int> device(4);
    host.set(1);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    end_badly<<<1, 1>>>(device.data());  // a first launch may wait for the context
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaLaunchHostFunc(stream, hold, &opened));
    end_badly<<<1, 1, 0, stream>>>(nullptr);
    CHECK(cudaGetLastError());
    CHECK(cudaLaunchHostFunc(stream, write_slowly, host.data));
    CHECK(cudaMemcpyAsync(device.data(), host.data, host.bytes(), cudaMemcpyHostToDevice, stream));
    opened = true;
    opened.notify_all();
    EXPECT_EQ(static_cast<int>(cudaStreamSynchronize(stream)), static_cast<int>(cudaErrorIllegalAddress));
    static_cast<void>(cudaFreeHost(host.data));
    host.data = nullptr;
    static_cast<void>(cudaGetLastError());
    CHECK(cudaDeviceReset());
    Locked again(4);
    CHECK(cudaDeviceSynchronize());
}

int main(int count, char** arguments) {
    if (count > 1 && std::strcmp(arguments[1], "failed") == 0) {
        failed();
        return passed("copies of a context that has failed");
    }
    written_meanwhile();
    in_rows();
    by_way_of_the_host();
    between_functions();
    synchronous();
    for (bool in_a_batch : {false, true}) behind_a_value(in_a_batch);
    in_graphs();
    spread_out();
    for (bool managed : {true, false}) of_both_sides(managed);
    freed_behind();
    many();
    return passed("copies that are read late");
}
