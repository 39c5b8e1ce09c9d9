// Memory and events shared between two processes: by handle (cudaIpc*), and as descriptors of pools. The second process is this
// program, started again. `killed` ends the process whose work the other one waits for, and so does `told`, where the driver
// tells of that.
#include <cuda.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "check.h"
#include "pass_descriptor.h"

extern char** environ;

namespace {

constexpr int k_count = 100000;
constexpr auto k_descriptor = cudaMemHandleTypePosixFileDescriptor;

__global__ void multiply_add(int* data, int count, int factor, int summand) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) data[i] = data[i] * factor + summand;
}

__global__ void wait_for(volatile int* flag) {
    while (*flag == 0) {
    }
}

void launch(int* data, int factor, int summand, cudaStream_t stream) {
    multiply_add<<<(k_count + 255) / 256, 256, 0, stream>>>(data, k_count, factor, summand);
    CHECK(cudaGetLastError());
}

void expect_all(const int* data, int value) {
    std::vector<int> host(k_count);
    CHECK(cudaMemcpy(host.data(), data, k_count * sizeof(int), cudaMemcpyDeviceToHost));
    for (int found : host) EXPECT_EQ(found, value);
}

int g_socket = -1;

template <typename T>
void tell(const T& value) {
    EXPECT(send(g_socket, &value, sizeof(value), MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof(value)));
}

template <typename T>
T hear() {
    T value;
    EXPECT(recv(g_socket, &value, sizeof(value), MSG_WAITALL) == static_cast<ssize_t>(sizeof(value)));
    return value;
}

void meet() {
    tell('m');
    EXPECT_EQ(hear<char>(), 'm');
}

template <typename F>
F driver(const char* name, unsigned version = 12000) {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found));
    EXPECT(function != nullptr);
    return reinterpret_cast<F>(function);
}
#define DRIVER(name) driver<decltype(&name)>(#name)
#define CHECK_CU(call) EXPECT_EQ(static_cast<int>(call), 0)

// What one process needs of the other: its memory, and an event.
struct Shared {
    int* data = nullptr;
    cudaEvent_t event = nullptr;
    cudaStream_t stream = nullptr;
};

Shared give() {
    Shared shared;
    cudaIpcMemHandle_t memory;
    cudaIpcEventHandle_t event;
    CHECK(cudaStreamCreateWithFlags(&shared.stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&shared.data, k_count * sizeof(int)));
    CHECK(cudaEventCreateWithFlags(&shared.event, cudaEventDisableTiming | cudaEventInterprocess));
    CHECK(cudaIpcGetMemHandle(&memory, shared.data));
    CHECK(cudaIpcGetEventHandle(&event, shared.event));
    tell(memory);
    tell(event);
    return shared;
}

Shared take() {
    Shared shared;
    void* data = nullptr;
    auto memory = hear<cudaIpcMemHandle_t>();
    auto event = hear<cudaIpcEventHandle_t>();
    CHECK(cudaStreamCreateWithFlags(&shared.stream, cudaStreamNonBlocking));
    CHECK(cudaIpcOpenMemHandle(&data, memory, cudaIpcMemLazyEnablePeerAccess));
    CHECK(cudaIpcOpenEventHandle(&shared.event, event));
    // The function of before CUDA 11 opens it once, that of today as often as one likes.
    CUdeviceptr once = 0;
    CUipcMemHandle same;
    std::memcpy(&same, &memory, sizeof same);
    constexpr unsigned k_before_11 = 4010;
    const auto open_once = driver<decltype(&cuIpcOpenMemHandle)>("cuIpcOpenMemHandle", k_before_11);
    EXPECT_EQ(static_cast<int>(open_once(&once, same, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)),
              static_cast<int>(CUDA_ERROR_ALREADY_MAPPED));
    void* again = nullptr;
    CHECK(cudaIpcOpenMemHandle(&again, memory, cudaIpcMemLazyEnablePeerAccess));
    EXPECT(again == data);
    shared.data = static_cast<int*>(data);
    return shared;
}

// Each side works on the data after the other one, ordered by the event alone: the host only says that it has recorded.
void take_turns(const Shared& shared, bool first) {
    for (int turn = 0; turn < 6; ++turn) {
        if ((turn % 2 == 0) == first) {
            if (turn != 0) CHECK(cudaStreamWaitEvent(shared.stream, shared.event, 0));
            launch(shared.data, 2, turn, shared.stream);
            CHECK(cudaEventRecord(shared.event, shared.stream));
        }
        meet();
    }
    CHECK(cudaEventSynchronize(shared.event));
    CHECK(cudaEventQuery(shared.event));
    int expected = 1;
    for (int turn = 0; turn < 6; ++turn) expected = expected * 2 + turn;
    expect_all(shared.data, expected);
    meet();
}

