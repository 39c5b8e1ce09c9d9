// One side of sharing memory and an event: `give` says what it gives as text and waits until it is told to end, `take` tries to
// use it and says what CUDA answers. The test that runs both decides who they are, and on which servers. `attributes` and
// `descriptors` need nobody else.
#include <cuda.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "check.h"

namespace {

constexpr int k_count = 300000;
constexpr int k_value = 0x17171717;

template <typename F>
F driver(const char* name) {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found));
    EXPECT(function != nullptr);
    return reinterpret_cast<F>(function);
}
#define DRIVER(name) driver<decltype(&name)>(#name)
#define CHECK_CU(call) EXPECT_EQ(static_cast<int>(call), 0)

template <typename T>
std::string text_of(const T& value) {
    std::string text;
    char digits[3];
    for (size_t i = 0; i < sizeof(T); ++i) {
        std::snprintf(digits, sizeof digits, "%02x", reinterpret_cast<const unsigned char*>(&value)[i]);
        text += digits;
    }
    return text;
}

template <typename T>
T value_of(const char* text) {
    T value{};
    EXPECT(std::strlen(text) == 2 * sizeof(T));
    for (size_t i = 0; i < sizeof(T); ++i)
        reinterpret_cast<unsigned char*>(&value)[i] =
            static_cast<unsigned char>(std::stoi(std::string(text + 2 * i, 2), nullptr, 16));
    return value;
}

// With `small`, memory that has others beside it, and another allocation in its place when it has been freed.
void give(bool small) {
    const size_t bytes = (small ? 1000 : k_count) * sizeof(int);
    int *data = nullptr, *beside = nullptr, *next = nullptr;
    cudaEvent_t event = nullptr;
    cudaIpcMemHandle_t memory, again;
    cudaIpcEventHandle_t of_event;
    CHECK(cudaMalloc(&data, bytes));
    CHECK(cudaMalloc(&beside, bytes));
    CHECK(cudaMemset(data, 0x17, bytes));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess));
    CHECK(cudaEventRecord(event));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaIpcGetMemHandle(&memory, data));
    CHECK(cudaIpcGetMemHandle(&again, data));
    EXPECT(std::memcmp(&memory, &again, sizeof memory) == 0);
    // A process opens neither its own memory nor its own events.
    void* own = nullptr;
    EXPECT_EQ(cudaIpcOpenMemHandle(&own, memory, cudaIpcMemLazyEnablePeerAccess), cudaErrorDeviceUninitialized);
    CHECK(cudaIpcGetEventHandle(&of_event, event));
    std::printf("%s %s\n", text_of(memory).c_str(), text_of(of_event).c_str());
    std::fflush(stdout);
    char line[16];
    while (std::fgets(line, sizeof line, stdin) != nullptr) {
        if (line[0] == 'f') {
            CHECK(cudaFree(data));
            CHECK(cudaDeviceSynchronize());
            if (small) CHECK(cudaMalloc(&next, bytes));
            std::puts("freed");
            std::fflush(stdout);
        }
    }
}

void take(const char* memory_text, const char* event_text) {
    int* data = nullptr;
    void *opened = nullptr, *again = nullptr;
    cudaEvent_t event = nullptr;
    const auto memory = value_of<cudaIpcMemHandle_t>(memory_text);
    const cudaError_t of_event = cudaIpcOpenEventHandle(&event, value_of<cudaIpcEventHandle_t>(event_text));
    const cudaError_t of_memory = cudaIpcOpenMemHandle(&opened, memory, cudaIpcMemLazyEnablePeerAccess);
    if (of_event == cudaSuccess) {
        CHECK(cudaStreamWaitEvent(nullptr, event, 0));
        CHECK(cudaEventSynchronize(event));
        CHECK(cudaEventQuery(event));
        CHECK(cudaEventDestroy(event));
    }
    if (of_memory == cudaSuccess) {
        CHECK(cudaIpcOpenMemHandle(&again, memory, cudaIpcMemLazyEnablePeerAccess));
        EXPECT(again == opened);
        data = static_cast<int*>(opened);
        std::vector<int> host(k_count);
        CHECK(cudaMemcpy(host.data(), data, k_count * sizeof(int), cudaMemcpyDeviceToHost));
        for (int value : host) EXPECT_EQ(value, k_value);
        EXPECT_EQ(cudaFree(opened), cudaErrorInvalidValue);
        CHECK(cudaIpcCloseMemHandle(opened));
        CHECK(cudaIpcCloseMemHandle(opened));
        EXPECT_EQ(cudaIpcCloseMemHandle(opened), cudaErrorInvalidValue);
    }
    std::printf("memory %d event %d\n", static_cast<int>(of_memory), static_cast<int>(of_event));
}

