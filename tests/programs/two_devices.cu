// Copies that touch the memory of another device than the current one, in all the ways that CUDA has for them, without peer
// access; and a kernel that is set up on one of them.
#include <cstring>

#include "check.h"

static constexpr size_t k_bytes = 300000, k_pitch = 1000, k_width = 700, k_rows = 100;

static std::vector<unsigned char> pattern(unsigned seed) {
    std::vector<unsigned char> bytes(k_bytes);
    for (size_t i = 0; i < k_bytes; ++i) bytes[i] = static_cast<unsigned char>(i * 31 + i / 251 + seed);
    return bytes;
}

static unsigned char* device_memory[2];

static void fill(int device, unsigned seed) {
    CHECK(cudaSetDevice(device));
    CHECK(cudaMemcpy(device_memory[device], pattern(seed).data(), k_bytes, cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize());
}
static void expect(int device, unsigned seed) {
    CHECK(cudaSetDevice(device));
    std::vector<unsigned char> got(k_bytes);
    CHECK(cudaMemcpy(got.data(), device_memory[device], k_bytes, cudaMemcpyDeviceToHost));
    EXPECT(got == pattern(seed));
}

static void between_devices(int current) {
    cudaStream_t stream;
    fill(0, 1);
    fill(1, 2);
    CHECK(cudaSetDevice(current));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMemcpy(device_memory[1], device_memory[0], k_bytes, cudaMemcpyDeviceToDevice));
    CHECK(cudaDeviceSynchronize());
    expect(1, 1);
    fill(0, 3);
    CHECK(cudaSetDevice(current));
    CHECK(cudaMemcpyAsync(device_memory[1], device_memory[0], k_bytes, cudaMemcpyDefault, stream));
    CHECK(cudaStreamSynchronize(stream));
    expect(1, 3);
    fill(1, 4);
    CHECK(cudaSetDevice(current));
    CHECK(cudaMemcpyPeerAsync(device_memory[0], 0, device_memory[1], 1, k_bytes, stream));
    CHECK(cudaStreamSynchronize(stream));
    expect(0, 4);
    fill(1, 5);
    CHECK(cudaSetDevice(current));
    CHECK(cudaMemcpy2D(device_memory[0], k_bytes, device_memory[1], k_bytes, k_bytes, 1, cudaMemcpyDeviceToDevice));
    CHECK(cudaDeviceSynchronize());
    expect(0, 5);
    CHECK(cudaSetDevice(current));
    CHECK(cudaStreamDestroy(stream));
}