void parent_by_handle() {
    Shared shared = give();
    std::vector<int> ones(k_count, 1);
    CHECK(cudaMemcpy(shared.data, ones.data(), k_count * sizeof(int), cudaMemcpyHostToDevice));
    meet();
    take_turns(shared, true);
    meet();  // the child has closed what it opened
    CHECK(cudaEventDestroy(shared.event));
    CHECK(cudaFree(shared.data));
}

void child_by_handle() {
    Shared shared = take();
    meet();
    take_turns(shared, false);
    // Twice open.
    CHECK(cudaIpcCloseMemHandle(shared.data));
    CHECK(cudaIpcCloseMemHandle(shared.data));
    EXPECT_EQ(cudaIpcCloseMemHandle(shared.data), cudaErrorInvalidValue);
    cudaGetLastError();
    CHECK(cudaEventDestroy(shared.event));
    meet();
}

constexpr size_t k_mapped_bytes = 4u << 20;
constexpr auto k_file = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

int* map(CUmemGenericAllocationHandle memory) {
    CUdeviceptr address = 0;
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CHECK_CU(DRIVER(cuMemAddressReserve)(&address, k_mapped_bytes, 0, 0, 0));
    CHECK_CU(DRIVER(cuMemMap)(address, k_mapped_bytes, 0, memory, 0));
    CHECK_CU(DRIVER(cuMemSetAccess)(address, k_mapped_bytes, &access, 1));
    return reinterpret_cast<int*>(address);
}

void unmap(int* data) {
    const auto address = reinterpret_cast<CUdeviceptr>(data);
    CHECK_CU(DRIVER(cuMemUnmap)(address, k_mapped_bytes));
    CHECK_CU(DRIVER(cuMemAddressFree)(address, k_mapped_bytes));
}

// Memory of cuMemCreate, whose descriptor travels over a socket. The child keeps what the parent has given back.
void parent_mappings() {
    CHECK(cudaFree(nullptr));
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.requestedHandleTypes = k_file;
    CUmemGenericAllocationHandle memory = 0;
    CHECK_CU(DRIVER(cuMemCreate)(&memory, k_mapped_bytes, &properties, 0));
    int* data = map(memory);
    std::vector<int> threes(k_count, 3);
    CHECK(cudaMemcpy(data, threes.data(), k_count * sizeof(int), cudaMemcpyHostToDevice));
    int descriptor = -1;
    CHECK_CU(DRIVER(cuMemExportToShareableHandle)(&descriptor, memory, k_file, 0));
    EXPECT(send_descriptor(g_socket, descriptor));
    close(descriptor);
    meet();  // the child has multiplied
    expect_all(data, 3 * 5 + 1);
    // Over when it returns, also for the other process.
    std::vector<int> fours(k_count, 4);
    CHECK(cudaMemcpy(data, fours.data(), k_count * sizeof(int), cudaMemcpyHostToDevice));
    unmap(data);
    CHECK_CU(DRIVER(cuMemRelease)(memory));
    CHECK(cudaDeviceSynchronize());
    meet();
    meet();
}

void child_mappings() {
    CHECK(cudaFree(nullptr));
    int descriptor = receive_descriptor(g_socket);
    EXPECT(descriptor >= 0);
    CUmemGenericAllocationHandle memory = 0;
    CHECK_CU(
        DRIVER(cuMemImportFromShareableHandle)(&memory, reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)), k_file));
    close(descriptor);
    int* data = map(memory);
    CHECK_CU(DRIVER(cuMemRelease)(memory));
    expect_all(data, 3);
    launch(data, 5, 1, nullptr);
    CHECK(cudaDeviceSynchronize());
    meet();
    meet();  // the parent has given it back
    expect_all(data, 4);
    launch(data, 2, 0, nullptr);
    expect_all(data, 8);
    unmap(data);
    meet();
}

