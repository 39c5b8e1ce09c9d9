// Copies of every shape: pageable and pinned, 1D, 2D with pitch, 3D, device to device, memset of all kinds, default direction, large.
#include <cstring>

#include "check.h"

static void two_dimensions() {
    const int width = 37, height = 21;
    size_t pitch = 0;
    unsigned char* device;
    CHECK(cudaMallocPitch(&device, &pitch, width, height));
    EXPECT(pitch >= width && pitch % 32 == 0);
    std::vector<unsigned char> in(width * height), out(64 * height, 0xee);
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<unsigned char>(i * 7);
    CHECK(cudaMemset2D(device, pitch, 0x11, width, height));
    CHECK(cudaMemcpy2D(device, pitch, in.data(), width, width - 1, height, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2D(out.data(), 64, device, pitch, width, height, cudaMemcpyDeviceToHost));
    for (int y = 0; y < height; ++y)
        for (int x = 0; x < 64; ++x)
            EXPECT_EQ(out[y * 64 + x], x < width - 1 ? in[y * width + x] : x < width ? 0x11 : 0xee);
    CHECK(cudaFree(device));
}

static void three_dimensions() {
    const cudaExtent extent = make_cudaExtent(20, 6, 5);
    cudaPitchedPtr device;
    CHECK(cudaMalloc3D(&device, extent));
    std::vector<unsigned char> in(20 * 6 * 5), out(20 * 6 * 5, 0);
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<unsigned char>(i * 3 + 1);
    cudaMemcpy3DParms up = {};
    up.srcPtr = make_cudaPitchedPtr(in.data(), 20, 20, 6);
    up.dstPtr = device;
    up.extent = extent;
    up.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&up));
    cudaMemcpy3DParms down = {};
    down.srcPtr = device;
    down.dstPtr = make_cudaPitchedPtr(out.data(), 20, 20, 6);
    down.extent = extent;
    down.kind = cudaMemcpyDeviceToHost;
    CHECK(cudaMemcpy3D(&down));
    EXPECT(in == out);
    CHECK(cudaFree(device.ptr));
}

static void large(size_t bytes) {
    std::vector<unsigned char> in(bytes), out(bytes);
    Random random(9);
    for (size_t i = 0; i < bytes; i += 97) in[i] = static_cast<unsigned char>(random.next());
    unsigned char *a, *b;
    CHECK(cudaMalloc(&a, bytes));
    CHECK(cudaMalloc(&b, bytes));
    CHECK(cudaMemcpy(a, in.data(), bytes, cudaMemcpyDefault));
    CHECK(cudaMemcpy(b, a, bytes, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemset(a, 0, bytes));
    CHECK(cudaMemcpy(out.data(), b, bytes, cudaMemcpyDefault));
    EXPECT(in == out);
    // Into the middle, from the middle, odd sizes.
    CHECK(cudaMemcpy(a + 13, in.data() + 7, 1001, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(out.data(), a + 12, 1003, cudaMemcpyDeviceToHost));
    EXPECT(out[0] == 0 && out[1002] == 0 && std::memcmp(out.data() + 1, in.data() + 7, 1001) == 0);
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
}

static void asynchronous_pageable() {
    // The source may be changed as soon as the call returns, when it is pageable memory.
    const int n = 1000;
    std::vector<int> in(n), out(n, -1);
    int* device;
    CHECK(cudaMalloc(&device, n * sizeof(int)));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    for (int i = 0; i < n; ++i) in[i] = i;
    CHECK(cudaMemcpyAsync(device, in.data(), n * sizeof(int), cudaMemcpyHostToDevice, stream));
    std::fill(in.begin(), in.end(), 0);
    CHECK(cudaMemsetAsync(device, 0xff, 10 * sizeof(int), stream));
    CHECK(cudaMemcpyAsync(out.data(), device, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < n; ++i) EXPECT_EQ(out[i], i < 10 ? -1 : i);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(device));
}

static void attributes() {
    int local = 0;
    int *device, *pinned;
    CHECK(cudaMalloc(&device, 4096));
    CHECK(cudaMallocHost(&pinned, 4096));
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, device + 5));
    EXPECT(attributes.type == cudaMemoryTypeDevice && attributes.device == 0 && attributes.devicePointer == device + 5);
    CHECK(cudaPointerGetAttributes(&attributes, pinned));
    EXPECT(attributes.type == cudaMemoryTypeHost && attributes.hostPointer == pinned);
    CHECK(cudaPointerGetAttributes(&attributes, &local));
    EXPECT(attributes.type == cudaMemoryTypeUnregistered);
    size_t free_before, free_after, total;
    CHECK(cudaMemGetInfo(&free_before, &total));
    EXPECT(free_before <= total && total > 0);
    void* block;
    CHECK(cudaMalloc(&block, 64 << 20));
    CHECK(cudaMemGetInfo(&free_after, &total));
    EXPECT(free_after <= free_before - (64 << 20));
    CHECK(cudaFree(block));
    CHECK(cudaFree(device));
    CHECK(cudaFreeHost(pinned));
}

static void many_allocations() {
    std::vector<unsigned char*> blocks;
    Random random(11);
    for (int i = 0; i < 300; ++i) {
        size_t bytes = 1 + random.next() % 100000;
        unsigned char* block;
        CHECK(cudaMalloc(&block, bytes));
        EXPECT(reinterpret_cast<size_t>(block) % 256 == 0);
        CHECK(cudaMemset(block, i & 0xff, bytes));
        blocks.push_back(block);
        if (i % 3 == 2) {
            size_t victim = random.next() % blocks.size();
            CHECK(cudaFree(blocks[victim]));
            blocks[victim] = blocks.back();
            blocks.pop_back();
        }
    }
    for (auto* block : blocks) {
        unsigned char value;
        CHECK(cudaMemcpy(&value, block, 1, cudaMemcpyDeviceToHost));
        CHECK(cudaFree(block));
    }
    CHECK(cudaFree(nullptr));
}

int main() {
    two_dimensions();
    three_dimensions();
    large(3 << 20);
    large(40 << 20);
    asynchronous_pageable();
    attributes();
    many_allocations();
    return passed("copies");
}