/// To and from the host while the other device is current.
static void from_elsewhere(int current) {
    const int other = 1 - current;
    cudaStream_t stream;
    CHECK(cudaSetDevice(current));
    CHECK(cudaStreamCreate(&stream));
    unsigned char* pinned = nullptr;
    CHECK(cudaMallocHost(&pinned, k_bytes));
    CHECK(cudaMemcpy(device_memory[other], pattern(6).data(), k_bytes, cudaMemcpyHostToDevice));
    std::vector<unsigned char> got(k_bytes);
    CHECK(cudaMemcpy(got.data(), device_memory[other], k_bytes, cudaMemcpyDeviceToHost));
    EXPECT(got == pattern(6));
    std::memcpy(pinned, pattern(7).data(), k_bytes);
    CHECK(cudaMemcpyAsync(device_memory[other], pinned, k_bytes, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(pinned, device_memory[other], k_bytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(std::memcmp(pinned, pattern(7).data(), k_bytes) == 0);
    expect(other, 7);
    CHECK(cudaSetDevice(current));
    std::vector<unsigned char> rows(k_width * k_rows, 'r'), back(k_width * k_rows);
    CHECK(cudaMemcpy2D(device_memory[other], k_pitch, rows.data(), k_width, k_width, k_rows, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2D(back.data(), k_width, device_memory[other], k_pitch, k_width, k_rows, cudaMemcpyDeviceToHost));
    EXPECT(back == rows);
    std::memset(pinned, 's', k_width * k_rows);
    CHECK(cudaMemcpy2DAsync(device_memory[other], k_pitch, pinned, k_width, k_width, k_rows, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpy2DAsync(pinned + 100000, k_width, device_memory[other], k_pitch, k_width, k_rows, cudaMemcpyDeviceToHost,
                            stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(std::memcmp(pinned + 100000, pinned, k_width * k_rows) == 0);
    // Fills, as a program that forgot whose memory it is makes them.
    CHECK(cudaMemset(device_memory[other], 8, k_bytes));
    CHECK(cudaMemcpy(got.data(), device_memory[other], k_bytes, cudaMemcpyDeviceToHost));
    EXPECT(got == std::vector<unsigned char>(k_bytes, 8));
    CHECK(cudaMemsetAsync(device_memory[other], 9, k_bytes, stream));
    CHECK(cudaMemset2DAsync(device_memory[other], k_pitch, 10, k_width, k_rows, stream));
    CHECK(cudaMemcpyAsync(pinned, device_memory[other], k_bytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(pinned[0] == 10 && pinned[k_width] == (k_pitch > k_width ? 9 : 10));
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaStreamDestroy(stream));
}

__global__ void touch_shared(unsigned char* data) {
    extern __shared__ unsigned char staged[];
    staged[threadIdx.x] = data[threadIdx.x];
    data[threadIdx.x] = staged[threadIdx.x];
}

/// A kernel is set up for each device by itself.
static void set_up_on_one() {
    constexpr int k_much = 64 << 10;
    const auto shared_bytes = [](int device) {
        CHECK(cudaSetDevice(device));
        cudaFuncAttributes attributes{};
        CHECK(cudaFuncGetAttributes(&attributes, touch_shared));
        return attributes.maxDynamicSharedSizeBytes;
    };
    EXPECT(shared_bytes(0) < k_much && shared_bytes(1) < k_much);
    CHECK(cudaSetDevice(1));
    CHECK(cudaFuncSetAttribute(touch_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, k_much));
    EXPECT(shared_bytes(0) < k_much);
    EXPECT_EQ(shared_bytes(1), k_much);
    for (int device = 0; device < 2; ++device) {
        CHECK(cudaSetDevice(device));
        touch_shared<<<1, 32, k_much>>>(device_memory[device]);
        EXPECT_EQ(cudaGetLastError(), device == 0 ? cudaErrorInvalidValue : cudaSuccess);
        CHECK(cudaDeviceSynchronize());
    }
}

// "A memory copy will succeed even if it is issued to a stream that is not associated to the current device" (CUDA C++
// Programming Guide): of memory of either device, with the program's and within it, linear and in rows; and fills.
static void in_a_stream_of_the_other_device(int current, int owner) {
    cudaStream_t stream;
    CHECK(cudaSetDevice(1 - current));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaSetDevice(current));
    unsigned char* memory = device_memory[owner];
    const std::vector<unsigned char> first = pattern(5), rows = pattern(6);
    std::vector<unsigned char> got(k_bytes), got_rows(k_bytes), filled(k_bytes);
    CHECK(cudaMemcpyAsync(memory, first.data(), k_bytes, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(got.data(), memory, k_bytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaMemcpy2DAsync(memory, k_pitch, rows.data(), k_pitch, k_width, k_rows, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpy2DAsync(got_rows.data(), k_pitch, memory, k_pitch, k_width, k_rows, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaMemsetAsync(memory, 7, k_pitch, stream));
    CHECK(cudaMemset2DAsync(memory + 2 * k_pitch, k_pitch, 8, k_width, 2, stream));
    CHECK(cudaMemcpyAsync(filled.data(), memory, k_bytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(got == first);
    for (size_t i = 0; i < k_bytes; ++i) {
        const size_t row = i / k_pitch, column = i % k_pitch;
        const bool in_rows = row < k_rows && column < k_width;
        if (in_rows) EXPECT_EQ(got_rows[i], rows[i]);
        const bool in_fill = row == 0 || ((row == 2 || row == 3) && column < k_width);
        EXPECT_EQ(filled[i], in_fill ? (row == 0 ? 7 : 8) : in_rows ? rows[i] : first[i]);
    }
    CHECK(cudaStreamDestroy(stream));
}

static void attributes_of_the_pair() {
    int value = -1;
    CHECK(cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrCudaArrayAccessSupported, 0, 1));
    EXPECT(value == 0 || value == 1);
    for (int unknown : {0, 9, 15, 16, 1000})
        EXPECT(cudaDeviceGetP2PAttribute(&value, static_cast<cudaDeviceP2PAttr>(unknown), 0, 1) == cudaErrorInvalidValue);
    cudaGetLastError();
}

int main() {
    int count = 0;
    CHECK(cudaGetDeviceCount(&count));
    if (count < 2) {
        std::printf("one device only: nothing to copy between\n");
        return 0;
    }
    attributes_of_the_pair();
    for (int device = 0; device < 2; ++device) {
        CHECK(cudaSetDevice(device));
        CHECK(cudaMalloc(&device_memory[device], k_bytes));
    }
    for (int current = 0; current < 2; ++current) {
        between_devices(current);
        from_elsewhere(current);
        for (int owner = 0; owner < 2; ++owner) in_a_stream_of_the_other_device(current, owner);
    }
    set_up_on_one();
    std::printf("copies of two devices: verified\n");
}
