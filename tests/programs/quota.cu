// Device memory up to a limit and beyond it, by every call that gives some. The limit, in MiB, is the first argument; the
// second one, `own`, says that the driver chooses addresses (no virtual memory management).
#include <cuda.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "check.h"

constexpr size_t k_mib = 1u << 20, k_piece = 8 * k_mib;

static size_t g_limit;

// One word of 256 bytes says whose memory it is.
constexpr size_t k_marked = 64;

__global__ void fill(uint32_t* words, size_t count, uint32_t value) {
    const size_t first = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
    for (size_t i = first * k_marked; i < count; i += all * k_marked) words[i] = value + static_cast<uint32_t>(i);
}

#define CHECK_CU(call) EXPECT_EQ(static_cast<int>(call), static_cast<int>(CUDA_SUCCESS))
#define EXPECT_FULL(call)                                                              \
    do {                                                                               \
        EXPECT_EQ(static_cast<int>(call), static_cast<int>(CUDA_ERROR_OUT_OF_MEMORY)); \
        static_cast<void>(cudaGetLastError());                                         \
    } while (0)

static size_t left() {
    size_t free_bytes = 0, total_bytes = 0;
    CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    EXPECT_EQ(total_bytes, g_limit);
    return free_bytes;
}

// One way to have memory: pieces of it, and whether kernels can write there.
struct Way {
    const char* name;
    int (*give)(void** out);
    void (*take_back)(void* memory);
    bool linear;
};

static CUdeviceptr pointer(void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }
static CUDA_ARRAY3D_DESCRIPTOR array_of(size_t width, size_t height, size_t depth, unsigned flags = 0) {
    return {width, height, depth, CU_AD_FORMAT_FLOAT, 4, flags};
}

static int pitched(void** out) {
    size_t pitch = 0;
    const int result = cudaMallocPitch(out, &pitch, 4096, k_piece / 4096);
    if (result == 0) EXPECT_EQ(pitch, size_t{4096});
    return result;
}
static int flat_array(void** out) {
    const CUDA_ARRAY_DESCRIPTOR array{512, 1024, CU_AD_FORMAT_FLOAT, 4};
    return cuArrayCreate(reinterpret_cast<CUarray*>(out), &array);
}
static int deep_array(void** out) {
    const CUDA_ARRAY3D_DESCRIPTOR array = array_of(128, 64, 64);
    return cuArray3DCreate(reinterpret_cast<CUarray*>(out), &array);
}
static int layered_array(void** out) {
    const CUDA_ARRAY3D_DESCRIPTOR array = array_of(512, 256, 4, CUDA_ARRAY3D_LAYERED);
    return cuArray3DCreate(reinterpret_cast<CUarray*>(out), &array);
}
static int one_level(void** out) {
    const CUDA_ARRAY3D_DESCRIPTOR array = array_of(512, 1024, 0);
    return cuMipmappedArrayCreate(reinterpret_cast<CUmipmappedArray*>(out), &array, 1);
}
static int stream_ordered(void** out) { return cudaMallocAsync(out, k_piece, 0); }
static CUmemAllocationProp device_memory() {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    return properties;
}
static int physical(void** out) {
    const CUmemAllocationProp properties = device_memory();
    CUmemGenericAllocationHandle handle = 0;
    const int result = cuMemCreate(&handle, k_piece, &properties, 0);
    *out = reinterpret_cast<void*>(handle);
    return result;
}
// The handle is released: only the mapping keeps the memory.
static int mapped(void** out) {
    CUdeviceptr address = 0;
    void* memory = nullptr;
    if (const int result = physical(&memory); result != 0) return result;
    CHECK_CU(cuMemAddressReserve(&address, k_piece, 0, 0, 0));
    const auto handle = reinterpret_cast<CUmemGenericAllocationHandle>(memory);
    CHECK_CU(cuMemMap(address, k_piece, 0, handle, 0));
    CHECK_CU(cuMemRelease(handle));
    CUmemAccessDesc access{};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CHECK_CU(cuMemSetAccess(address, k_piece, &access, 1));
    *out = reinterpret_cast<void*>(address);
    return 0;
}

