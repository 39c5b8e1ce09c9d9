// Streams that are watched, and memory that is freed while they run or are captured; with a driver that does what the test
// says.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "server/objects/freed_memory.h"
#include "server/objects/handle_table.h"
#include "server/objects/stream_queues.h"
#include "server/objects/stream_watch.h"
#include "server/objects/streams.h"

namespace warpline::server {

namespace {

/// Streams that are busy until they are told otherwise, and the events recorded in them.
struct FakeStreams {
    static inline std::mutex mutex;
    static inline std::condition_variable changed;
    static inline std::set<CUstream> busy;
    static inline std::set<CUstream> capturing;
    static inline std::map<CUevent, CUstream> recorded;  // events that are not reached
    static inline std::set<CUdeviceptr> mapped;
    static inline int broken_captures = 0;
    static inline int waiting = 0;  // threads
    static inline CUresult failure = CUDA_SUCCESS;
    static inline uintptr_t next_event = 1;

    static bool reached(CUevent event) {
        const auto found = recorded.find(event);
        return failure != CUDA_SUCCESS || found == recorded.end() || !busy.contains(found->second);
    }
    static DriverTable table() {
        busy.clear(), capturing.clear(), recorded.clear(), mapped.clear();
        broken_captures = waiting = 0, failure = CUDA_SUCCESS;
        DriverTable table;
        table.cuEventCreate = [](CUevent* event, unsigned) {
            const std::lock_guard lock(mutex);
            *event = reinterpret_cast<CUevent>(next_event++);
            return CUDA_SUCCESS;
        };
        table.cuEventRecord = [](CUevent event, CUstream stream) {
            const std::lock_guard lock(mutex);
            if (capturing.contains(stream)) ++broken_captures;
            recorded[event] = stream;
            return CUDA_SUCCESS;
        };
        table.cuEventQuery = [](CUevent event) {
            const std::lock_guard lock(mutex);
            return reached(event) ? failure : CUDA_ERROR_NOT_READY;
        };
        table.cuEventSynchronize = [](CUevent event) {
            std::unique_lock lock(mutex);
            ++waiting;
            changed.notify_all();
            changed.wait(lock, [event] { return reached(event); });
            --waiting;
            return failure;
        };
        table.cuStreamQuery = [](CUstream stream) {
            const std::lock_guard lock(mutex);
            return busy.contains(stream) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
        };
        table.cuStreamIsCapturing = [](CUstream stream, CUstreamCaptureStatus* status) {
            const std::lock_guard lock(mutex);
            *status = capturing.contains(stream) ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
            return CUDA_SUCCESS;
        };
        table.cuMemAddressReserve = [](CUdeviceptr* address, size_t, size_t, CUdeviceptr hint, unsigned long long) {
            *address = hint;
            return CUDA_SUCCESS;
        };
        table.cuMemCreate = [](CUmemGenericAllocationHandle* handle, size_t, const CUmemAllocationProp*, unsigned long long) {
            *handle = 1;
            return CUDA_SUCCESS;
        };
        table.cuMemRelease = [](CUmemGenericAllocationHandle) { return CUDA_SUCCESS; };
        table.cuMemMap = [](CUdeviceptr address, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long) {
            const std::lock_guard lock(mutex);
            mapped.insert(address);
            return CUDA_SUCCESS;
        };
        table.cuMemSetAccess = [](CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) { return CUDA_SUCCESS; };
        // As a driver that synchronises there.
        table.cuMemUnmap = [](CUdeviceptr address, size_t) {
            const std::lock_guard lock(mutex);
            if (!capturing.empty()) ++broken_captures;
            mapped.erase(address);
            return CUDA_SUCCESS;
        };
        return table;
    }
    static void finish(CUstream stream) {
        const std::lock_guard lock(mutex);
        busy.erase(stream);
        changed.notify_all();
    }
};

constexpr uint64_t k_base = 0x300000000000;
constexpr uint64_t k_block = DeviceMemory::k_block_bytes;
const uint64_t k_primary = Contexts::primary_token(0);
const auto k_first_stream = reinterpret_cast<CUstream>(0x1000);
const auto k_second_stream = reinterpret_cast<CUstream>(0x2000);

class FreedMemoryTest : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(m_memory.reserve_window({k_base, uint64_t{1} << 40, 0}).ok());
        ASSERT_EQ(m_memory.map(k_base, k_block, 0), CUDA_SUCCESS);
        m_handles.bind(HandleKind::stream, make_token(HandleKind::stream, 1, 0), {0x1000, k_primary, false});
        m_handles.bind(HandleKind::stream, make_token(HandleKind::stream, 1, 1), {0x2000, k_primary, false});
    }
    void TearDown() override {
        FakeStreams::finish(k_first_stream);
        FakeStreams::finish(k_second_stream);
        m_watch.close();
        m_freed.close();
    }

