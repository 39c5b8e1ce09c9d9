// Tests of memory for copies that is made ahead of need, by a thread of its own.
#include "server/objects/staging_memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <semaphore>
#include <vector>

namespace warpline::server {

namespace {

std::binary_semaphore slab_made{0}, may_go_on{0};
std::atomic<int> slabs_to_stop_at{0};
CUcontext context_of_test = reinterpret_cast<CUcontext>(0x1000);

/// A driver on which the thread that has made a slab stops until the test lets it go on.
DriverTable stopping_driver() {
    DriverTable table;
    table.cuCtxGetCurrent = [](CUcontext* context) {
        *context = context_of_test;
        return CUDA_SUCCESS;
    };
    table.cuCtxSetCurrent = [](CUcontext context) {
        if (context != nullptr || slabs_to_stop_at.fetch_sub(1) <= 0) return CUDA_SUCCESS;
        slab_made.release();
        may_go_on.acquire();
        return CUDA_SUCCESS;
    };
    return table;
}

TEST(StagingMemory, WhoFindsANewSlabTooSmallAsksAgain_B3) {
    constexpr uint64_t k_little = 1 << 20, k_much = 64 << 20;
    const Driver driver{stopping_driver(), DriverKind::nvidia, 13000};
    StagingMemory memory(driver, uint64_t{1} << 30, StagingMemory::FirstSlab::when_wanted);
    slabs_to_stop_at.store(1);
    ASSERT_TRUE(memory.grow(k_little));
    slab_made.acquire();
    // The slab is there, but the thread that has made it has not said that it is free for the next one.
    const uint64_t seen = memory.generation();
    ASSERT_EQ(memory.try_take(k_much), nullptr);
    ASSERT_TRUE(memory.grow(k_much));
    auto woken = std::async(std::launch::async, [&] { memory.wait_change(seen); });
    may_go_on.release();
    const bool was_woken = woken.wait_for(std::chrono::seconds(60)) == std::future_status::ready;
    EXPECT_TRUE(was_woken);
    if (!was_woken) memory.close();  // or the test would not end
    woken.wait();
    std::byte* data = nullptr;
    for (uint64_t last = memory.generation(); (data = memory.try_take(k_much)) == nullptr; last = memory.generation()) {
        ASSERT_TRUE(memory.grow(k_much));
        memory.wait_change(last);
    }
    memory.give(data);
}

std::atomic<int> registrations{0};

/// A driver on which whoever page-locks first stops until the test lets him go on.
DriverTable slowly_locking_driver() {
    DriverTable table;
    table.cuCtxGetCurrent = [](CUcontext* context) {
        *context = context_of_test;
        return CUDA_SUCCESS;
    };
    table.cuCtxSetCurrent = [](CUcontext) { return CUDA_SUCCESS; };
    table.cuMemHostRegister_v2 = [](void*, size_t, unsigned) {
        if (registrations.fetch_add(1) == 0) {
            slab_made.release();
            may_go_on.acquire();
        }
        return CUDA_SUCCESS;
    };
    table.cuMemHostUnregister = [](void*) {
        --registrations;
        return CUDA_SUCCESS;
    };
    return table;
}

TEST(StagingMemory, MemoryThatSomebodyPageLocksIsNotPageLockedAgain_B3) {
    std::vector<std::byte> added(1 << 20);
    const Driver driver{slowly_locking_driver(), DriverKind::nvidia, 13000};
    registrations = 0;
    {
        StagingMemory memory(driver, uint64_t{1} << 30, StagingMemory::FirstSlab::when_wanted);
        memory.prepare();
        memory.lock_also(added);
        slab_made.acquire();
        memory.prepare();
        EXPECT_EQ(registrations, 1);
        may_go_on.release();
    }
    EXPECT_EQ(registrations, 0);
}

}  // namespace

}  // namespace warpline::server
