// The rows of docs/driver-behaviour.md that are about the machine: addresses, DB-10; names that are unknown, DB-17; what it has
// and has not, DB-20 to DB-23.
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>

#include "tests/unit/softgpu_driver/profiles.h"

namespace softgpu_test {
namespace {

constexpr size_t k_granule = 2 << 20;
#if defined(WARPLINE_THREAD_SANITIZER)
constexpr CUdeviceptr k_hint = 0x1000000000;  // among the few addresses that the thread sanitizer leaves to programs
#else
constexpr CUdeviceptr k_hint = 0x300000000000;
#endif

CUmemAllocationProp memory_of(int device) {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    return prop;
}

int attribute(CUdevice_attribute which) {
    int value = -1;
    EXPECT_CU(CU(cuDeviceGetAttribute)(&value, which, 0));
    return value;
}

TEST(MachineTest, AddressHints) {
    auto reserve = [](CUdeviceptr hint, CUdeviceptr* address) {
        return CU(cuMemAddressReserve)(address, k_granule, 0, hint, 0);
    };
    for (const char* profile : {"generous", "strict"}) {
        on_profile(profile, [&] {
            CUdeviceptr address = 0;
            EXPECT_CU(reserve(k_hint, &address));
            EXPECT_EQ(address, k_hint);
            // Whoever gives out the first addresses is the driver, and what is not aligned is no hint.
            EXPECT_CU(reserve(0x306000000, &address));
            EXPECT_NE(address, CUdeviceptr{0x306000000});
            for (const CUdeviceptr bad : {k_hint + 0x1000, k_hint + k_granule / 2, CUdeviceptr{0x10000}, CUdeviceptr{0x1000}})
                EXPECT_EQ(reserve(bad, &address), CUDA_ERROR_INVALID_VALUE);
            EXPECT_EQ(CU(cuMemAddressReserve)(&address, k_granule, 2 * k_granule, k_hint + k_granule, 0),
                      CUDA_ERROR_INVALID_VALUE);
            EXPECT_EQ(CU(cuMemAddressReserve)(&address, size_t{1} << 44, 0, 0x700000000000, 0), CUDA_ERROR_OUT_OF_MEMORY);
        });
    }
    for (const char* profile : {"strict,hints=ignored", "generous,hints=ignored"}) {
        on_profile(profile, [&] {
            CUdeviceptr address = 0;
            EXPECT_CU(reserve(k_hint, &address));
            EXPECT_NE(address, k_hint);
            EXPECT_EQ(address % k_granule, 0u);
        });
    }
    on_profile("strict,hints=refused", [&] {
        CUdeviceptr address = 0;
        EXPECT_EQ(reserve(k_hint, &address), CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT_CU(reserve(0, &address));
    });
}

TEST(MachineTest, NamesThatAreUnknown) {  // DB-17
    auto ask = [](void** function) {
        CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
        const CUresult result = CU(cuGetProcAddress_v2)("cuNoSuchCall", function, 12000, 0, &status);
        EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
        return result;
    };
    for (const char* profile : {"generous", "strict"}) {
        on_profile(profile, [&] {
            int mark = 0;
            void* function = &mark;
            EXPECT_CU(ask(&function));
            EXPECT_EQ(function, nullptr);
        });
    }
    on_profile("strict,unknown_symbol=not_found", [&] {
        void* function = nullptr;
        EXPECT_EQ(ask(&function), CUDA_ERROR_NOT_FOUND);
    });
}

TEST(MachineTest, WithoutVirtualMemoryManagement) {
    on_profile("strict,vmm=no", [] {
        EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 0);
        CUmemAllocationProp prop = memory_of(0);
        CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        CUdeviceptr address = 0;
        CUmemGenericAllocationHandle handle = 0;
        size_t granularity = 0;
        unsigned long long flags = 0;
        EXPECT_EQ(CU(cuMemAddressReserve)(&address, k_granule, 0, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
        EXPECT_EQ(CU(cuMemCreate)(&handle, k_granule, &prop, 0), CUDA_ERROR_NOT_SUPPORTED);
        EXPECT_EQ(CU(cuMemGetAllocationGranularity)(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                  CUDA_ERROR_NOT_SUPPORTED);
        EXPECT_EQ(CU(cuMemMap)(k_hint, k_granule, 0, 1, 0), CUDA_ERROR_NOT_SUPPORTED);
        EXPECT_EQ(CU(cuMemSetAccess)(k_hint, k_granule, &access, 1), CUDA_ERROR_NOT_SUPPORTED);
        EXPECT_EQ(CU(cuMemGetAccess)(&flags, &prop.location, k_hint), CUDA_ERROR_NOT_SUPPORTED);
        EXPECT_EQ(CU(cuMemUnmap)(k_hint, k_granule), CUDA_ERROR_NOT_SUPPORTED);
        EXPECT_EQ(CU(cuMemRelease)(1), CUDA_ERROR_NOT_SUPPORTED);
        // Ordinary memory and pools are there.
        EXPECT_CU(CU(cuMemAlloc_v2)(&address, 64));
        EXPECT_CU(CU(cuMemAllocAsync)(&address, 64, nullptr));
    });
    on_profile("strict", [] { EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 1); });
}

TEST(MachineTest, WithoutPeers) {
    for (const char* profile : {"strict,peers=no", "strict"}) {
        const bool peers = std::string(profile) == "strict";
        auto body = [peers] {
            CUcontext first = nullptr, second = nullptr;
            ASSERT_CU(CU(cuCtxGetCurrent)(&first));
            ASSERT_CU(CU(cuCtxCreate_v4)(&second, nullptr, 0, 1));
            int value = -1;
            EXPECT_CU(CU(cuDeviceCanAccessPeer)(&value, 0, 1));
            EXPECT_EQ(value, peers ? 1 : 0);
            EXPECT_CU(CU(cuDeviceGetP2PAttribute)(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
            EXPECT_EQ(value, peers ? 1 : 0);
            EXPECT_EQ(CU(cuCtxEnablePeerAccess)(first, 0), peers ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);

            CUmemoryPool pool = nullptr;
            ASSERT_CU(CU(cuDeviceGetDefaultMemPool)(&pool, 0));
            CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
            EXPECT_EQ(CU(cuMemPoolSetAccess)(pool, &access, 1), peers ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE);

            CUmemAllocationProp prop = memory_of(0);
            CUmemGenericAllocationHandle handle = 0;
            CUdeviceptr mapped = 0;
            ASSERT_CU(CU(cuMemAddressReserve)(&mapped, k_granule, 0, 0, 0));
            ASSERT_CU(CU(cuMemCreate)(&handle, k_granule, &prop, 0));
            ASSERT_CU(CU(cuMemMap)(mapped, k_granule, 0, handle, 0));
            EXPECT_EQ(CU(cuMemSetAccess)(mapped, k_granule, &access, 1), peers ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE);
            access.location.id = 0;
            EXPECT_CU(CU(cuMemSetAccess)(mapped, k_granule, &access, 1));

            // Copies that name both contexts, or memory of cuMemAlloc, go through the host.
            CUdeviceptr here = 0, there = 0;
            ASSERT_CU(CU(cuMemAlloc_v2)(&there, 64));
            ASSERT_CU(CU(cuCtxSetCurrent)(first));
            ASSERT_CU(CU(cuMemAlloc_v2)(&here, 64));
            ASSERT_CU(CU(cuMemsetD32_v2)(here, 7, 16));
            EXPECT_CU(CU(cuMemcpyPeer)(there, second, here, first, 32));
            EXPECT_CU(CU(cuMemcpyDtoD_v2)(there + 32, here, 32));
            std::array<uint32_t, 16> words{};
            EXPECT_CU(CU(cuMemcpyDtoH_v2)(words.data(), there, 64));
            for (uint32_t word : words) EXPECT_EQ(word, 7u);
        };
        on_profile(profile, body, {{"SOFTGPU_DEVICES", "2"}});
    }
}

TEST(MachineTest, AccessToPoolsIsCheckedBeforeAnyIsSet) {  // DB-34, both profiles
    for (const char* profile : {"generous", "strict"}) {
        auto body = [] {
            CUmemoryPool pool = nullptr;
            ASSERT_CU(CU(cuDeviceGetDefaultMemPool)(&pool, 0));
            CUmemLocation other{CU_MEM_LOCATION_TYPE_DEVICE, 1};
            std::array<CUmemAccessDesc, 2> access = {
                CUmemAccessDesc{other, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                CUmemAccessDesc{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_NONE}};
            EXPECT_EQ(CU(cuMemPoolSetAccess)(pool, access.data(), 2), CUDA_ERROR_INVALID_DEVICE);
            CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
            EXPECT_CU(CU(cuMemPoolGetAccess)(&flags, pool, &other));
            EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
            EXPECT_CU(CU(cuMemPoolSetAccess)(pool, access.data(), 1));
            EXPECT_CU(CU(cuMemPoolGetAccess)(&flags, pool, &other));
            EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        };
        on_profile(profile, body, {{"SOFTGPU_DEVICES", "2"}});
    }
}

/// A folder in which this test's processes compete for devices, and nobody else's.
class ExclusiveTest : public testing::Test {
protected:
    void SetUp() override {
        std::string name = (std::filesystem::temp_directory_path() / "softgpu-test-XXXXXX").string();
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        m_folder = name;
        setenv("TMPDIR", name.c_str(), 1);
    }
    void TearDown() override {
        unsetenv("TMPDIR");
        unsetenv("SOFTGPU_PROFILE");
        std::filesystem::remove_all(m_folder);
    }
    std::filesystem::path m_folder;
};

TEST_F(ExclusiveTest, OneProcessHasTheDevice) {
    setenv("SOFTGPU_PROFILE", "strict,compute_mode=exclusive", 1);
    int to_holder[2], from_holder[2];
    ASSERT_EQ(pipe(to_holder), 0);
    ASSERT_EQ(pipe(from_holder), 0);
    pid_t holder = fork();
    if (holder == 0) {
        close(to_holder[1]);
        CUcontext first = nullptr, second = nullptr, primary = nullptr;
        char word = 0;
        bool good = CU(cuInit)(0) == CUDA_SUCCESS && CU(cuCtxCreate_v4)(&first, nullptr, 0, 0) == CUDA_SUCCESS &&
                    CU(cuDevicePrimaryCtxRetain)(&primary, 0) == CUDA_SUCCESS &&  // as many contexts as it likes
                    CU(cuCtxCreate_v4)(&second, nullptr, 0, 0) == CUDA_SUCCESS;
        word = good ? 'y' : 'n';
        (void)!write(from_holder[1], &word, 1);
        (void)!read(to_holder[0], &word, 1);  // until the other side is closed
        _exit(0);
    }
    close(to_holder[0]);
    char ready = 0;
    ASSERT_EQ(read(from_holder[0], &ready, 1), 1);
    EXPECT_EQ(ready, 'y');
    auto attempt = [](CUresult expected) {
        in_process({}, [expected] {
            CUcontext context = nullptr;
            ASSERT_CU(CU(cuInit)(0));
            EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE), CU_COMPUTEMODE_EXCLUSIVE_PROCESS);
            EXPECT_EQ(CU(cuDevicePrimaryCtxRetain)(&context, 0), expected);
            EXPECT_EQ(CU(cuCtxCreate_v4)(&context, nullptr, 0, 0), expected);
        });
    };
    attempt(CUDA_ERROR_DEVICE_UNAVAILABLE);
    close(to_holder[1]);
    char end = 0;
    close(from_holder[1]);
    EXPECT_EQ(read(from_holder[0], &end, 1), 0);  // it has ended
    attempt(CUDA_SUCCESS);
}

TEST(MachineTest, ProhibitedDevicesHaveNoContexts) {
    in_process({{"SOFTGPU_PROFILE", "generous,compute_mode=prohibited"}}, [] {
        CUcontext context = nullptr;
        ASSERT_CU(CU(cuInit)(0));
        EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE), CU_COMPUTEMODE_PROHIBITED);
        EXPECT_EQ(CU(cuDevicePrimaryCtxRetain)(&context, 0), CUDA_ERROR_UNKNOWN);
        EXPECT_EQ(CU(cuCtxCreate_v4)(&context, nullptr, 0, 0), CUDA_ERROR_UNKNOWN);
    });
}

TEST(MachineTest, InstancesOfAPartitionedDevice) {
    on_profile("strict,mig=yes",
               [] {
                   std::array<char, 128> name{};
                   ASSERT_CU(CU(cuDeviceGetName)(name.data(), name.size(), 0));
                   EXPECT_NE(std::string(name.data()).find(" MIG 1g.1gb"), std::string::npos) << name.data();
                   int peers = 1;
                   EXPECT_CU(CU(cuDeviceCanAccessPeer)(&peers, 0, 1));
                   EXPECT_EQ(peers, 0);
               },
               {{"SOFTGPU_MEMORY", "1GiB"}, {"SOFTGPU_DEVICES", "2"}});
}

}  // namespace
}  // namespace softgpu_test