    Driver m_driver{FakeStreams::table(), DriverKind::nvidia, 13000};
    std::vector<DeviceSnapshot> m_devices{1};
    SessionCounters m_counters{};
    HandleTable m_handles;
    Streams m_streams{m_driver};
    MemoryLedger m_ledger{m_driver, m_devices, m_counters};
    DeviceMemory m_memory{m_driver, m_devices, m_ledger};
    LookFirst m_look_first{std::chrono::microseconds(0)};
    StreamWatch m_watch{m_driver, m_look_first};
    FreedMemory m_freed{m_driver, m_memory, m_watch, m_handles, m_streams};
};

TEST_F(FreedMemoryTest, B8_IsOverWhenEveryStreamHasDoneWithIt) {
    FakeStreams::busy = {k_first_stream, k_second_stream};
    ASSERT_EQ(m_freed.unmap(7, k_primary, k_base, k_block), CUDA_SUCCESS);
    EXPECT_FALSE(m_memory.contains(k_base, 1));
    EXPECT_EQ(m_memory.map(k_base, k_block, 0), CUDA_ERROR_INVALID_VALUE) << "not while it is there";
    FakeStreams::finish(k_first_stream);
    m_watch.collect();
    EXPECT_EQ(m_freed.through(), 6u);
    FakeStreams::finish(k_second_stream);
    EXPECT_TRUE(m_freed.wait_before(8));
    EXPECT_EQ(m_freed.through(), 7u);
    EXPECT_TRUE(FakeStreams::mapped.empty());
    EXPECT_EQ(m_memory.map(k_base, k_block, 0), CUDA_SUCCESS);
}

TEST_F(FreedMemoryTest, A3_MarksNoStreamThatRests) {
    FakeStreams::busy = {k_first_stream};
    ASSERT_EQ(m_freed.unmap(7, k_primary, k_base, k_block), CUDA_SUCCESS);
    {
        const std::lock_guard lock(FakeStreams::mutex);
        ASSERT_EQ(FakeStreams::recorded.size(), 1u) << "another thread that has waited for a stream finds it busy";
        EXPECT_EQ(FakeStreams::recorded.begin()->second, k_first_stream);
    }
    EXPECT_EQ(m_freed.through(), 6u);
    FakeStreams::finish(k_first_stream);
    EXPECT_TRUE(m_freed.wait_before(8));
    EXPECT_EQ(m_freed.through(), 7u);
}

