// Memory that grows and shrinks piece by piece in a reserved range of addresses, as frameworks' allocators have it. What cannot
// be is refused at once; of what can be nothing waits for the server.
#include <cuda.h>

#include "check.h"

constexpr size_t k_piece = 2u << 20, k_pieces = 64, k_words = k_piece / sizeof(int);

#define CHECK_CU(call) EXPECT_EQ(static_cast<int>(call), static_cast<int>(CUDA_SUCCESS))
#define EXPECT_CU(result, call) EXPECT_EQ(static_cast<int>(call), static_cast<int>(result))

__global__ void number(int* words, size_t count, int first) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        words[i] = first + static_cast<int>(i);
}

static CUmemAllocationProp device_memory() {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return properties;
}

static CUdeviceptr g_base;

static CUmemGenericAllocationHandle create(size_t bytes) {
    const CUmemAllocationProp properties = device_memory();
    CUmemGenericAllocationHandle memory = 0;
    CHECK_CU(cuMemCreate(&memory, bytes, &properties, 0));
    return memory;
}

// The handle is released at once: the mapping keeps the memory.
static void grow(size_t piece, size_t bytes = k_piece) {
    const CUmemGenericAllocationHandle memory = create(bytes);
    CHECK_CU(cuMemMap(g_base + piece * k_piece, bytes, 0, memory, 0));
    CHECK_CU(cuMemRelease(memory));
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CHECK_CU(cuMemSetAccess(g_base + piece * k_piece, bytes, &access, 1));
}

static void shrink(size_t piece, size_t bytes = k_piece) { CHECK_CU(cuMemUnmap(g_base + piece * k_piece, bytes)); }

static void verify(size_t from, size_t count, int first) {
    number<<<16, 256>>>(reinterpret_cast<int*>(g_base + from * k_piece), count * k_words, first);
    CHECK(cudaGetLastError());
    std::vector<int> words(count * k_words);
    CHECK(cudaMemcpy(words.data(), reinterpret_cast<void*>(g_base + from * k_piece), count * k_piece, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < words.size(); ++i) EXPECT_EQ(words[i], first + static_cast<int>(i));
}

// Each of these is told by the call itself, whoever decides.
static void refused() {
    const CUmemAllocationProp properties = device_memory();
    CUmemGenericAllocationHandle memory = 0;
    EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate(&memory, size_t{1} << 46, &properties, 0));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&memory, 1000, &properties, 0));
    memory = create(k_piece);
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemMap(g_base, k_piece, 0, memory, 0));                       // something is there
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemMap(g_base + k_pieces * k_piece, k_piece, 0, memory, 0));  // not reserved
    EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED,
              cuMemMap(g_base + k_pieces / 2 * k_piece, 2 * k_piece, 0, memory, 0));  // longer than it is
    CHECK_CU(cuMemRelease(memory));
}

int main() {
    CHECK(cudaFree(nullptr));
    CHECK_CU(cuMemAddressReserve(&g_base, k_pieces * k_piece, 0, 0, 0));
    for (size_t piece = 0; piece < k_pieces / 2; ++piece) grow(piece);
    refused();
    verify(0, k_pieces / 2, 1);
    // Again and again: what has gone is there for the next.
    for (int round = 0; round < 8; ++round) {
        for (size_t piece = k_pieces / 2; piece < k_pieces; ++piece) grow(piece);
        if (round % 4 == 0) verify(0, k_pieces, round);
        for (size_t piece = k_pieces / 2; piece < k_pieces; ++piece) shrink(piece);
    }
    grow(k_pieces / 2, 8 * k_piece);
    verify(k_pieces / 2 - 1, 9, 7);
    shrink(k_pieces / 2, 8 * k_piece);
    shrink(0, k_pieces / 2 * k_piece);
    CHECK_CU(cuMemAddressFree(g_base, k_pieces * k_piece));
    std::printf("verified: %zu pieces\n", k_pieces);
    return 0;
}
