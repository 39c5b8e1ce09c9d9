// Instructions that need pages of two regions at once, of two contexts, while the device may be writing to them.
#include <cstring>

#include "driver_calls.h"

__global__ void add(unsigned char* to, size_t count, int value) {
    for (size_t i = threadIdx.x; i < count; i += blockDim.x) to[i] = static_cast<unsigned char>(to[i] + value);
}

static CUcontext new_context(CUdevice device) {
    CUcontext context;
    CUctxCreateParams params{};
    DRIVER(cuCtxCreate(&context, &params, 0, device));
    return context;
}

static unsigned char* page_locked(size_t bytes, unsigned flags) {
    void* memory = nullptr;
    DRIVER(cuMemHostAlloc(&memory, bytes, flags));
    return static_cast<unsigned char*>(memory);
}

// One instruction, whatever the library's memcpy() is.
static void move(unsigned char* to, const unsigned char* from, size_t bytes) {
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

static void of_two_contexts(CUdevice second_device) {
    constexpr size_t k_bytes = 20000;
    const CUcontext first = new_context(0);
    unsigned char* const to = page_locked(k_bytes, CU_MEMHOSTALLOC_PORTABLE);
    const CUcontext second = new_context(second_device);
    unsigned char* const from = page_locked(k_bytes, CU_MEMHOSTALLOC_PORTABLE);
    for (const size_t bytes : {size_t{4}, size_t{4099}, k_bytes}) {
        std::memset(from, 1, k_bytes);
        std::memset(to, 2, k_bytes);
        CHECK((add<<<1, 128>>>(from, k_bytes, 10), add<<<1, 128>>>(to, k_bytes, 20), cudaGetLastError()));
        DRIVER(cuStreamSynchronize(nullptr));
        move(to, from, bytes);
        for (size_t i = 0; i < k_bytes; ++i) EXPECT_EQ(to[i], i < bytes ? 11 : 22);
    }
    DRIVER(cuMemFreeHost(from));
    DRIVER(cuCtxSetCurrent(first));
    DRIVER(cuMemFreeHost(to));
    DRIVER(cuCtxDestroy(second));
    DRIVER(cuCtxDestroy(first));
}

int main() {
    int devices = 0;
    DRIVER(cuInit(0));
    CHECK(cudaGetDeviceCount(&devices));
    of_two_contexts(0);
    if (devices > 1) of_two_contexts(1);
    return passed("pages of two regions");
}