static void free_plain(void* memory) { CHECK(cudaFree(memory)); }
static void free_array(void* memory) { CHECK_CU(cuArrayDestroy(static_cast<CUarray>(memory))); }
static void free_levels(void* memory) { CHECK_CU(cuMipmappedArrayDestroy(static_cast<CUmipmappedArray>(memory))); }
static void free_ordered(void* memory) {
    CHECK(cudaFreeAsync(memory, 0));
    CHECK(cudaStreamSynchronize(0));
    cudaMemPool_t pool;
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    CHECK(cudaMemPoolTrimTo(pool, 0));
}
static void free_physical(void* memory) { CHECK_CU(cuMemRelease(reinterpret_cast<CUmemGenericAllocationHandle>(memory))); }
static void free_mapped(void* memory) {
    CHECK_CU(cuMemUnmap(pointer(memory), k_piece));
    CHECK_CU(cuMemAddressFree(pointer(memory), k_piece));
}

static void write(void* memory, uint32_t value) {
    fill<<<8, 256>>>(static_cast<uint32_t*>(memory), k_piece / 4, value);
    CHECK(cudaGetLastError());
}
static void read(void* memory, uint32_t value) {
    std::vector<uint32_t> words(k_piece / 4);
    CHECK(cudaMemcpy(words.data(), memory, k_piece, cudaMemcpyDefault));
    for (size_t i = 0; i < words.size(); i += k_marked) EXPECT_EQ(words[i], value + static_cast<uint32_t>(i));
}

// As many pieces as there is room for, and not one more; nothing is lost; what is freed is there again.
static void try_way(const Way& way) {
    std::vector<void*> pieces;
    const size_t whole = left();
    EXPECT_EQ(whole, g_limit);
    for (int result = 0; result == 0;) {
        void* memory = nullptr;
        result = way.give(&memory);
        if (result != 0) {
            EXPECT_FULL(result);
            break;
        }
        pieces.push_back(memory);
        EXPECT_EQ(left(), whole - pieces.size() * k_piece);
        if (way.linear) write(memory, static_cast<uint32_t>(pieces.size()) << 20);
    }
    if (pieces.size() != g_limit / k_piece) {
        std::fprintf(stderr, "%s: %zu pieces of %zu bytes\n", way.name, pieces.size(), k_piece);
        fail();
    }
    // Full, whoever asks.
    void* memory = nullptr;
    EXPECT_FULL(cudaMalloc(&memory, 1));
    EXPECT_FULL(flat_array(&memory));
    for (size_t i = 0; way.linear && i < pieces.size(); ++i) read(pieces[i], static_cast<uint32_t>(i + 1) << 20);
    // Room for one is room for one.
    way.take_back(pieces.back());
    pieces.pop_back();
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(left(), k_piece);
    int result = way.give(&memory);
    EXPECT_EQ(result, 0);
    pieces.push_back(memory);
    EXPECT_FULL(way.give(&memory));
    for (void* piece : pieces) way.take_back(piece);
    CHECK(cudaDeviceSynchronize());
}

// The levels below the first one count, too.
static void levels_count() {
    const CUDA_ARRAY3D_DESCRIPTOR array = array_of(512, 1024, 0);
    CUmipmappedArray levels = nullptr;
    CHECK_CU(cuMipmappedArrayCreate(&levels, &array, 11));
    EXPECT(left() < g_limit - k_piece && left() >= g_limit - k_piece - k_piece / 3 - k_mib);
    CHECK_CU(cuMipmappedArrayDestroy(levels));
    EXPECT_EQ(left(), g_limit);
}

// A handle and two mappings of it are one piece of memory, until the last of them has gone.
static void kept_by_mappings() {
    void* memory = nullptr;
    EXPECT_EQ(physical(&memory), 0);
    const auto handle = reinterpret_cast<CUmemGenericAllocationHandle>(memory);
    CUdeviceptr first = 0, second = 0;
    CHECK_CU(cuMemAddressReserve(&first, k_piece, 0, 0, 0));
    CHECK_CU(cuMemAddressReserve(&second, k_piece, 0, 0, 0));
    CHECK_CU(cuMemMap(first, k_piece, 0, handle, 0));
    CHECK_CU(cuMemMap(second, k_piece, 0, handle, 0));
    EXPECT_EQ(left(), g_limit - k_piece);
    CHECK_CU(cuMemRelease(handle));
    EXPECT_EQ(left(), g_limit - k_piece);
    CHECK_CU(cuMemUnmap(first, k_piece));
    EXPECT_EQ(left(), g_limit - k_piece);
    CHECK_CU(cuMemUnmap(second, k_piece));
    EXPECT_EQ(left(), g_limit);
    CHECK_CU(cuMemAddressFree(first, k_piece));
    CHECK_CU(cuMemAddressFree(second, k_piece));
}

