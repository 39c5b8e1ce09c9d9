// What waits in the driver for a function that a stream calls (an array that is destroyed, memory that is unmapped, a capture that
// begins behind such an unmapping) does not keep the function from the pages that it needs to return (A7). Natively the program
// waits in the call; through a server it goes on, and lets the function go on in turn.
#include <atomic>
#include <string>

#include "driver_calls.h"

__global__ void fill(int* to, int count, int value) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) to[i] = value;
}

constexpr int k_count = 200000;

struct Reader {
    std::atomic<bool> open{false};
    const int* memory = nullptr;
    int seen = 0;
};

static void read_all(void* of) {
    auto* const reader = static_cast<Reader*>(of);
    reader->open.wait(false);
    for (int i = 0; i < k_count; i += 1000) reader->seen += reader->memory[i];
}

static void destroy_array(bool mipmapped) {
    const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    if (mipmapped) {
        cudaMipmappedArray_t array;
        CHECK(cudaMallocMipmappedArray(&array, &format, cudaExtent{64, 64, 0}, 3));
        CHECK(cudaFreeMipmappedArray(array));
    } else {
        cudaArray_t array;
        CHECK(cudaMallocArray(&array, &format, 64, 64));
        CHECK(cudaFreeArray(array));
    }
}

static void unmap() {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    size_t bytes = 0;
    CUdeviceptr address;
    CUmemGenericAllocationHandle memory;
    DRIVER(cuMemGetAllocationGranularity(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    DRIVER(cuMemAddressReserve(&address, bytes, 0, 0, 0));
    DRIVER(cuMemCreate(&memory, bytes, &properties, 0));
    DRIVER(cuMemMap(address, bytes, 0, memory, 0));
    DRIVER(cuMemUnmap(address, bytes));
    DRIVER(cuMemRelease(memory));
    DRIVER(cuMemAddressFree(address, bytes));
}

static void capture(int* freed) {
    cudaStream_t stream;
    cudaGraph_t graph;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaFree(freed));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
}

int main(int count, char** arguments) {
    const std::string what = count > 1 ? arguments[1] : "array";
    Reader reader;
    int *memory, *freed;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMallocManaged(&memory, k_count * sizeof(int)));
    CHECK(cudaMalloc(&freed, 32 << 20));
    reader.memory = memory;
    fill<<<1, 256, 0, stream>>>(memory, k_count, 3);
    CHECK(cudaLaunchHostFunc(stream, read_all, &reader));
    if (what == "array") destroy_array(false);
    if (what == "mipmapped") destroy_array(true);
    if (what == "unmap") unmap();
    if (what == "capture") capture(freed);
    reader.open = true;
    reader.open.notify_all();
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(reader.seen, 3 * k_count / 1000);
    CHECK(cudaFree(memory));
    return passed(("functions beside frees, " + what).c_str());
}