TEST_F(FreedMemoryTest, A7_StaysMappedWhileSomebodyReadsWhatWasThereBefore) {
    ASSERT_EQ(m_memory.map(k_base + k_block, k_block, 0), CUDA_SUCCESS);
    ASSERT_EQ(m_freed.unmap(7, k_primary, k_base, k_block), CUDA_SUCCESS);
    std::optional<FreedMemory::Reading> earlier(std::in_place, m_freed), later;
    EXPECT_TRUE(m_freed.wait_before(8)) << "it was freed before anybody looked";
    EXPECT_EQ(m_freed.through(), 7u);
    ASSERT_EQ(m_freed.unmap(8, k_primary, k_base + k_block, k_block), CUDA_SUCCESS);
    EXPECT_FALSE(m_memory.contains(k_base + k_block, 1)) << "nobody else begins to read it";
    later.emplace(m_freed);
    const auto unmapped = std::async(std::launch::async, [&] { return m_freed.wait_before(9); });
    later.reset();
    EXPECT_EQ(unmapped.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
    EXPECT_EQ(m_freed.through(), 7u);
    {
        const std::lock_guard lock(FakeStreams::mutex);
        EXPECT_EQ(FakeStreams::mapped.size(), 1u);
    }
    earlier.reset();
    unmapped.wait();
    EXPECT_EQ(m_freed.through(), 8u);
    EXPECT_TRUE(FakeStreams::mapped.empty());
}

TEST_F(FreedMemoryTest, A5_IsOverInAContextThatHasFailed) {
    FakeStreams::busy = {k_first_stream};
    m_freed.add(7, k_primary);
    {
        const std::lock_guard lock(FakeStreams::mutex);
        FakeStreams::failure = CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    m_watch.collect();
    EXPECT_EQ(m_freed.through(), 7u);
}

TEST_F(FreedMemoryTest, B8_BreaksNoCapture) {
    m_freed.capture_begins(k_first_stream);
    FakeStreams::capturing = {k_first_stream};
    ASSERT_EQ(m_freed.unmap(7, k_primary, k_base, k_block), CUDA_SUCCESS);
    m_freed.add(8, k_primary);
    m_watch.collect();
    EXPECT_LT(m_freed.through(), 7u) << "what the stream did before the capture is not known to be over";
    EXPECT_FALSE(m_freed.any_before(9)) << "nobody can wait for it";
    EXPECT_EQ(FakeStreams::mapped.size(), 1u);
    EXPECT_EQ(FakeStreams::broken_captures, 0);
    {
        const std::lock_guard lock(FakeStreams::mutex);
        FakeStreams::capturing.clear();
    }
    m_freed.capture_ended(k_first_stream);
    EXPECT_TRUE(m_freed.wait_before(9));
    EXPECT_EQ(m_freed.through(), 8u);
    EXPECT_TRUE(FakeStreams::mapped.empty());
    EXPECT_EQ(FakeStreams::broken_captures, 0);
}

TEST_F(FreedMemoryTest, B8_WhatTheDriverGivesAwayAgainAtOnceIsTheNextOwners) {
    DriverTable table = FakeStreams::table();
    table.cuCtxGetCurrent = [](CUcontext* context) {
        *context = reinterpret_cast<CUcontext>(1);
        return CUDA_SUCCESS;
    };
    table.cuMemAlloc_v2 = [](CUdeviceptr* address, size_t) {
        *address = k_base + k_block;
        return CUDA_SUCCESS;
    };
    static uint64_t again;
    again = 0;
    static DeviceMemory* allocator;
    table.cuMemFree_v2 = [](CUdeviceptr) { return allocator->allocate(k_block, 0, again); };  // another thread is quicker
    const Driver driver{table, DriverKind::nvidia, 13000};
    MemoryLedger ledger(driver, m_devices, m_counters);
    DeviceMemory memory{driver, m_devices, ledger};
    allocator = &memory;
    uint64_t address = 0;
    ASSERT_EQ(memory.allocate(k_block, 0, address), CUDA_SUCCESS);
    ASSERT_EQ(memory.unmap(address, k_block), CUDA_SUCCESS);
    ASSERT_EQ(again, address);
    EXPECT_TRUE(memory.contains(again, k_block));
    EXPECT_TRUE(memory.is_own(again));
}

/// A driver's own free waits for all that runs by then, and keeps calls out which that may wait for.
TEST_F(FreedMemoryTest, B8_WhatTheDriverPlacedIsFreedInOrderWhereTheDeviceRests) {
    DriverTable table = FakeStreams::table();
    table.cuCtxGetCurrent = [](CUcontext* context) {
        *context = reinterpret_cast<CUcontext>(1);
        return CUDA_SUCCESS;
    };
    static std::atomic<uint64_t> next, free_calls;
    next = k_base, free_calls = 0;
    table.cuMemAlloc_v2 = [](CUdeviceptr* address, size_t) {
        *address = next.fetch_add(k_block);
        return CUDA_SUCCESS;
    };
    table.cuMemFree_v2 = [](CUdeviceptr) {
        ++free_calls;
        return CUDA_SUCCESS;
    };
    const Driver driver{table, DriverKind::nvidia, 13000};
    MemoryLedger ledger(driver, m_devices, m_counters);
    DeviceMemory memory{driver, m_devices, ledger};
    StreamWatch watch{driver, m_look_first};
    FreedMemory freed{driver, memory, watch, m_handles, m_streams};
    std::array<uint64_t, 3> blocks{};
    for (uint64_t& block : blocks) ASSERT_EQ(memory.allocate(k_block, 0, block), CUDA_SUCCESS);

    ASSERT_EQ(freed.unmap(7, k_primary, blocks[0], k_block), CUDA_SUCCESS);
    EXPECT_EQ(free_calls, 1);
    EXPECT_EQ(freed.through(), 7);

    FakeStreams::busy = {k_second_stream};
    ASSERT_EQ(freed.unmap(8, k_primary, blocks[1], k_block), CUDA_SUCCESS);
    EXPECT_EQ(free_calls, 1);
    EXPECT_EQ(freed.through(), 7);
    FakeStreams::finish(k_second_stream);
    freed.wait_before(9);
    EXPECT_EQ(free_calls, 2);
    EXPECT_EQ(freed.through(), 8);

    std::optional<FreedMemory::Reading> reading(std::in_place, freed);
    std::thread frees([&] { EXPECT_EQ(freed.unmap(9, k_primary, blocks[2], k_block), CUDA_SUCCESS); });
    while (!freed.any_before(10)) std::this_thread::yield();
    EXPECT_EQ(free_calls, 2);
    reading.reset();
    frees.join();
    EXPECT_EQ(free_calls, 3);
    watch.close();
    freed.close();
}

TEST_F(FreedMemoryTest, B8_WhatIsFreedWhileMemoryIsLookedForCounts) {
    FakeStreams::busy = {k_first_stream};
    ASSERT_EQ(m_freed.unmap(7, k_primary, k_base, k_block), CUDA_SUCCESS);
    int tries = 0;
    std::vector<MemoryLedger::Refusal> refusals;
    const auto allocate = [&](MemoryLedger::Refusal refusal) {
        refusals.push_back(refusal);
        if (++tries > 1) return FakeStreams::mapped.empty() ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
        // Over before anybody can wait for it.
        FakeStreams::finish(k_first_stream);
        m_freed.wait_before(8);
        return CUDA_ERROR_OUT_OF_MEMORY;
    };
    EXPECT_EQ(m_freed.allocate_behind(8, allocate, [] {}), CUDA_SUCCESS);
    EXPECT_EQ(tries, 2);
    EXPECT_EQ(refusals, (std::vector{MemoryLedger::Refusal::quiet, MemoryLedger::Refusal::told}));
    // Where nothing was freed, asking again would change nothing.
    tries = 0;
    EXPECT_EQ(m_freed.allocate_behind(
                  8, [&](MemoryLedger::Refusal) { return ++tries, CUDA_ERROR_OUT_OF_MEMORY; }, [] {}),
              CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(tries, 1);
}

TEST_F(FreedMemoryTest, TheDefaultStreamIsWatchedOnlyWhereItIsUsed) {
    FakeStreams::busy = {nullptr};
    m_freed.add(7, k_primary);
    m_watch.collect();
    EXPECT_EQ(m_freed.through(), 7u);
    m_streams.note_default_used(k_primary);
    m_freed.add(8, k_primary);
    m_watch.collect();
    EXPECT_EQ(m_freed.through(), 7u);
    FakeStreams::finish(nullptr);
    m_watch.collect();
    EXPECT_EQ(m_freed.through(), 8u);
}

TEST(StreamWatch, A5_TellsUrgentPointsByItselfAndOthersWhenAsked) {
    Driver driver{FakeStreams::table(), DriverKind::nvidia, 13000};
    FakeStreams::busy = {k_first_stream, k_second_stream};
    std::mutex mutex;
    std::condition_variable told;
    std::vector<int> order;
    LookFirst look_first(std::chrono::microseconds(0));
    StreamWatch watch(driver, look_first);
    const auto note = [&](int number) {
        return [&, number](CUresult) {
            const std::lock_guard lock(mutex);
            order.push_back(number);
            told.notify_all();
        };
    };
    ASSERT_EQ(watch.add(k_first_stream, StreamWatch::Urgency::whenever, note(1)), CUDA_SUCCESS);
    ASSERT_EQ(watch.add(k_first_stream, StreamWatch::Urgency::soon, note(2)), CUDA_SUCCESS);
    ASSERT_EQ(watch.add(k_second_stream, StreamWatch::Urgency::soon, note(3)), CUDA_SUCCESS);
    // A stream that does not move holds up no other one.
    FakeStreams::finish(k_second_stream);
    {
        std::unique_lock lock(mutex);
        told.wait(lock, [&] { return order == std::vector<int>{3}; });
    }
    FakeStreams::finish(k_first_stream);
    {
        std::unique_lock lock(mutex);
        told.wait(lock, [&] { return order == std::vector<int>{3, 1, 2}; });
    }
    ASSERT_EQ(watch.add(k_first_stream, StreamWatch::Urgency::whenever, note(4)), CUDA_SUCCESS);
    watch.collect_for_host_function();
    EXPECT_EQ(order.back(), 4);
}

TEST(StreamQueues, A2_AStreamThatStandsStillIsGivenOnlySoMuchAndHoldsUpNoOther) {
    const Driver driver{FakeStreams::table(), DriverKind::nvidia, 13000};
    LookFirst look_first(std::chrono::microseconds(0));
    StreamWatch watch(driver, look_first);
    StreamQueues queues(watch);
    const auto give = [&](uint64_t token, CUstream stream) {
        if (const auto marks = queues.enter({token, 0, 0})) queues.wait_for_room(*marks, stream);
    };
    constexpr uint64_t k_still = 11, k_other = 12;
    FakeStreams::busy = {k_first_stream};
    std::atomic<int> given{0};
    std::thread program([&] {
        for (; given < 1000; ++given) give(k_still, k_first_stream);
    });
    // It waits in the driver's wait for an event.
    std::unique_lock lock(FakeStreams::mutex);
    FakeStreams::changed.wait(lock, [] { return FakeStreams::waiting > 0; });
    lock.unlock();
    EXPECT_GT(given, 64) << "a step of many launches does not wait";
    EXPECT_LT(given, 200) << "each of them may be two pieces of work, of which a stream takes 450";
    for (int i = 0; i < 1000; ++i) give(k_other, k_second_stream);  // it does what it is given
    FakeStreams::finish(k_first_stream);
    program.join();
    EXPECT_EQ(given, 1000);
}

}  // namespace
}  // namespace warpline::server
