// Stream-ordered allocation.
#include "check.h"

__global__ void fill(int* data, int n, int value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = value + i;
}

// Where CUDA has them: with concurrentManagedAccess.
static void managed_pools(cudaStream_t stream) {
    int concurrent = 0;
    CHECK(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0));
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypeManaged;
    properties.location = {cudaMemLocationTypeDevice, 0};
    cudaMemPool_t pool;
    const cudaError_t made = cudaMemPoolCreate(&pool, &properties);
    if (!concurrent) {
        EXPECT(made == cudaErrorNotSupported);
        cudaGetLastError();
        return;
    }
    CHECK(made);
    const int n = 3000;
    int* data;
    CHECK(cudaMallocFromPoolAsync(&data, n * sizeof(int), pool, stream));
    fill<<<(n + 127) / 128, 128, 0, stream>>>(data, n, 3);
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < n; ++i) EXPECT_EQ(data[i], i + 3);
    CHECK(cudaFreeAsync(data, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemPoolDestroy(pool));
}

static unsigned long long number(cudaMemPool_t pool, cudaMemPoolAttr attribute) {
    unsigned long long value = ~0ull;
    CHECK(cudaMemPoolGetAttribute(pool, attribute, &value));
    return value;
}
static unsigned long long reserved(cudaMemPool_t pool) { return number(pool, cudaMemPoolAttrReservedMemCurrent); }