void parent_pool() {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.handleTypes = k_descriptor;
    properties.location.type = cudaMemLocationTypeDevice;
    cudaMemPool_t pool = nullptr;
    int* data = nullptr;
    cudaMemPoolPtrExportData exported;
    CHECK(cudaMemPoolCreate(&pool, &properties));
    int descriptor = -1;
    CHECK(cudaMallocFromPoolAsync(&data, k_count * sizeof(int), pool, nullptr));
    EXPECT_EQ(cudaMemPoolExportPointer(&exported, data), cudaErrorInvalidValue);  // the pool comes first
    cudaGetLastError();
    CHECK(cudaMemPoolExportToShareableHandle(&descriptor, pool, k_descriptor, 0));
    CHECK(cudaMemsetAsync(data, 0, k_count * sizeof(int), nullptr));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemPoolExportPointer(&exported, data));
    EXPECT(send_descriptor(g_socket, descriptor));
    tell(exported);
    meet();
    expect_all(data, 77);
    CHECK(cudaFreeAsync(data, nullptr));
    CHECK(cudaMemPoolDestroy(pool));
}

void child_pool() {
    int descriptor = receive_descriptor(g_socket);
    EXPECT(descriptor >= 0);
    auto exported = hear<cudaMemPoolPtrExportData>();
    cudaMemPool_t pool = nullptr;
    void* data = nullptr;
    CHECK(cudaMemPoolImportFromShareableHandle(&pool, reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)), k_descriptor,
                                               0));
    CHECK(cudaMemPoolImportPointer(&data, pool, &exported));
    expect_all(static_cast<int*>(data), 0);
    launch(static_cast<int*>(data), 1, 77, nullptr);
    CHECK(cudaFreeAsync(data, nullptr));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemPoolDestroy(pool));
    meet();
}

// The one that dies has recorded the event behind work that never ends.
void child_killed() {
    Shared shared = give();
    int* flag = nullptr;
    CHECK(cudaHostAlloc(&flag, sizeof(int), cudaHostAllocMapped));
    *flag = 0;
    CHECK(cudaMemset(shared.data, 1, k_count * sizeof(int)));
    CHECK(cudaDeviceSynchronize());
    wait_for<<<1, 1, 0, shared.stream>>>(flag);
    CHECK(cudaEventRecord(shared.event, shared.stream));
    meet();
    meet();
    raise(SIGKILL);
}

// NVIDIA's driver waits for what does not come. @param told  the driver is one that looks who lives
void parent_of_killed(pid_t child, bool told) {
    Shared shared = take();
    meet();
    EXPECT_EQ(cudaEventQuery(shared.event), cudaErrorNotReady);
    CHECK(cudaStreamWaitEvent(shared.stream, shared.event, 0));
    expect_all(shared.data, 0x01010101);
    meet();
    EXPECT_EQ(waitpid(child, nullptr, 0), child);
    if (told) {
        EXPECT_EQ(cudaStreamSynchronize(shared.stream), cudaErrorExternalDevice);
        EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorExternalDevice);
        return;
    }
    const cudaError_t now = cudaEventQuery(shared.event);
    EXPECT(now == cudaErrorNotReady || now == cudaErrorExternalDevice);
}

pid_t start_child(const std::string& mode) {
    int sockets[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
    EXPECT(fcntl(sockets[1], F_SETFD, 0) == 0);  // the child's end; it would not see us go if it had ours, too
    std::string number = std::to_string(sockets[1]), name = "child_" + mode;
    char program[] = "processes";
    char* arguments[] = {program, name.data(), number.data(), nullptr};
    pid_t child = 0;
    EXPECT(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments, environ) == 0);
    close(sockets[1]);
    g_socket = sockets[0];
    return child;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string mode = argc > 1 ? argv[1] : "";
    if (argc > 2) {
        g_socket = std::atoi(argv[2]);
        if (mode == "child_handles") child_by_handle();
        if (mode == "child_mappings") child_mappings();
        if (mode == "child_pool") child_pool();
        if (mode == "child_killed" || mode == "child_told") child_killed();
        if (mode == "child_waiting") {
            parent_of_killed(start_child("killed"), false);
            _exit(0);  // the driver would wait for work that never ends
        }
        return 0;
    }
    if (mode == "killed") {
        // Who waits is a process of its own, as it cannot end in an orderly way.
        CHECK(cudaFree(nullptr));
        int status = -1;
        const pid_t waiting = start_child("waiting");
        EXPECT_EQ(waitpid(waiting, &status, 0), waiting);
        EXPECT_EQ(status, 0);
        return passed("killed");
    }
    pid_t child = start_child(mode);
    if (mode == "told") {
        parent_of_killed(child, true);
        return passed("told");
    }
    EXPECT(mode == "handles" || mode == "mappings" || mode == "pool");
    if (mode == "handles") parent_by_handle();
    if (mode == "mappings") parent_mappings();
    if (mode == "pool") parent_pool();
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    return passed(argv[1]);
}
