// Handle table, device memory and kernel parameters, without a process around them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "server/hooks/kernel_params.h"
#include "server/objects/device_memory.h"
#include "server/objects/given_resources.h"
#include "server/objects/handle_table.h"
#include "server/objects/waits.h"
#include "server/worker/inventory_record.h"

namespace warpline::server {

namespace {

const uint64_t k_stream = make_token(HandleKind::stream, 3, 7);

TEST(HandleTable, F3_FindsOnlyWhatWasBoundUnderTheSameKindAndGeneration) {
    HandleTable table;
    EXPECT_TRUE(table.is_free(HandleKind::stream, k_stream));
    EXPECT_TRUE(table.bind(HandleKind::stream, k_stream, {0x1234, 0, false}));
    EXPECT_FALSE(table.bind(HandleKind::stream, k_stream, {0x9999, 0, false}));
    EXPECT_FALSE(table.is_free(HandleKind::stream, k_stream));
    ASSERT_TRUE(table.find(HandleKind::stream, k_stream).has_value());
    EXPECT_EQ(table.find(HandleKind::stream, k_stream)->value, 0x1234u);
    EXPECT_FALSE(table.find(HandleKind::event, k_stream).has_value());
    EXPECT_FALSE(table.find(HandleKind::stream, make_token(HandleKind::stream, 4, 7)).has_value());
    EXPECT_FALSE(table.find(HandleKind::stream, k_stream | uint64_t{1} << 60).has_value());
    EXPECT_TRUE(table.remove(HandleKind::stream, k_stream).has_value());
    EXPECT_FALSE(table.remove(HandleKind::stream, k_stream).has_value());
}

TEST(HandleTable, F3_WhatIsOwnedGoesWithItsOwner) {
    HandleTable table;
    const uint64_t context = make_token(HandleKind::context, 1, 0);  // a primary one: never bound itself
    const uint64_t module = make_token(HandleKind::module, 1, 0);
    const uint64_t function = make_token(HandleKind::function, 1, 0);
    const uint64_t library = make_token(HandleKind::library, 1, 0);
    ASSERT_TRUE(table.bind(HandleKind::module, module, {1, context, false}));
    ASSERT_TRUE(table.bind(HandleKind::function, function, {2, module, false}));
    ASSERT_TRUE(table.bind(HandleKind::library, library, {3, 0, false}));
    table.remove_owned(context);
    EXPECT_FALSE(table.find(HandleKind::module, module).has_value());
    EXPECT_FALSE(table.find(HandleKind::function, function).has_value());
    EXPECT_TRUE(table.find(HandleKind::library, library).has_value());
    EXPECT_EQ(table.size(), 1u);
}

TEST(HandleTable, NamesWhatTheDriverTells) {
    HandleTable table;
    const uint64_t node = make_token(HandleKind::graph_node, 1, 0);
    ASSERT_TRUE(table.bind(HandleKind::graph_node, node, {0xabc, 0, false}));
    EXPECT_EQ(table.token_of(HandleKind::graph_node, 0xabc), node);
    EXPECT_EQ(table.token_of(HandleKind::graph, 0xabc), 0u);
    table.remove(HandleKind::graph_node, node);
    EXPECT_EQ(table.token_of(HandleKind::graph_node, 0xabc), 0u);
}

TEST(Waits, PutOffADestructionUntilNobodyWaits) {
    Waits waits;
    EXPECT_FALSE(waits.put_off(0x10)) << "nobody waits: destroy it now";
    waits.begin(0x10);
    waits.begin(0x10);
    EXPECT_FALSE(waits.put_off(0x20));
    EXPECT_TRUE(waits.put_off(0x10));
    EXPECT_FALSE(waits.end(0x10)) << "another one still waits";
    EXPECT_TRUE(waits.end(0x10));
    waits.begin(0x10);  // the driver's next object at that address
    EXPECT_FALSE(waits.end(0x10));
}

/// A driver that keeps a list of what is mapped.
struct FakeMemory {
    static inline std::map<CUdeviceptr, size_t> mapped;
    static inline size_t live_handles = 0;
    static inline bool full = false;
    static inline CUdeviceptr occupied = 0;
    static inline std::vector<CUdeviceptr> granted;
    enum class Hints { honoured, small, ignored, refused };
    static inline Hints hints = Hints::honoured;
    static inline int attempts = 0;
    static inline CUdeviceptr highest_hint = 0;
    static inline uint64_t free_bytes = 0;
    static inline bool context_active = true;

