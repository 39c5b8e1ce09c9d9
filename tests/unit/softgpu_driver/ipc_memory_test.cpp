// Tests of memory between processes.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "tests/unit/softgpu_driver/processes.h"

namespace softgpu_test {
namespace {

constexpr size_t k_granule = 2 << 20;
constexpr auto k_fd_type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
constexpr unsigned int k_lazy = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;

void* as_handle(int fd) { return reinterpret_cast<void*>(static_cast<intptr_t>(fd)); }

void expect_words(CUdeviceptr address, size_t count, uint32_t value) {
    std::vector<uint32_t> words(count);
    ASSERT_CU(CU(cuMemcpyDtoH_v2)(words.data(), address, count * 4));
    EXPECT_TRUE(std::all_of(words.begin(), words.end(), [value](uint32_t word) { return word == value; }))
        << "expected " << value << ", the first word is " << words[0];
}

CUdeviceptr allocate(size_t bytes, uint32_t value) {
    CUdeviceptr address = 0;
    EXPECT_CU(CU(cuMemAlloc_v2)(&address, bytes));
    EXPECT_CU(CU(cuMemsetD32_v2)(address, value, bytes / 4));
    return address;
}

CUmemAllocationProp shareable() {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    prop.requestedHandleTypes = k_fd_type;
    return prop;
}

CUdeviceptr map(CUmemGenericAllocationHandle handle, size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_CU(CU(cuMemAddressReserve)(&address, bytes, 0, 0, 0));
    EXPECT_CU(CU(cuMemMap)(address, bytes, 0, handle, 0));
    CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    EXPECT_CU(CU(cuMemSetAccess)(address, bytes, &access, 1));
    return address;
}

void export_mapped(Peer& peer) {
    CUmemAllocationProp prop = shareable();
    prop.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_GENERIC;
    CUmemGenericAllocationHandle handle = 0;
    ASSERT_CU(CU(cuMemCreate)(&handle, 2 * k_granule, &prop, 0));
    int fd = -1;
    EXPECT_EQ(CU(cuMemExportToShareableHandle)(&fd, handle, k_fd_type, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuMemExportToShareableHandle)(&fd, 12345, k_fd_type, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuMemExportToShareableHandle)(&fd, handle, CU_MEM_HANDLE_TYPE_FABRIC, 0), CUDA_ERROR_INVALID_VALUE);
    ASSERT_CU(CU(cuMemExportToShareableHandle)(&fd, handle, k_fd_type, 0));
    CUdeviceptr address = map(handle, 2 * k_granule);
    EXPECT_CU(CU(cuMemsetD32_v2)(address, 7, 2 * k_granule / 4));
    EXPECT_CU(CU(cuCtxSynchronize)());
    peer.send_fd(fd);
    close(fd);
    peer.meet();  // the importer has written
    expect_words(address, 1024, 8);
    EXPECT_CU(CU(cuMemUnmap)(address, 2 * k_granule));
    EXPECT_CU(CU(cuMemRelease)(handle));
    peer.meet();
}

void import_mapped(Peer& peer) {
    int fd = peer.receive_fd();
    CUmemGenericAllocationHandle handle = 0;
    ASSERT_CU(CU(cuMemImportFromShareableHandle)(&handle, as_handle(fd), k_fd_type));
    close(fd);
    CUmemAllocationProp prop{};
    EXPECT_CU(CU(cuMemGetAllocationPropertiesFromHandle)(&prop, handle));
    EXPECT_EQ(prop.requestedHandleTypes, k_fd_type);
    EXPECT_EQ(prop.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
    EXPECT_EQ(prop.allocFlags.compressionType, CU_MEM_ALLOCATION_COMP_NONE);
    CUdeviceptr address = map(handle, 2 * k_granule);
    EXPECT_EQ(CU(cuMemMap)(address, 3 * k_granule, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);  // larger than it is
    unsigned long long types = 0;
    EXPECT_CU(CU(cuPointerGetAttribute)(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, address));
    EXPECT_EQ(types, static_cast<unsigned long long>(k_fd_type));
    expect_words(address, 2 * k_granule / 4, 7);
    CUmodule module = load_kernels();
    EXPECT_CU(CU(cuMemsetD32_v2)(address, 8, 1024));
    EXPECT_CU(launch_store(module, address + 2 * k_granule - 4, 9));
    EXPECT_CU(CU(cuCtxSynchronize)());
    peer.meet();
    peer.meet();  // the exporter has let go of it
    expect_words(address, 1024, 8);
    expect_words(address + 2 * k_granule - 4, 1, 9);
}

TEST(IpcMemoryTest, AllocationsTravelAsDescriptors) { run_pair(export_mapped, import_mapped); }

void export_pool(Peer& peer) {
    int types = 0;
    EXPECT_CU(CU(cuDeviceGetAttribute)(&types, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 0));
    EXPECT_EQ(types, k_fd_type);
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.handleTypes = k_fd_type;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemoryPool pool = nullptr;
    ASSERT_CU(CU(cuMemPoolCreate)(&pool, &properties));
    CUdeviceptr pieces[2] = {}, other = 0;
    for (CUdeviceptr& piece : pieces) ASSERT_CU(CU(cuMemAllocFromPoolAsync)(&piece, 3000, pool, nullptr));
    ASSERT_CU(CU(cuMemAllocAsync)(&other, 64, nullptr));
    EXPECT_CU(CU(cuMemsetD32_v2)(pieces[0], 1, 750));
    EXPECT_CU(CU(cuMemsetD32_v2)(pieces[1], 2, 750));
    EXPECT_CU(CU(cuCtxSynchronize)());
    int fd = -1;
    CUmemPoolPtrExportData exported{};
    EXPECT_EQ(CU(cuMemPoolExportPointer)(&exported, pieces[0]), CUDA_ERROR_INVALID_VALUE);  // the pool has to be first
    ASSERT_CU(CU(cuMemPoolExportToShareableHandle)(&fd, pool, k_fd_type, 0));
    EXPECT_EQ(CU(cuMemPoolExportPointer)(&exported, other), CUDA_ERROR_INVALID_VALUE);  // of a pool without handles
    peer.send_fd(fd);
    for (CUdeviceptr piece : pieces) {
        ASSERT_CU(CU(cuMemPoolExportPointer)(&exported, piece));
        peer.send(exported);
    }
    CUmemoryPool none = nullptr;
    EXPECT_CU(CU(cuDeviceGetDefaultMemPool)(&none, 0));
    EXPECT_EQ(CU(cuMemPoolExportToShareableHandle)(&fd, none, k_fd_type, 0), CUDA_ERROR_INVALID_VALUE);
    peer.meet();
    expect_words(pieces[1], 750, 5);
    for (CUdeviceptr piece : pieces) EXPECT_CU(CU(cuMemFreeAsync)(piece, nullptr));
    EXPECT_CU(CU(cuMemPoolDestroy)(pool));
}

void import_pool(Peer& peer) {
    CUmemoryPool pool = nullptr;
    int fd = peer.receive_fd();
    ASSERT_CU(CU(cuMemPoolImportFromShareableHandle)(&pool, as_handle(fd), k_fd_type, 0));
    CUmemGenericAllocationHandle wrong = 0;
    EXPECT_EQ(CU(cuMemImportFromShareableHandle)(&wrong, as_handle(fd), k_fd_type), CUDA_ERROR_INVALID_VALUE);
    close(fd);
    CUdeviceptr pieces[2] = {}, none = 0;
    EXPECT_EQ(CU(cuMemAllocFromPoolAsync)(&none, 64, pool, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuDeviceSetMemPool)(0, pool), CUDA_ERROR_INVALID_VALUE);
    for (CUdeviceptr& piece : pieces) {
        auto exported = peer.receive<CUmemPoolPtrExportData>();
        ASSERT_CU(CU(cuMemPoolImportPointer)(&piece, pool, &exported));
        for (size_t byte : {0, 8, 30, 38}) {
            CUmemPoolPtrExportData broken = exported;
            broken.reserved[byte] ^= 0xff;  // another magic number, pool, or a place beyond the pool
            EXPECT_EQ(CU(cuMemPoolImportPointer)(&none, pool, &broken), CUDA_ERROR_INVALID_VALUE) << byte;
        }
    }
    expect_words(pieces[0], 750, 1);
    expect_words(pieces[1], 750, 2);
    CUmemoryPool of = nullptr;
    EXPECT_CU(CU(cuPointerGetAttribute)(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pieces[0]));
    EXPECT_EQ(of, pool);
    std::vector<uint8_t> out(3004);
    EXPECT_EQ(CU(cuMemcpyDtoH_v2)(out.data(), pieces[0], 3004), CUDA_ERROR_INVALID_VALUE);  // the neighbour is not ours
    EXPECT_CU(CU(cuMemsetD32Async)(pieces[1], 5, 750, nullptr));
    for (CUdeviceptr piece : pieces) EXPECT_CU(CU(cuMemFreeAsync)(piece, nullptr));
    EXPECT_CU(CU(cuCtxSynchronize)());
    EXPECT_EQ(CU(cuMemcpyDtoH_v2)(out.data(), pieces[1], 4), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuMemPoolDestroy)(pool));
    peer.meet();
}

TEST(IpcMemoryTest, PoolsTravelAsDescriptorsAndPointersAsData) { run_pair(export_pool, import_pool); }

void export_allocations(Peer& peer) {
    // Neighbours on one page, exported one after the other, and a large one that is not a multiple of a page.
    const size_t bytes[] = {1024, 1024, 5 * k_granule + 512};
    CUdeviceptr pieces[3];
    CUipcMemHandle handles[3], again;
    for (uint32_t i = 0; i < 3; ++i) pieces[i] = allocate(bytes[i], i + 1);
    for (int i = 0; i < 3; ++i) {
        ASSERT_CU(CU(cuIpcGetMemHandle)(&handles[i], pieces[i]));
        expect_words(pieces[i], bytes[i] / 4, static_cast<uint32_t>(i) + 1);
        peer.send(handles[i]);
    }
    EXPECT_CU(CU(cuIpcGetMemHandle)(&again, pieces[1]));
    EXPECT_EQ(std::memcmp(&again, &handles[1], sizeof(again)), 0);
    CUdeviceptr own = 0;
    EXPECT_EQ(CU(cuIpcOpenMemHandle_v2)(&own, handles[0], k_lazy), CUDA_ERROR_INVALID_CONTEXT);
    peer.meet();  // the importer has written to the second
    expect_words(pieces[0], 256, 1);
    expect_words(pieces[1], 256, 50);
    // What is freed goes on to belong to who has opened it, and not to what is allocated next.
    for (CUdeviceptr piece : pieces) EXPECT_CU(CU(cuMemFree_v2)(piece));
    for (size_t size : bytes) allocate(size, 99);
    EXPECT_CU(CU(cuIpcGetMemHandle)(&again, allocate(1024, 98)));
    EXPECT_NE(std::memcmp(&again, &handles[1], sizeof(again)), 0);
    peer.meet();
}

void import_allocations(Peer& peer) {
    CUdeviceptr pieces[3], same = 0;
    const size_t words[] = {256, 256, (5 * k_granule + 512) / 4};
    CUipcMemHandle handles[3];
    for (int i = 0; i < 3; ++i) {
        handles[i] = peer.receive<CUipcMemHandle>();
        EXPECT_EQ(CU(cuIpcOpenMemHandle_v2)(&pieces[i], handles[i], 0), CUDA_ERROR_INVALID_VALUE);
        ASSERT_CU(CU(cuIpcOpenMemHandle_v2)(&pieces[i], handles[i], k_lazy));
        expect_words(pieces[i], words[i], static_cast<uint32_t>(i) + 1);
    }
    CUdeviceptr base = 0;
    size_t size = 0;
    EXPECT_CU(CU(cuMemGetAddressRange_v2)(&base, &size, pieces[2] + 1000));
    EXPECT_EQ(base, pieces[2]);
    EXPECT_EQ(size, words[2] * 4);
    EXPECT_CU(CU(cuMemsetD32_v2)(pieces[1], 50, 256));
    CUmodule module = load_kernels();
    EXPECT_CU(launch_store(module, pieces[2] + size - 4, 51));
    EXPECT_CU(CU(cuCtxSynchronize)());
    peer.meet();
    peer.meet();  // freed by the exporter
    expect_words(pieces[0], 256, 1);
    expect_words(pieces[1], 256, 50);
    expect_words(pieces[2], words[2] - 1, 3);
    // Opened twice: closed twice.
    EXPECT_EQ(CU(cuIpcOpenMemHandle)(&same, handles[0], k_lazy), CUDA_ERROR_ALREADY_MAPPED);  // DB-64
    EXPECT_CU(CU(cuIpcOpenMemHandle_v2)(&same, handles[0], k_lazy));
    EXPECT_EQ(same, pieces[0]);
    EXPECT_EQ(CU(cuMemFree_v2)(pieces[0]), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuIpcCloseMemHandle)(pieces[0]));
    expect_words(pieces[0], 256, 1);
    EXPECT_CU(CU(cuIpcCloseMemHandle)(pieces[0]));
    EXPECT_EQ(CU(cuIpcCloseMemHandle)(pieces[0]), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuMemsetD32_v2)(pieces[0], 1, 1), CUDA_ERROR_INVALID_VALUE);
}

TEST(IpcMemoryTest, AllocationsAreOpenedByHandle) { run_pair(export_allocations, import_allocations); }

void export_to_nobody(Peer& peer) {
    CUipcMemHandle handle;
    CUdeviceptr p = allocate(4096, 1);
    ASSERT_CU(CU(cuIpcGetMemHandle)(&handle, p));
    peer.send(handle);
    peer.meet();
}

void import_bad_handles(Peer& peer) {
    auto handle = peer.receive<CUipcMemHandle>();
    CUdeviceptr p = 0;
    auto open = [&](const CUipcMemHandle& what) { return CU(cuIpcOpenMemHandle_v2)(&p, what, k_lazy); };
    CUipcMemHandle broken{};
    EXPECT_EQ(open(broken), CUDA_ERROR_INVALID_HANDLE);
    std::fill(std::begin(broken.reserved), std::end(broken.reserved), static_cast<char>(0xa5));
    EXPECT_EQ(open(broken), CUDA_ERROR_INVALID_HANDLE);
    // The magic number; process; descriptor; file; offset and size, far beyond the end.
    for (size_t byte : {0, 8, 12, 16, 31, 36, 44, 63}) {
        broken = handle;
        broken.reserved[byte] = static_cast<char>(broken.reserved[byte] ^ 0x5a);
        EXPECT_EQ(open(broken), CUDA_ERROR_INVALID_HANDLE) << byte;
    }
    // A descriptor of another kind in a living process.
    for (int fd = 0; fd < 3; ++fd) {
        broken = handle;
        std::memcpy(broken.reserved + 12, &fd, sizeof(fd));
        EXPECT_EQ(open(broken), CUDA_ERROR_INVALID_HANDLE) << fd;
    }
    ASSERT_CU(open(handle));
    EXPECT_CU(CU(cuIpcCloseMemHandle)(p));
    peer.meet();
    EXPECT_TRUE(peer.ended());
    EXPECT_EQ(open(handle), CUDA_ERROR_INVALID_HANDLE);
}

TEST(IpcMemoryTest, BadAndOutlivedHandlesAreRefused) { run_pair(export_to_nobody, import_bad_handles); }

void refuse_descriptors(Peer&) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemoryPool pool = nullptr;
    int plain = memfd_create("softgpu-shared", MFD_CLOEXEC | MFD_ALLOW_SEALING), null = open("/dev/null", O_RDWR);
    ASSERT_EQ(ftruncate(plain, 4 * k_granule), 0);
    CUmemAllocationProp prop = shareable();
    int good = -1;
    ASSERT_CU(CU(cuMemCreate)(&handle, k_granule, &prop, 0));
    ASSERT_CU(CU(cuMemExportToShareableHandle)(&good, handle, k_fd_type, 0));
    int read_only = open(("/proc/self/fd/" + std::to_string(good)).c_str(), O_RDONLY);
    ASSERT_GE(read_only, 0);
    EXPECT_NE(ftruncate(good, 4096), 0);  // nobody can make it shorter
    for (int fd : {plain, null, read_only, -1, 999999}) {
        EXPECT_EQ(CU(cuMemImportFromShareableHandle)(&handle, as_handle(fd), k_fd_type), CUDA_ERROR_INVALID_VALUE) << fd;
        EXPECT_EQ(CU(cuMemPoolImportFromShareableHandle)(&pool, as_handle(fd), k_fd_type, 0), CUDA_ERROR_INVALID_VALUE) << fd;
    }
    EXPECT_EQ(CU(cuMemPoolImportFromShareableHandle)(&pool, as_handle(good), k_fd_type, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuMemImportFromShareableHandle)(&handle, as_handle(good), CU_MEM_HANDLE_TYPE_FABRIC),
              CUDA_ERROR_NOT_SUPPORTED);
    // Memory of other kinds has no handle.
    CUipcMemHandle ipc;
    CUdeviceptr async = 0, managed = 0;
    void* host = nullptr;
    ASSERT_CU(CU(cuMemAllocAsync)(&async, 64, nullptr));
    ASSERT_CU(CU(cuMemAllocManaged)(&managed, 64, CU_MEM_ATTACH_GLOBAL));
    ASSERT_CU(CU(cuMemAllocHost_v2)(&host, 64));
    for (CUdeviceptr p : {async, managed, reinterpret_cast<CUdeviceptr>(host), CUdeviceptr{64}}) {
        EXPECT_EQ(CU(cuIpcGetMemHandle)(&ipc, p), CUDA_ERROR_INVALID_VALUE);
    }
    EXPECT_EQ(CU(cuIpcGetMemHandle)(nullptr, async), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuIpcCloseMemHandle)(async), CUDA_ERROR_INVALID_VALUE);
    unsigned int capable = 0;
    EXPECT_CU(CU(cuPointerGetAttribute)(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, allocate(64, 1)));
    EXPECT_EQ(capable, 1u);
    EXPECT_CU(CU(cuPointerGetAttribute)(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, async));
    EXPECT_EQ(capable, 0u);
}

TEST(IpcMemoryTest, OtherDescriptorsAndOtherMemoryAreRefused) {
    run_pair(refuse_descriptors, [](Peer&) {});
}

}  // namespace
}  // namespace softgpu_test