// What a pool has of the device: what is freed stays in it until something is waited for, and beyond that as far as its
// threshold lets it.
static void kept(cudaStream_t stream) {
    constexpr unsigned long long k_part = 32ull << 20;  // pools give back parts of this size, if not smaller ones
    const unsigned long long piece = 40ull << 20, everything = ~0ull, nothing = 0;
    cudaStream_t other;
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = {cudaMemLocationTypeDevice, 0};
    cudaMemPool_t pool;
    CHECK(cudaMemPoolCreate(&pool, &properties));
    EXPECT_EQ(reserved(pool), 0u);
    void *one, *two;
    CHECK(cudaMallocFromPoolAsync(&one, piece, pool, stream));
    EXPECT(reserved(pool) >= piece && reserved(pool) < 2 * piece);
    EXPECT_EQ(number(pool, cudaMemPoolAttrUsedMemCurrent), piece);
    CHECK(cudaFreeAsync(one, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(number(pool, cudaMemPoolAttrUsedMemCurrent), 0u);
    EXPECT_EQ(reserved(pool), 0u);  // the threshold is 0 by default
    EXPECT(number(pool, cudaMemPoolAttrReservedMemHigh) >= piece);
    EXPECT_EQ(number(pool, cudaMemPoolAttrUsedMemHigh), piece);

    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, const_cast<unsigned long long*>(&everything)));
    CHECK(cudaMallocFromPoolAsync(&one, piece, pool, stream));
    CHECK(cudaMemsetAsync(one, 1, piece, stream));
    CHECK(cudaFreeAsync(one, stream));
    CHECK(cudaStreamSynchronize(stream));
    const unsigned long long has = reserved(pool);
    EXPECT(has >= piece && has < 2 * piece);
    // Another stream has of it, and what is of another size does not add up.
    CHECK(cudaMallocFromPoolAsync(&one, piece, pool, other));
    EXPECT_EQ(reserved(pool), has);
    CHECK(cudaMemsetAsync(one, 2, piece, other));
    CHECK(cudaFreeAsync(one, other));
    CHECK(cudaDeviceSynchronize());
    for (size_t size : {piece / 4, 3 * piece / 4, 1ull << 19}) {
        std::vector<unsigned char> host(size);
        CHECK(cudaMallocFromPoolAsync(&two, size, pool, stream));
        CHECK(cudaMemsetAsync(two, 7, size, stream));
        CHECK(cudaMemcpyAsync(host.data(), two, size, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaFreeAsync(two, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (size_t i = 0; i < size; i += 4095) EXPECT_EQ(host[i], 7);
        EXPECT(reserved(pool) < 3 * piece);
    }
    CHECK(cudaMallocFromPoolAsync(&one, piece, pool, stream));
    CHECK(cudaMallocFromPoolAsync(&two, piece, pool, stream));
    EXPECT(reserved(pool) >= 2 * piece);
    CHECK(cudaFreeAsync(one, stream));
    CHECK(cudaFreeAsync(two, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(reserved(pool) >= 2 * piece);
    CHECK(cudaMemPoolTrimTo(pool, piece));
    EXPECT(reserved(pool) <= piece + k_part);
    CHECK(cudaMemPoolTrimTo(pool, 0));
    EXPECT_EQ(reserved(pool), 0u);
    unsigned long long reset = 0;
    EXPECT(number(pool, cudaMemPoolAttrReservedMemHigh) >= 2 * piece);
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &reset));
    EXPECT_EQ(number(pool, cudaMemPoolAttrReservedMemHigh), 0u);

    // A lower threshold counts from the next wait on.
    CHECK(cudaMallocFromPoolAsync(&one, piece, pool, stream));
    CHECK(cudaFreeAsync(one, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(reserved(pool) >= piece);
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, const_cast<unsigned long long*>(&nothing)));
    CHECK(cudaMallocFromPoolAsync(&one, 1 << 20, pool, stream));
    CHECK(cudaFreeAsync(one, stream));
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(reserved(pool), 0u);
    CHECK(cudaMemPoolDestroy(pool));
    CHECK(cudaStreamDestroy(other));
}

// Memory that a pool keeps is not missing where there is no other.
static void kept_until_needed(cudaStream_t stream) {
    size_t available = 0, total = 0;
    unsigned long long everything = ~0ull;
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = {cudaMemLocationTypeDevice, 0};
    cudaMemPool_t pool;
    CHECK(cudaMemPoolCreate(&pool, &properties));
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &everything));
    CHECK(cudaMemGetInfo(&available, &total));
    const size_t most = available / 8 * 5;
    void *large, *larger;
    CHECK(cudaMallocFromPoolAsync(&large, most, pool, stream));
    CHECK(cudaFreeAsync(large, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(reserved(pool) >= most);
    CHECK(cudaMallocFromPoolAsync(&larger, most + most / 8, pool, stream));
    EXPECT(reserved(pool) < 2 * most);
    CHECK(cudaFreeAsync(larger, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemPoolDestroy(pool));
}

// What a pool tells of how it was made: names that cuda.h has since 13.1 to 13.5 (cuda/abi/pool_facts.h), and older drivers do
// not know.
static void tells_how_it_was_made(cudaMemPool_t pool, unsigned long long most) {
    constexpr int k_first = 13010, k_all = 13050;
    int driver = 0;
    CHECK(cudaDriverGetVersion(&driver));
    if (driver < k_first) {
        for (int which = 9; which <= 15; ++which) {
            unsigned long long untouched = 7;
            EXPECT_EQ(cudaMemPoolGetAttribute(pool, static_cast<cudaMemPoolAttr>(which), &untouched), cudaErrorInvalidValue);
            EXPECT_EQ(untouched, 7u);
        }
        cudaGetLastError();
    }
    if (driver < k_all) return;
    const auto fact = [&](int which) {
        int value = -7;
        CHECK(cudaMemPoolGetAttribute(pool, static_cast<cudaMemPoolAttr>(which), &value));
        return value;
    };
    unsigned long long max_bytes = 1;
    EXPECT_EQ(fact(9), static_cast<int>(cudaMemAllocationTypePinned));
    EXPECT_EQ(fact(10), static_cast<int>(cudaMemHandleTypeNone));
    EXPECT_EQ(fact(11), 0);
    EXPECT_EQ(fact(12), static_cast<int>(cudaMemLocationTypeDevice));
    CHECK(cudaMemPoolGetAttribute(pool, static_cast<cudaMemPoolAttr>(13), &max_bytes));
    EXPECT_EQ(max_bytes, most);
    EXPECT_EQ(fact(14), 0);
    EXPECT_EQ(fact(15), -1);
    EXPECT_EQ(cudaMemPoolSetAttribute(pool, static_cast<cudaMemPoolAttr>(13), &max_bytes), cudaErrorInvalidValue);
    cudaGetLastError();
}

// The largest size is rounded up to 32 MiB, and no more is to be had. Each stays until the pool has as much as it can have.
static void limits(cudaStream_t stream) {
    for (const size_t mib : {8, 40, 64}) {
        cudaMemPoolProps limited{};
        limited.allocType = cudaMemAllocationTypePinned;
        limited.location = {cudaMemLocationTypeDevice, 0};
        limited.maxSize = mib << 20;
        cudaMemPool_t pool;
        CHECK(cudaMemPoolCreate(&pool, &limited));
        const size_t most = (mib + 31) / 32 * 32;
        size_t used = 0;
        std::vector<void*> all;
        for (const size_t wanted : {6, 4, 24, 16, 8, 32, 48}) {
            void* memory = nullptr;
            const bool fits = used + wanted <= most;
            EXPECT_EQ(cudaMallocFromPoolAsync(&memory, wanted << 20, pool, stream),
                      fits ? cudaSuccess : cudaErrorMemoryAllocation);
            cudaGetLastError();
            if (!fits) continue;
            used += wanted;
            all.push_back(memory);
        }
        unsigned long long told = 0;
        CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &told));
        EXPECT_EQ(told, used << 20);
        for (void* memory : all) CHECK(cudaFreeAsync(memory, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaMemPoolDestroy(pool));
    }
}

int main() {
    const int n = 3000;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    std::vector<int> host(n);
    for (int round = 0; round < 5; ++round) {
        int* data;
        CHECK(cudaMallocAsync(&data, n * sizeof(int), stream));
        fill<<<(n + 127) / 128, 128, 0, stream>>>(data, n, round);
        CHECK(cudaMemcpyAsync(host.data(), data, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaFreeAsync(data, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (int i = 0; i < n; ++i) EXPECT_EQ(host[i], i + round);
    }
    cudaMemPool_t pool;
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    unsigned long long threshold = 1 << 20;
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    CHECK(cudaMemPoolTrimTo(pool, 0));
    tells_how_it_was_made(pool, 0);
    // One that has a limit: what was freed can be had again.
    cudaMemPoolProps limited{};
    limited.allocType = cudaMemAllocationTypePinned;
    limited.location = {cudaMemLocationTypeDevice, 0};
    limited.maxSize = 64 << 20;
    CHECK(cudaMemPoolCreate(&pool, &limited));
    tells_how_it_was_made(pool, limited.maxSize);
    for (int round = 0; round < 3; ++round) {
        void *most, *more;
        CHECK(cudaMallocFromPoolAsync(&most, 48 << 20, pool, stream));
        EXPECT_EQ(cudaMallocFromPoolAsync(&more, 32 << 20, pool, stream), cudaErrorMemoryAllocation);
        EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
        CHECK(cudaFreeAsync(most, stream));
        CHECK(cudaStreamSynchronize(stream));
    }
    CHECK(cudaMemPoolDestroy(pool));
    limits(stream);
    kept(stream);
    kept_until_needed(stream);
    managed_pools(stream);
    CHECK(cudaStreamDestroy(stream));
    return passed("pools");
}
