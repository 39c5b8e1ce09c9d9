// The rows of docs/driver-behaviour.md that are about memory and what waits for it: DB-06, DB-11 to DB-14.
#include <array>
#include <vector>

#include "tests/unit/softgpu_driver/profiles.h"

namespace softgpu_test {
namespace {

/// A stream whose work goes on when a gate is opened.
struct HeldStream {
    Gate gate;
    CUstream stream = nullptr;
    explicit HeldStream(unsigned int flags = CU_STREAM_NON_BLOCKING) {
        EXPECT_CU(CU(cuStreamCreate)(&stream, flags));
        EXPECT_CU(CU(cuLaunchHostFunc)(
            stream, [](void* user) { static_cast<Gate*>(user)->pass(); }, &gate));
    }
    /// The call returns while the stream is held up. (One that waits never comes back: the test's time-out ends it.)
    template <typename Call>
    void expect_returns(Call call) {
        EXPECT_CU(call());
        release();
    }
    /// The call returns only when the stream has gone on.
    template <typename Call>
    void expect_waits(Call call) {
        Calling calling([&] { EXPECT_CU(call()); });
        EXPECT_FALSE(calling.returned());
        gate.open();
        calling.join();
        release();
    }
    void release() {
        gate.open();
        EXPECT_CU(CU(cuStreamSynchronize)(stream));
    }
};

CUdeviceptr device_memory(size_t bytes) {
    CUdeviceptr memory = 0;
    EXPECT_CU(CU(cuMemAlloc_v2)(&memory, bytes));
    return memory;
}

TEST(ProfileCopyTest, PageLockedAllocationsWait) {  // DB-06
    auto allocate = [] {
        void* memory = nullptr;
        return CU(cuMemHostAlloc)(&memory, 64, 0);
    };
    for (const char* profile : {"strict", "generous,host_allocations=wait"}) {
        on_profile(profile, [&] { HeldStream().expect_waits(allocate); });
    }
    for (const char* profile : {"generous", "strict,host_allocations=free"}) {
        on_profile(profile, [&] { HeldStream().expect_returns(allocate); });
    }
}

/// An asynchronous or synchronous copy of pageable memory that is overwritten as soon as the call has returned.
void expect_copy(bool waits, size_t bytes, bool synchronous) {
    HeldStream held(synchronous ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
    CUdeviceptr memory = device_memory(bytes);
    std::vector<uint8_t> source(bytes, 1), seen(bytes);
    auto copy = [&] {
        CUresult result = synchronous ? CU(cuMemcpyHtoD_v2)(memory, source.data(), bytes)
                                      : CU(cuMemcpyHtoDAsync_v2)(memory, source.data(), bytes, held.stream);
        std::fill(source.begin(), source.end(), uint8_t{2});
        return result;
    };
    if (waits) {
        held.expect_waits(copy);
    } else {
        held.expect_returns(copy);
    }
    EXPECT_CU(CU(cuCtxSynchronize)());
    EXPECT_CU(CU(cuMemcpyDtoH_v2)(seen.data(), memory, bytes));
    EXPECT_EQ(seen, std::vector<uint8_t>(bytes, 1));
}

constexpr size_t k_border = 64 << 10;

TEST(ProfileCopyTest, AsynchronousCopiesOfPageableMemory) {  // DB-11
    on_profile("strict", [] {
        expect_copy(false, 1 << 20, false);
        expect_copy(true, (1 << 20) + 1, false);
    });
    on_profile("strict,pageable_staging=4KiB", [] {
        expect_copy(false, 4096, false);
        expect_copy(true, 4097, false);
    });
    on_profile("generous", [] {
        expect_copy(false, k_border + 1, false);
        expect_copy(true, (4 << 20) + 1, false);
    });
}

TEST(ProfileCopyTest, SmallSynchronousCopies) {  // DB-12
    on_profile("strict,small_copies=staged", [] {
        expect_copy(false, k_border, true);
        expect_copy(true, k_border + 1, true);
    });
    for (const char* profile : {"generous", "strict"}) {
        on_profile(profile, [] { expect_copy(true, 64, true); });
    }
}

TEST(ProfileCopyTest, PageLockedSourcesAreReadInStreamOrder) {  // DB-11, both profiles
    for (const char* profile : {"generous", "strict"}) {
        on_profile(profile, [] {
            CUdeviceptr memory = device_memory(64);
            void* host = nullptr;
            ASSERT_CU(CU(cuMemHostAlloc)(&host, 64, 0));
            auto* words = static_cast<uint32_t*>(host);
            words[0] = 1;
            HeldStream held;
            held.expect_returns([&] {
                CUresult result = CU(cuMemcpyHtoDAsync_v2)(memory, host, 64, held.stream);
                words[0] = 2;
                return result;
            });
            uint32_t seen = 0;
            EXPECT_CU(CU(cuMemcpyDtoH_v2)(&seen, memory, 4));
            EXPECT_EQ(seen, 2u);
        });
    }
}

TEST(ProfileCopyTest, CopiesToPageableMemoryHaveLanded) {  // DB-13
    auto copy = [](bool landed) {
        CUdeviceptr memory = device_memory(64);
        EXPECT_CU(CU(cuMemsetD32_v2)(memory, 5, 16));
        EXPECT_CU(CU(cuCtxSynchronize)());
        std::array<uint32_t, 16> seen{};
        HeldStream held;
        auto call = [&] { return CU(cuMemcpyDtoHAsync_v2)(seen.data(), memory, 64, held.stream); };
        if (landed) {
            held.expect_waits([&] {
                CUresult result = call();
                EXPECT_EQ(seen[15], 5u);
                return result;
            });
        } else {
            held.expect_returns([&] {
                CUresult result = call();
                EXPECT_EQ(seen[15], 0u);
                return result;
            });
        }
        EXPECT_EQ(seen[15], 5u);
    };
    for (const char* profile : {"generous", "strict"}) on_profile(profile, [&] { copy(true); });
    on_profile("strict,pageable_async=queued", [&] { copy(false); });
}

/// DB-14. Memory of device 0 that only device 0 was granted access to: mapped, and of its default pool.
struct Foreign {
    CUcontext first = nullptr, second = nullptr;
    CUdeviceptr mapped = 0, pooled = 0, plain = 0, there = 0;

    Foreign() {
        constexpr size_t k_granule = 2 << 20;
        CUmemAllocationProp prop{};
        prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
        CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        CUmemGenericAllocationHandle handle = 0;
        EXPECT_CU(CU(cuCtxGetCurrent)(&first));
        EXPECT_CU(CU(cuMemAddressReserve)(&mapped, k_granule, 0, 0, 0));
        EXPECT_CU(CU(cuMemCreate)(&handle, k_granule, &prop, 0));
        EXPECT_CU(CU(cuMemMap)(mapped, k_granule, 0, handle, 0));
        EXPECT_CU(CU(cuMemSetAccess)(mapped, k_granule, &access, 1));
        EXPECT_CU(CU(cuMemAllocAsync)(&pooled, 64, nullptr));
        plain = device_memory(64);
        EXPECT_CU(CU(cuCtxSynchronize)());
        EXPECT_CU(CU(cuCtxCreate_v4)(&second, nullptr, 0, 1));  // and is current
        there = device_memory(64);
    }
};

TEST(ProfileCopyTest, CopiesWithTheWrongDeviceCurrent) {
    for (const char* profile : {"strict", "generous"}) {
        const CUresult expected = std::string(profile) == "strict" ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
        auto body = [expected] {
            Foreign foreign;
            std::array<uint8_t, 64> host{};
            for (CUdeviceptr memory : {foreign.mapped, foreign.pooled}) {
                EXPECT_EQ(CU(cuMemcpyHtoD_v2)(memory, host.data(), 64), expected);
                EXPECT_EQ(CU(cuMemcpyDtoH_v2)(host.data(), memory, 64), expected);
                EXPECT_EQ(CU(cuMemcpyDtoD_v2)(foreign.there, memory, 64), expected);
                EXPECT_EQ(CU(cuMemcpyDtoDAsync_v2)(memory, foreign.there, 64, nullptr), expected);
                EXPECT_EQ(CU(cuMemcpy)(foreign.there, memory, 64), expected);
                EXPECT_EQ(CU(cuMemsetD8_v2)(memory, 0, 64), expected);
                // Those that name the contexts are right whichever is current.
                EXPECT_CU(CU(cuMemcpyPeer)(foreign.there, foreign.second, memory, foreign.first, 64));
                EXPECT_CU(CU(cuMemcpyPeer)(memory, foreign.first, foreign.there, foreign.second, 64));
                EXPECT_EQ(CU(cuMemcpyPeer)(memory, foreign.second, foreign.there, foreign.second, 64), expected);
            }
            EXPECT_CU(CU(cuMemcpyDtoD_v2)(foreign.there, foreign.plain, 64));
            EXPECT_CU(CU(cuMemcpyHtoD_v2)(foreign.plain, host.data(), 64));
            // Nor is there anything wrong with them where the memory is.
            EXPECT_CU(CU(cuCtxSetCurrent)(foreign.first));
            for (CUdeviceptr memory : {foreign.mapped, foreign.pooled}) {
                EXPECT_CU(CU(cuMemcpyHtoD_v2)(memory, host.data(), 64));
                EXPECT_CU(CU(cuMemcpyDtoH_v2)(host.data(), memory, 64));
                EXPECT_CU(CU(cuMemsetD8_v2)(memory, 0, 64));
            }
        };
        on_profile(profile, body, {{"SOFTGPU_DEVICES", "2"}});
    }
}

}  // namespace
}  // namespace softgpu_test
