// Memory that programs map themselves: handles that are released and had again by an address, what pointers tell, and what
// cannot be had.
#include <cuda.h>

#include <cstring>

#include "check.h"

#define EXPECT_CU(call) EXPECT_EQ(static_cast<int>(call), static_cast<int>(CUDA_SUCCESS))

static constexpr size_t k_piece = 2 << 20;

static CUmemAllocationProp properties(CUmemLocationType type) {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = type;
    prop.location.id = 0;
    return prop;
}

template <typename T>
static T attribute(CUpointer_attribute which, CUdeviceptr at) {
    T value{};
    EXPECT_CU(cuPointerGetAttribute(&value, which, at));
    return value;
}

// "The handle can be freed when there are still outstanding mappings", and an address leads back to the memory.
static void handles() {
    CUmemAllocationProp prop = properties(CU_MEM_LOCATION_TYPE_DEVICE), told{};
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUdeviceptr base;
    EXPECT_CU(cuMemAddressReserve(&base, 3 * k_piece, 0, 0, 0));
    CUmemGenericAllocationHandle handle, again, other;
    EXPECT_CU(cuMemCreate(&handle, k_piece, &prop, 0));
    EXPECT_CU(cuMemMap(base + k_piece, k_piece, 0, handle, 0));
    EXPECT_CU(cuMemRelease(handle));
    CUmemAccessDesc access{};
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    EXPECT_CU(cuMemSetAccess(base + k_piece, k_piece, &access, 1));
    EXPECT_CU(cuMemsetD32(base + k_piece, 7, k_piece / 4));

    EXPECT_CU(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(base + k_piece + 100)));
    EXPECT_CU(cuMemGetAllocationPropertiesFromHandle(&told, again));
    EXPECT_EQ(std::memcmp(&told, &prop, sizeof told), 0);
    EXPECT_CU(cuMemMap(base + 2 * k_piece, k_piece, 0, again, 0));
    EXPECT_CU(cuMemSetAccess(base + 2 * k_piece, k_piece, &access, 1));
    EXPECT_CU(cuMemRelease(again));
    int seen = 0;
    EXPECT_CU(cuMemcpyDtoH(&seen, base + 3 * k_piece - 4, 4));
    EXPECT_EQ(seen, 7);

    EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, base + k_piece), 0);
    EXPECT_EQ(attribute<uint64_t>(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, base + k_piece),
              uint64_t{CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR});
    EXPECT_EQ(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, base + k_piece + 5), base);
    EXPECT_EQ(attribute<size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, base + k_piece + 5), 3 * k_piece);
    EXPECT_EQ(attribute<unsigned>(CU_POINTER_ATTRIBUTE_MAPPED, base + k_piece), 1u);
    unsigned mapped = 7;
    EXPECT_EQ(static_cast<int>(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, base + 5)),
              static_cast<int>(CUDA_ERROR_INVALID_VALUE));
    EXPECT_EQ(attribute<unsigned>(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, base + k_piece), 3u);

    EXPECT_CU(cuMemUnmap(base + k_piece, k_piece));
    EXPECT_CU(cuMemRetainAllocationHandle(&other, reinterpret_cast<void*>(base + 2 * k_piece)));
    EXPECT_CU(cuMemUnmap(base + 2 * k_piece, k_piece));
    EXPECT_CU(cuMemRelease(other));
    EXPECT(cuMemRelease(other) != CUDA_SUCCESS);
    EXPECT(cuMemRetainAllocationHandle(&other, reinterpret_cast<void*>(base + 2 * k_piece)) != CUDA_SUCCESS);
    EXPECT_CU(cuMemAddressFree(base, 3 * k_piece));
}