    static DriverTable table() {
        mapped.clear();
        live_handles = 0;
        full = false;
        occupied = 0;
        granted.clear();
        DriverTable table;
        attempts = 0;
        hints = Hints::honoured;
        highest_hint = 0;
        free_bytes = uint64_t{6} << 30;
        context_active = true;
        table.cuMemAddressReserve = [](CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr hint, unsigned long long) {
            ++attempts;
            highest_hint = std::max(highest_hint, hint);
            if (hints == Hints::refused && hint != 0) return CUDA_ERROR_INVALID_VALUE;
            if (hints == Hints::small && bytes > uint64_t{1} << 40) return CUDA_ERROR_OUT_OF_MEMORY;
            const bool elsewhere = hint == occupied || hint == 0 || hints == Hints::ignored;
            *address = elsewhere ? 0x7f0000000000 : hint;
            granted.push_back(*address);
            return CUDA_SUCCESS;
        };
        table.cuMemGetInfo_v2 = [](size_t* free, size_t* total) {
            *free = free_bytes;
            *total = uint64_t{8} << 30;
            return CUDA_SUCCESS;
        };
        table.cuDevicePrimaryCtxGetState = [](CUdevice, unsigned*, int* active) {
            *active = context_active ? 1 : 0;
            return CUDA_SUCCESS;
        };
        table.cuDevicePrimaryCtxRetain = [](CUcontext* context, CUdevice) {
            *context = reinterpret_cast<CUcontext>(0xc0);
            return CUDA_SUCCESS;
        };
        table.cuCtxSetCurrent = [](CUcontext) { return CUDA_SUCCESS; };
        table.cuMemRetainAllocationHandle = [](CUmemGenericAllocationHandle*, void* address) {
            if (!mapped.contains(reinterpret_cast<CUdeviceptr>(address))) return CUDA_ERROR_INVALID_VALUE;
            ++live_handles;
            return CUDA_SUCCESS;
        };
        table.cuMemAddressFree = [](CUdeviceptr address, size_t) {
            std::erase(granted, address);
            return CUDA_SUCCESS;
        };
        table.cuMemCreate = [](CUmemGenericAllocationHandle* handle, size_t, const CUmemAllocationProp*, unsigned long long) {
            if (full) return CUDA_ERROR_OUT_OF_MEMORY;
            *handle = 1;
            ++live_handles;
            return CUDA_SUCCESS;
        };
        table.cuMemRelease = [](CUmemGenericAllocationHandle) {
            --live_handles;
            return CUDA_SUCCESS;
        };
        table.cuMemMap = [](CUdeviceptr address, size_t bytes, size_t, CUmemGenericAllocationHandle, unsigned long long) {
            mapped[address] = bytes;
            return CUDA_SUCCESS;
        };
        table.cuMemSetAccess = [](CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) { return CUDA_SUCCESS; };
        table.cuMemUnmap = [](CUdeviceptr address, size_t bytes) {
            return mapped[address] == bytes && mapped.erase(address) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        };
        return table;
    }
};

TEST(Inventory, B13_AMigDeviceHasANameOfItsOwn) {
    DriverTable table;
    table.cuDeviceGetCount = [](int* count) { return *count = 2, CUDA_SUCCESS; };
    table.cuDeviceGet = [](CUdevice* device, int ordinal) { return *device = ordinal, CUDA_SUCCESS; };
    table.cuDeviceGetName = [](char* name, int, CUdevice device) {
        std::strcpy(name, device == 0 ? "NVIDIA A30" : "NVIDIA A30 MIG 1g.6gb");
        return CUDA_SUCCESS;
    };
    table.cuDeviceGetUuid_v2 = [](CUuuid* uuid, CUdevice device) {
        return std::memset(uuid, device == 0 ? 0x11 : 0x22, sizeof *uuid), CUDA_SUCCESS;
    };
    table.cuDeviceCanAccessPeer = [](int* can, CUdevice, CUdevice) { return *can = 1, CUDA_SUCCESS; };
    const Driver driver(table, DriverKind::nvidia, 13000);
    const auto devices = take_inventory(driver, true);
    ASSERT_TRUE(devices.ok());
    ASSERT_EQ(select_devices(*devices, "MIG-2222").size(), 1u);
    EXPECT_EQ(select_devices(*devices, "MIG-2222")[0].driver_device, 1);
    EXPECT_TRUE(select_devices(*devices, "GPU-2222").empty());

    // As another worker gets to know them.
    const auto record = write_inventory(*devices);
    ASSERT_TRUE(record.ok());
    const auto known = read_inventory(*record);
    close(*record);
    ASSERT_TRUE(known.ok());
    ASSERT_EQ(known->size(), 2u);
    EXPECT_EQ(select_devices(*known, "MIG-2222,0")[0].driver_device, 1);
    ASSERT_EQ((*known)[1].peers.size(), 1u);
    EXPECT_TRUE((*known)[1].peers[0].can_access);
    EXPECT_EQ((*known)[1].uuid.bytes[0], 0x22);
}

constexpr uint64_t k_window_base = 0x300000000000;
constexpr uint64_t k_table_block = DeviceMemory::k_block_bytes;

class DeviceMemoryTest : public testing::Test {
protected:
    void SetUp() override { ASSERT_TRUE(m_memory.reserve_window({k_window_base, uint64_t{1} << 40, 0}).ok()); }