// What graphs allocate, captured or by hand.
static void graphs() {
    const size_t most = g_limit / 8 * 5;
    void *held = nullptr, *memory = nullptr;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&held, g_limit / 2));

    // Beside what is held there is no room for it.
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    EXPECT_FULL(cudaMallocAsync(&memory, most, stream));
    static_cast<void>(cudaStreamEndCapture(stream, &graph));
    static_cast<void>(cudaGetLastError());
    CHECK(cudaGraphCreate(&graph, 0));
    cudaMemAllocNodeParams params{};
    params.poolProps.allocType = cudaMemAllocationTypePinned;
    params.poolProps.location = {cudaMemLocationTypeDevice, {0}};
    params.bytesize = most;
    cudaGraphNode_t node;
    EXPECT_FULL(cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &params));
    CHECK(cudaGraphDestroy(graph));

    CHECK(cudaFree(held));
    EXPECT_EQ(left(), g_limit);  // nothing is given back while a stream is captured
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    CHECK(cudaMallocAsync(&memory, most, stream));
    fill<<<8, 256, 0, stream>>>(static_cast<uint32_t*>(memory), most / 4, 7);
    CHECK(cudaFreeAsync(memory, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(left(), g_limit - most);  // it is the graph's, for its next launch, unless something else needs it before
    CHECK(cudaMalloc(&held, g_limit / 2));
    CHECK(cudaFree(held));
    EXPECT_EQ(left(), g_limit);
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(left(), g_limit - most);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaDeviceGraphMemTrim(0));
    EXPECT_EQ(left(), g_limit);
    CHECK(cudaMalloc(&held, g_limit / 2));
    CHECK(cudaFree(held));
    CHECK(cudaStreamDestroy(stream));
}

// Programs free and allocate behind work that still runs; each allocation has the memory of the one before it.
static void in_turn() {
    const size_t bytes = g_limit / 8 * 5;
    for (int i = 0; i < 100; ++i) {
        uint32_t* memory = nullptr;
        CHECK(cudaMalloc(&memory, bytes));
        fill<<<8, 256>>>(memory, 1000, 0);
        CHECK(cudaFree(memory));
    }
    // Small ones share blocks, which go when all in them have.
    std::vector<void*> pieces;
    constexpr size_t k_small = 10000;
    for (void* memory = nullptr; cudaMalloc(&memory, k_small) == cudaSuccess;) pieces.push_back(memory);
    static_cast<void>(cudaGetLastError());
    EXPECT(pieces.size() >= g_limit / k_small / 2 && pieces.size() <= g_limit / k_small);
    for (void* piece : pieces) CHECK(cudaFree(piece));
    CHECK(cudaDeviceSynchronize());
    void* most = nullptr;
    CHECK(cudaMalloc(&most, g_limit - 2 * k_mib));  // one block of small ones may be kept for the next
    EXPECT(left() <= 2 * k_mib);
    CHECK(cudaFree(most));
}

static void sizes() {
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    EXPECT_EQ(properties.totalGlobalMem, g_limit);
    size_t bytes = 0;
    CHECK_CU(cuDeviceTotalMem(&bytes, 0));
    EXPECT_EQ(bytes, g_limit);
    void* memory = nullptr;
    EXPECT_FULL(cudaMalloc(&memory, g_limit + 1));
    EXPECT_FULL(cudaMalloc(&memory, size_t{1} << 45));
}

int main(int argc, char** argv) {
    EXPECT(argc >= 2);
    g_limit = std::strtoull(argv[1], nullptr, 10) * k_mib;
    const bool own = argc > 2 && std::strcmp(argv[2], "own") == 0;
    CHECK(cudaFree(nullptr));
    sizes();
    const Way anywhere[] = {
        {"cudaMalloc", [](void** out) { return static_cast<int>(cudaMalloc(out, k_piece)); }, free_plain, true},
        {"cudaMallocPitch", pitched, free_plain, true},
        {"cuArrayCreate", flat_array, free_array, false},
        {"cuArray3DCreate", deep_array, free_array, false},
        {"cuArray3DCreate, layered", layered_array, free_array, false},
        {"cuMipmappedArrayCreate", one_level, free_levels, false},
        {"cudaMallocAsync", stream_ordered, free_ordered, true},
    };
    const Way with_mappings[] = {
        {"cudaMallocManaged", [](void** out) { return static_cast<int>(cudaMallocManaged(out, k_piece)); }, free_plain, true},
        {"cuMemCreate", physical, free_physical, false},
        {"cuMemMap", mapped, free_mapped, true},
    };
    for (const Way& way : anywhere) try_way(way);
    for (const Way& way : with_mappings)
        if (!own) try_way(way);
    levels_count();
    if (!own) kept_by_mappings();
    graphs();
    in_turn();
    std::printf("verified: %s\n", argv[1]);
    return 0;
}