static void refused() {
    CUdeviceptr base;
    EXPECT_CU(cuMemAddressReserve(&base, 2 * k_piece, 0, 0, 0));
    // Where somebody would like it is a hint, which has to be aligned.
    CUdeviceptr none;
    EXPECT_EQ(static_cast<int>(cuMemAddressReserve(&none, k_piece, 0, 0x200000001000, 0)),
              static_cast<int>(CUDA_ERROR_INVALID_VALUE));
    EXPECT_EQ(static_cast<int>(cuMemAddressReserve(&none, k_piece, 0, 0x200000100000, 0)),
              static_cast<int>(CUDA_ERROR_INVALID_VALUE));
    EXPECT_EQ(static_cast<int>(cuMemAddressReserve(&none, k_piece, 4 << 20, 0x200000200000, 0)),
              static_cast<int>(CUDA_ERROR_INVALID_VALUE));
    EXPECT_EQ(static_cast<int>(cuMemAddressReserve(&none, k_piece, 0, 0x10000, 0)), static_cast<int>(CUDA_ERROR_INVALID_VALUE));
    EXPECT_CU(cuMemAddressReserve(&none, k_piece, 0, base, 0));  // taken: somewhere else
    EXPECT(none != base);
    EXPECT_CU(cuMemAddressFree(none, k_piece));
    const CUmemAllocationProp prop = properties(CU_MEM_LOCATION_TYPE_DEVICE);
    CUmemGenericAllocationHandle handle;
    EXPECT_CU(cuMemCreate(&handle, k_piece, &prop, 0));
    EXPECT_CU(cuMemMap(base, k_piece, 0, handle, 0));
    CUmemAccessDesc access{};
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    EXPECT(cuMemSetAccess(base, 2 * k_piece, &access, 1) != CUDA_SUCCESS);  // half of it is not mapped
    EXPECT(cuMemSetAccess(base, k_piece, &access, 0) != CUDA_SUCCESS);
    access.location.id = 99;
    EXPECT(cuMemSetAccess(base, k_piece, &access, 1) != CUDA_SUCCESS);
    access.location.id = 0;
    access.flags = static_cast<CUmemAccess_flags>(2);
    EXPECT(cuMemSetAccess(base, k_piece, &access, 1) != CUDA_SUCCESS);
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    EXPECT_CU(cuMemSetAccess(base, k_piece, &access, 1));
    EXPECT_CU(cuMemsetD8(base, 1, k_piece));
    EXPECT_CU(cuMemUnmap(base, k_piece));
    EXPECT_CU(cuMemRelease(handle));

    // Memory of the host: the processor can use it, or there is none.
    const CUmemAllocationProp on_host = properties(CU_MEM_LOCATION_TYPE_HOST);
    int announced = 0;
    EXPECT_CU(cuDeviceGetAttribute(&announced, CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
    const CUresult made = cuMemCreate(&handle, k_piece, &on_host, 0);
    if (announced) EXPECT_CU(made);
    if (made == CUDA_SUCCESS) {
        EXPECT_CU(cuMemMap(base, k_piece, 0, handle, 0));
        access.location = on_host.location;
        EXPECT_CU(cuMemSetAccess(base, k_piece, &access, 1));
        std::memset(reinterpret_cast<void*>(base), 1, k_piece);
        EXPECT_CU(cuMemUnmap(base, k_piece));
        EXPECT_CU(cuMemRelease(handle));
    }
    EXPECT_CU(cuMemAddressFree(base, 2 * k_piece));
}

__global__ void add(int* data, int value) { *data += value; }

// Registered so that kernels may use it: the pointer tells where they find it.
static void registered() {
    static int number[1024];
    number[0] = 4;
    EXPECT_CU(cuMemHostRegister(number, sizeof number, CU_MEMHOSTREGISTER_DEVICEMAP));
    cudaPointerAttributes told{};
    CHECK(cudaPointerGetAttributes(&told, number));
    EXPECT(told.type == cudaMemoryTypeHost && told.hostPointer == number && told.devicePointer);
    add<<<1, 1>>>(static_cast<int*>(told.devicePointer), 5);
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(number[0], 9);
    EXPECT_CU(cuMemHostUnregister(number));
}

int main() {
    CHECK(cudaFree(nullptr));
    handles();
    refused();
    registered();
    return passed("mapped ranges");
}