    Driver m_driver{FakeMemory::table(), DriverKind::nvidia, 13000};
    std::vector<DeviceSnapshot> m_devices{1};
    SessionCounters m_counters{};
    MemoryLedger m_ledger{m_driver, m_devices, m_counters};
    DeviceMemory m_memory{m_driver, m_devices, m_ledger};
};

TEST_F(DeviceMemoryTest, AnOccupiedWindowMovesToWhereTheClientHasRoomToo) {
    FakeMemory::occupied = k_window_base;
    FakeMemory::granted.clear();
    DeviceMemory memory(m_driver, m_devices, m_ledger);
    const auto window = memory.reserve_window({k_window_base, uint64_t{1} << 40, 0});
    ASSERT_TRUE(window.ok());
    EXPECT_NE(window->address, k_window_base);
    EXPECT_LT(window->address, uint64_t{1} << 46);
    EXPECT_EQ(FakeMemory::granted, std::vector<CUdeviceptr>{window->address});  // what was not wanted is given back
}

// What drivers do with hints is said differently by different people; none of it may cost a session, or many attempts.
TEST(AddressWindow, IsFoundWhateverADriverDoesWithHints) {
    const Driver driver{FakeMemory::table(), DriverKind::nvidia, 13000};
    const AddressWindow wanted{k_window_base, uint64_t{1} << 44, 0};
    for (const auto& [hints, address, bytes] : std::vector<std::tuple<FakeMemory::Hints, uint64_t, uint64_t>>{
             {FakeMemory::Hints::honoured, k_window_base, uint64_t{1} << 44},
             {FakeMemory::Hints::small, k_window_base, uint64_t{1} << 40},
             {FakeMemory::Hints::ignored, 0x7f0000000000, uint64_t{14} << 40},
             {FakeMemory::Hints::refused, 0x7f0000000000, uint64_t{14} << 40},
         }) {
        FakeMemory::hints = hints;
        FakeMemory::attempts = 0;
        FakeMemory::granted.clear();
        const auto window = reserve_address_window(driver, wanted, AddressSpace::large);
        ASSERT_TRUE(window.ok());
        EXPECT_EQ(window->address, address);
        EXPECT_EQ(window->bytes, bytes);
        EXPECT_LE(FakeMemory::attempts, 18);
        EXPECT_EQ(FakeMemory::granted, std::vector<CUdeviceptr>{address}) << "what was not wanted is given back";
    }
}

TEST(AddressWindow, UnderWslNoHintIsTooHighToReturn) {
    const Driver driver{FakeMemory::table(), DriverKind::nvidia, 13000};
    const auto window = reserve_address_window(driver, {k_window_base, uint64_t{1} << 44, 0}, AddressSpace::low);
    ASSERT_TRUE(window.ok());
    EXPECT_EQ(window->address, uint64_t{64} << 30);
    EXPECT_EQ(window->bytes, uint64_t{448} << 30);
    EXPECT_LT(FakeMemory::highest_hint, uint64_t{2} << 40);
    FakeMemory::hints = FakeMemory::Hints::refused;
    EXPECT_TRUE(reserve_address_window(driver, {k_window_base, uint64_t{1} << 44, 0}, AddressSpace::low).ok());
    EXPECT_LT(FakeMemory::highest_hint, uint64_t{2} << 40);
}

TEST(MemoryCredit, A4_IsAboutWhatIsFreeWhenItIsGranted) {
    const Driver driver{FakeMemory::table(), DriverKind::nvidia, 13000};
    DeviceSnapshot device;
    device.free_bytes = uint64_t{6} << 30;  // as it was when the worker started
    constexpr uint64_t k_most = uint64_t{1} << 30;
    const std::vector<DeviceSnapshot> devices{1};
    SessionCounters counters{};
    const MemoryLedger ledger(driver, devices, counters);
    MemoryCredit credit(driver, ledger);
    FakeMemory::free_bytes = uint64_t{100} << 20;
    EXPECT_EQ(credit.at_start(device, k_most), uint64_t{50} << 20);
    FakeMemory::free_bytes = uint64_t{40} << 20;
    EXPECT_EQ(credit.replace(0), uint64_t{20} << 20) << "instead of what was left";
    EXPECT_EQ(credit.renew(0), 0u) << "nothing happened since";
    credit.used(0, uint64_t{20} << 20);
    FakeMemory::free_bytes = uint64_t{6} << 30;
    EXPECT_TRUE(credit.has_news());
    EXPECT_EQ(credit.renew(0), k_most);
    FakeMemory::context_active = false;
    EXPECT_EQ(MemoryCredit(driver, ledger).at_start(device, k_most), 0u) << "nobody can say what is free";
}

TEST_F(DeviceMemoryTest, AResetLeavesWhatTheClientKnowsMapped) {
    m_devices[0].driver_device = 0;
    ASSERT_EQ(m_memory.map(k_window_base, k_table_block, 0), CUDA_SUCCESS);
    ASSERT_EQ(m_memory.map(k_window_base + k_table_block, k_table_block, 0), CUDA_SUCCESS);
    // A driver whose mappings outlive the reset of a context …
    m_memory.device_was_reset(0);
    EXPECT_TRUE(m_memory.was_reset());
    m_memory.restore(0);
    EXPECT_FALSE(m_memory.was_reset());
    EXPECT_EQ(FakeMemory::mapped.size(), 2u);
    EXPECT_EQ(FakeMemory::live_handles, 0u);
    // … and one whose mappings end with it.
    FakeMemory::mapped.clear();
    m_memory.device_was_reset(0);
    m_memory.restore(0);
    EXPECT_EQ(FakeMemory::mapped.size(), 2u);
    EXPECT_TRUE(m_memory.contains(k_window_base, 2 * k_table_block));
    EXPECT_EQ(FakeMemory::live_handles, 0u);
    // No memory: the addresses say so when they are used.
    FakeMemory::mapped.clear();
    FakeMemory::full = true;
    m_memory.device_was_reset(0);
    m_memory.restore(0);
    EXPECT_EQ(m_memory.refusal(k_window_base), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(m_counters.device_bytes.load(), 0u);
}

TEST_F(DeviceMemoryTest, MapsAndUnmapsWholeBlocks) {
    EXPECT_EQ(m_memory.map(k_window_base, 2 * k_table_block, 0), CUDA_SUCCESS);
    EXPECT_EQ(m_memory.map(k_window_base + 2 * k_table_block, k_table_block, 0), CUDA_SUCCESS);
    EXPECT_EQ(FakeMemory::live_handles, 0u);  // the mapping alone keeps the memory
    EXPECT_EQ(m_counters.device_bytes.load(), 3 * k_table_block);
    EXPECT_TRUE(m_memory.contains(k_window_base, 3 * k_table_block));  // blocks that touch count as one
    EXPECT_FALSE(m_memory.contains(k_window_base, 3 * k_table_block + 1));
    EXPECT_EQ(m_memory.unmap(k_window_base, k_table_block), CUDA_ERROR_INVALID_VALUE);      // half a block
    EXPECT_EQ(m_memory.unmap(k_window_base, 4 * k_table_block), CUDA_ERROR_INVALID_VALUE);  // more than there is
    EXPECT_EQ(m_memory.unmap(k_window_base, 3 * k_table_block), CUDA_SUCCESS);
    EXPECT_TRUE(FakeMemory::mapped.empty());
    EXPECT_EQ(m_counters.device_bytes.load(), 0u);
}

TEST_F(DeviceMemoryTest, F3_RefusesRangesThatWrapOverlapOrLieOutside) {
    ASSERT_EQ(m_memory.map(k_window_base + k_table_block, k_table_block, 0), CUDA_SUCCESS);
    for (const auto& [address, bytes] : std::vector<std::pair<uint64_t, uint64_t>>{
             {k_window_base, 2 * k_table_block},
             {k_window_base + k_table_block, k_table_block},
             {k_window_base - k_table_block, k_table_block},
             {k_window_base + (uint64_t{1} << 40), k_table_block},
             {k_window_base, ~uint64_t{0} & ~(k_table_block - 1)},
             {~uint64_t{0} & ~(k_table_block - 1), k_table_block},
             {k_window_base + 1, k_table_block},
             {k_window_base, k_table_block + 1},
             {k_window_base, 0},
         }) {
        EXPECT_EQ(m_memory.map(address, bytes, 0), CUDA_ERROR_INVALID_VALUE) << std::hex << address << " " << bytes;
    }
    EXPECT_EQ(m_memory.map(k_window_base, k_table_block, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(m_memory.map(k_window_base, k_table_block, -1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_FALSE(m_memory.contains(k_window_base + k_table_block, ~uint64_t{0}));
    EXPECT_FALSE(m_memory.contains(0, 1));
}

TEST_F(DeviceMemoryTest, AFailedMapPoisonsItsAddresses) {
    FakeMemory::full = true;
    EXPECT_EQ(m_memory.map(k_window_base, k_table_block, 0), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_FALSE(m_memory.contains(k_window_base, 1));
    EXPECT_EQ(m_memory.refusal(k_window_base + 5), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(m_memory.refusal(k_window_base + k_table_block), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(m_memory.unmap(k_window_base, k_table_block), CUDA_SUCCESS);  // the client gives the addresses back
    EXPECT_EQ(m_memory.refusal(k_window_base + 5), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DeviceMemoryTest, F3_TheClientUnmapsOnlyWhatItMapped) {
    ASSERT_EQ(m_memory.map(k_window_base, k_table_block, 0), CUDA_SUCCESS);
    m_memory.add_range(k_window_base + k_table_block, k_table_block);
    EXPECT_FALSE(m_memory.is_clients_own(k_window_base, 2 * k_table_block));
    EXPECT_FALSE(m_memory.is_clients_own(k_window_base + k_table_block, k_table_block + 1));
    EXPECT_TRUE(m_memory.is_clients_own(k_window_base + k_table_block, k_table_block));
    EXPECT_EQ(m_memory.unmap(k_window_base, 2 * k_table_block), CUDA_ERROR_INVALID_VALUE);
    m_memory.remove_ranges(k_window_base, 2 * k_table_block);
    EXPECT_TRUE(m_memory.contains(k_window_base, k_table_block));
    EXPECT_FALSE(m_memory.contains(k_window_base + k_table_block, 1));
}

/// A kernel that wants exactly these.
ParamLayout layout_of(std::vector<uint32_t> sizes, uint64_t bytes = 0) { return {std::move(sizes), bytes}; }

TEST(KernelParams, BuildsPointersToCopies) {
    const std::string params("\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d", 13);
    const uint32_t sizes[] = {8, 1, 4, 0};
    KernelParams built;
    ASSERT_EQ(built.read(as_bytes(params), as_bytes(sizes, sizeof sizes), layout_of({8, 1, 4, 0})), CUDA_SUCCESS);
    EXPECT_EQ(built.extra(), nullptr);
    void** pointers = built.kernel_params();
    ASSERT_NE(pointers, nullptr);
    EXPECT_EQ(std::memcmp(pointers[0], params.data(), 8), 0);
    EXPECT_EQ(std::memcmp(pointers[1], params.data() + 8, 1), 0);
    EXPECT_EQ(std::memcmp(pointers[2], params.data() + 9, 4), 0);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(reinterpret_cast<uintptr_t>(pointers[i]) % 16, 0u);
}

TEST(KernelParams, ManyAndLargeOnesAreKeptToo) {
    const std::string params(30000, 'x');
    const std::vector<uint32_t> sizes(3000, 10);
    KernelParams built;
    ASSERT_EQ(built.read(as_bytes(params), as_bytes(sizes.data(), sizes.size() * 4), layout_of(sizes)), CUDA_SUCCESS);
    EXPECT_EQ(std::memcmp(built.kernel_params()[2999], "xxxxxxxxxx", 10), 0);
}

TEST(KernelParams, ABufferWithoutSizesIsTheExtraForm) {
    KernelParams built;
    ASSERT_EQ(built.read(as_bytes("12345678"), {}, layout_of({4, 4}, 8)), CUDA_SUCCESS);
    EXPECT_EQ(built.kernel_params(), nullptr);
    void** extra = built.extra();
    ASSERT_NE(extra, nullptr);
    EXPECT_EQ(std::memcmp(extra[1], "12345678", 8), 0);
    EXPECT_EQ(*static_cast<size_t*>(extra[3]), 8u);
    KernelParams none;
    ASSERT_EQ(none.read({}, {}, layout_of({})), CUDA_SUCCESS);
    EXPECT_EQ(none.kernel_params(), nullptr);
    EXPECT_EQ(none.extra(), nullptr);
}

TEST(KernelParams, F3_SizesThatDoNotAddUpAreRefused) {
    const auto read = [](std::string_view params, std::vector<uint32_t> sizes) {
        KernelParams built;
        return built.read(as_bytes(params), as_bytes(sizes.data(), sizes.size() * 4), layout_of(sizes)) == CUDA_SUCCESS;
    };
    EXPECT_FALSE(read("12345678", {9}));
    EXPECT_FALSE(read("12345678", {7}));
    EXPECT_FALSE(read("12345678", {0xffffffffu, 9}));
    EXPECT_FALSE(read("", {1}));
    EXPECT_FALSE(read("", std::vector<uint32_t>(5000, 0)));
    EXPECT_FALSE(read(std::string(40000, 'x'), {40000}));
}

TEST(KernelParams, F3_OnlyTheKernelsOwnParametersAreTaken) {
    const auto read = [](std::string_view params, std::vector<uint32_t> sizes, const ParamLayout& layout) {
        KernelParams built;
        return built.read(as_bytes(params), as_bytes(sizes.data(), sizes.size() * 4), layout);
    };
    EXPECT_EQ(read("12345678", {8}, layout_of({8}, 8)), CUDA_SUCCESS);
    EXPECT_EQ(read("12345678", {8}, layout_of({4}, 4)), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(read("12345678", {8}, layout_of({8, 8}, 16)), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(read("12345678", {4, 4}, layout_of({8}, 8)), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(read("", {}, layout_of({8}, 8)), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(read("12345678", {}, layout_of({1, 4}, 8)), CUDA_SUCCESS);
}

TEST(GivenResources, F3_AreTakenAsTheyWereGiven) {
    const auto bytes = [](std::string_view text) {
        const BytesView view = as_bytes(text);
        return Bytes(view.begin(), view.end());
    };
    GivenResources given;
    uint64_t owner = 77;
    EXPECT_FALSE(given.find(bytes("all"), owner));
    EXPECT_TRUE(given.add(bytes("all"), 0));
    EXPECT_TRUE(given.add(bytes("part"), 5));
    EXPECT_TRUE(given.find(bytes("part"), owner));
    EXPECT_EQ(owner, 5u);
    EXPECT_FALSE(given.find(bytes("parts"), owner));
    given.owner_ended(5);
    EXPECT_FALSE(given.find(bytes("part"), owner));
    EXPECT_TRUE(given.find(bytes("all"), owner));
    EXPECT_EQ(owner, 0u);
}

TEST(KernelParams, F3_A_buffer_is_as_long_as_what_the_kernel_reads) {
    KernelParams built;
    ASSERT_EQ(built.read(as_bytes("1234567"), {}, layout_of({1, 4, 2000}, 2008)), CUDA_SUCCESS);
    ASSERT_NE(built.extra(), nullptr);
    EXPECT_EQ(*static_cast<size_t*>(built.extra()[3]), 2008u);
    const auto* bytes = static_cast<const char*>(built.extra()[1]);
    EXPECT_EQ(std::memcmp(bytes, "1234567", 7), 0);
    EXPECT_TRUE(std::all_of(bytes + 7, bytes + 2008, [](char byte) { return byte == 0; }));
}

TEST(SelectDevices, A9_ReadsTheListAsTheDriverDoes) {
    std::vector<DeviceSnapshot> devices(3);
    for (int i = 0; i < 3; ++i) {
        devices[static_cast<size_t>(i)].device = i;
        devices[static_cast<size_t>(i)].driver_device = i;
        std::memset(devices[static_cast<size_t>(i)].uuid.bytes, 0x10 * (i + 1), 16);
    }
    devices[2].peers.push_back({0, true, {}});
    devices[2].peers.push_back({1, true, {}});
    const auto chosen = [&](const char* text) {
        std::vector<int> numbers;
        for (const DeviceSnapshot& device : select_devices(devices, text)) numbers.push_back(device.driver_device);
        return numbers;
    };
    EXPECT_EQ(chosen(""), (std::vector<int>{0, 1, 2}));
    EXPECT_EQ(chosen("2,0"), (std::vector<int>{2, 0}));
    EXPECT_EQ(chosen("1,7,0"), (std::vector<int>{1}));
    EXPECT_EQ(chosen("-1"), (std::vector<int>{}));
    EXPECT_EQ(chosen("1,1"), (std::vector<int>{}));
    EXPECT_EQ(chosen("GPU-20202020"), (std::vector<int>{1}));
    EXPECT_EQ(chosen("GPU-"), (std::vector<int>{}));
    const auto pair = select_devices(devices, "2,0");
    EXPECT_EQ(pair[0].device, 0);
    EXPECT_EQ(pair[1].device, 1);
    ASSERT_EQ(pair[0].peers.size(), 1u);  // device 1 is not seen
    EXPECT_EQ(pair[0].peers[0].device, 1u);
}

}  // namespace
}  // namespace warpline::server