void attributes() {
    int value = 0;
    CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrIpcEventSupport, 0));
    EXPECT_EQ(value, 1);
    CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrMemoryPoolSupportedHandleTypes, 0));
    EXPECT((value & cudaMemHandleTypePosixFileDescriptor) != 0);  // and of a fabric, where there is one
    // Of the driver's: HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED.
    CHECK(cudaDeviceGetAttribute(
        &value, static_cast<cudaDeviceAttr>(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED), 0));
    EXPECT_EQ(value, 1);
    void *data = nullptr, *pooled = nullptr;
    CHECK(cudaMalloc(&data, 64));
    CHECK(cudaMallocAsync(&pooled, 64, nullptr));
    cudaIpcMemHandle_t memory;
    EXPECT_EQ(cudaIpcGetMemHandle(&memory, pooled), cudaErrorInvalidValue);
    int capable = 0;
    CHECK_CU(DRIVER(cuPointerGetAttribute)(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                           reinterpret_cast<CUdeviceptr>(data)));
    EXPECT_EQ(capable, 1);
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventInterprocess), cudaErrorInvalidValue);
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    cudaIpcEventHandle_t of_event;
    EXPECT_EQ(cudaIpcGetEventHandle(&of_event, event), cudaErrorInvalidResourceHandle);
    std::memset(&memory, 7, sizeof memory);
    EXPECT(cudaIpcOpenMemHandle(&data, memory, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess);
    std::memset(&of_event, 7, sizeof of_event);
    EXPECT_EQ(cudaIpcOpenEventHandle(&event, of_event), cudaErrorMapBufferObjectFailed);
}

// A descriptor keeps memory of which its maker has nothing else any more.
void descriptors() {
    constexpr size_t k_bytes = 64u << 20;
    const auto type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CHECK(cudaFree(nullptr));
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.requestedHandleTypes = type;
    CUmemGenericAllocationHandle memory = 0, plain = 0, imported = 0;
    CHECK_CU(DRIVER(cuMemCreate)(&memory, k_bytes, &properties, 0));
    int fd = -1, other = -1, pipe_ends[2];
    CHECK_CU(DRIVER(cuMemExportToShareableHandle)(&fd, memory, type, 0));
    EXPECT(fd >= 0);
    EXPECT_EQ(static_cast<int>(DRIVER(cuMemExportToShareableHandle)(&other, memory, type, 1)), CUDA_ERROR_INVALID_VALUE);
    CHECK_CU(DRIVER(cuMemRelease)(memory));
    // The process that has made it can import it as well, and as often as it likes.
    const auto import = DRIVER(cuMemImportFromShareableHandle);
    for (int i = 0; i < 2; ++i) {
        CHECK_CU(import(&imported, reinterpret_cast<void*>(static_cast<intptr_t>(fd)), type));
        CUmemAllocationProp told{};
        CHECK_CU(DRIVER(cuMemGetAllocationPropertiesFromHandle)(&told, imported));
        EXPECT_EQ(told.location.id, 0);
        CHECK_CU(DRIVER(cuMemRelease)(imported));
    }
    // What is no such descriptor.
    EXPECT(pipe(pipe_ends) == 0);
    for (int bad : {pipe_ends[0], 0, -1, 9999})
        EXPECT_EQ(static_cast<int>(import(&imported, reinterpret_cast<void*>(static_cast<intptr_t>(bad)), type)),
                  CUDA_ERROR_INVALID_VALUE);
    CUmemoryPool pool = nullptr;
    EXPECT_EQ(static_cast<int>(DRIVER(cuMemPoolImportFromShareableHandle)(
                  &pool, reinterpret_cast<void*>(static_cast<intptr_t>(fd)), type, 0)),
              CUDA_ERROR_INVALID_VALUE);
    close(fd);
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    CHECK_CU(DRIVER(cuMemCreate)(&plain, k_bytes, &properties, 0));
    EXPECT_EQ(static_cast<int>(DRIVER(cuMemExportToShareableHandle)(&other, plain, type, 0)), CUDA_ERROR_INVALID_VALUE);
    CHECK_CU(DRIVER(cuMemRelease)(plain));
}

// Descriptors come and go; says when all are gone but one, and ends when it is told to.
void many() {
    const auto type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CHECK(cudaFree(nullptr));
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.requestedHandleTypes = type;
    for (int i = 0; i < 100; ++i) {
        CUmemGenericAllocationHandle memory = 0;
        int fd = -1;
        CHECK_CU(DRIVER(cuMemCreate)(&memory, 2u << 20, &properties, 0));
        CHECK_CU(DRIVER(cuMemExportToShareableHandle)(&fd, memory, type, 0));
        CHECK_CU(DRIVER(cuMemRelease)(memory));
        close(fd);
    }
    CHECK(cudaDeviceSynchronize());
    std::puts("many");
    std::fflush(stdout);
    std::getchar();
}

}  // namespace

int main(int argc, char** argv) {
    const std::string mode = argc > 1 ? argv[1] : "";
    if (mode == "give") {
        give(argc > 2 && std::strcmp(argv[2], "small") == 0);
    } else if (mode == "take") {
        EXPECT_EQ(argc, 4);
        take(argv[2], argv[3]);
    } else if (mode == "attributes") {
        attributes();
    } else if (mode == "many") {
        many();
    } else {
        EXPECT(mode == "descriptors");
        descriptors();
    }
    if (mode != "take" && mode != "give" && mode != "many") return passed(argv[1]);
    return 0;
}
