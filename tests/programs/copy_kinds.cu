// Copies whose kind does not say what their ends are: by unified addresses it is known all the same (A7). Destructors free nothing
// while a stream is captured.
#include <cstring>

#include "check.h"

constexpr size_t k_rows = 40, k_width = 1000, k_pitch = 1024, k_bytes = k_rows * k_pitch;

__global__ void add(unsigned* to, int count, unsigned more) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) to[i] += more;
}

// What is copied to registered memory, by whichever address of it, is there when a synchronous copy returns; what the program
// writes then is not lost.
static void to_registered() {
    constexpr int k_count = 1000, k_row = 40;
    constexpr size_t k_size = k_count * sizeof(unsigned), k_row_bytes = k_row * sizeof(unsigned);
    static unsigned registered[k_count];
    unsigned* there = nullptr;
    CHECK(cudaHostRegister(registered, k_size, cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(reinterpret_cast<void**>(&there), registered, 0));
    std::vector<unsigned> pageable(k_count);
    DeviceArray<unsigned> device(k_count);
    unsigned* locked = nullptr;
    CHECK(cudaMallocHost(&locked, k_size));
    unsigned first = 0;
    for (int from = 0; from < 3; ++from) {
        for (unsigned* to : {registered, there}) {
            for (bool in_rows : {false, true}) {
                first += 10000;
                for (int i = 0; i < k_count; ++i) locked[i] = pageable[i] = first + i;
                CHECK(cudaMemcpy(device.data(), locked, k_size, cudaMemcpyDefault));
                CHECK(cudaDeviceSynchronize());
                unsigned* const sources[] = {pageable.data(), locked, device.data()};
                if (in_rows)
                    CHECK(cudaMemcpy2D(to, k_row_bytes, sources[from], k_row_bytes, k_row_bytes, k_count / k_row,
                                       cudaMemcpyDefault));
                else
                    CHECK(cudaMemcpy(to, sources[from], k_size, cudaMemcpyDefault));
                // From the device to an address of the device's it need not be over.
                if (from == 2 && to == there) CHECK(cudaDeviceSynchronize());
                for (int i = 0; i < k_count; ++i) EXPECT_EQ(registered[i], first + i);
                registered[10] = 0;
                registered[11] += 1;
                add<<<1, 64>>>(there, k_count, 100);
                CHECK(cudaDeviceSynchronize());
                for (int i = 0; i < k_count; ++i)
                    EXPECT_EQ(registered[i], 100 + (i == 10 ? 0 : i == 11 ? first + 12 : first + i));
            }
        }
    }
    CHECK(cudaFreeHost(locked));
    CHECK(cudaHostUnregister(registered));
}

int main() {
    to_registered();
    std::vector<unsigned char> pattern(k_bytes), found(k_bytes);
    Random random(5);
    for (unsigned char& byte : pattern) byte = static_cast<unsigned char>(random.next());
    DeviceArray<unsigned char> from(pattern), to(k_bytes);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    const auto verify = [&](size_t width) {
        CHECK(cudaStreamSynchronize(stream));
        found = to.download();
        for (size_t i = 0; i < k_bytes; ++i) EXPECT_EQ(+found[i], i % k_pitch < width ? +pattern[i] : 0);
        CHECK(cudaMemset(to.data(), 0, k_bytes));
    };
    CHECK(cudaMemset(to.data(), 0, k_bytes));
    for (const cudaMemcpyKind kind : {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyHostToHost}) {
        CHECK(cudaMemcpy(to.data(), from.data(), k_bytes, kind));
        verify(k_pitch);
        CHECK(cudaMemcpyAsync(to.data(), from.data(), k_bytes, kind, stream));
        verify(k_pitch);
        CHECK(cudaMemcpy2D(to.data(), k_pitch, from.data(), k_pitch, k_width, k_rows, kind));
        verify(k_width);
    }
    // Page-locked memory, the wrong way round.
    unsigned char* locked = nullptr;
    CHECK(cudaMallocHost(&locked, k_bytes));
    memcpy(locked, pattern.data(), k_bytes);
    CHECK(cudaMemcpyAsync(to.data(), locked, k_bytes, cudaMemcpyDeviceToHost, stream));
    verify(k_pitch);
    memset(locked, 0, k_bytes);
    CHECK(cudaMemcpyAsync(locked, from.data(), k_bytes, cudaMemcpyHostToDevice, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(memcmp(locked, pattern.data(), k_bytes) == 0);
    CHECK(cudaFreeHost(locked));

    // Managed memory is the program's again when a copy has returned.
    unsigned char* managed = nullptr;
    CHECK(cudaMallocManaged(&managed, k_bytes));
    for (const cudaMemcpyKind kind : {cudaMemcpyDeviceToHost, cudaMemcpyDefault}) {
        CHECK(cudaMemset(managed, 0, k_bytes));
        CHECK(cudaMemcpy(managed, from.data(), k_bytes, kind));
        EXPECT(memcmp(managed, pattern.data(), k_bytes) == 0);
    }
    for (const cudaMemcpyKind kind : {cudaMemcpyHostToDevice, cudaMemcpyDefault}) {
        memcpy(managed, pattern.data(), k_bytes);
        CHECK(cudaMemcpy(to.data(), managed, k_bytes, kind));
        memset(managed, 0, k_bytes);
        verify(k_pitch);
    }
    CHECK(cudaFree(managed));

    // Nothing to free is a free all the same (docs/driver-behaviour.md, DB-05).
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    EXPECT_EQ(cudaFree(nullptr), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    cudaGetLastError();
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    CHECK(cudaFree(nullptr));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    return passed("kinds of copies");
}
