// How much device memory a session may have, and who counts it.
#include "server/objects/memory_ledger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "cuda/abi/array_format.h"
#include "server/objects/graph_memory.h"
#include "server/objects/handle_table.h"
#include "server/objects/memory_credit.h"

namespace warpline::server {
namespace {

constexpr uint64_t k_mib = uint64_t{1} << 20;

/// What the driver has for graphs, and one graph whose only node allocates.
struct FakeGraphs {
    static inline uint64_t reserved = 0, used = 0, kept = 0, node_bytes = 0;
    static inline int trims = 0;
    static DriverTable table() {
        reserved = used = kept = node_bytes = 0;
        trims = 0;
        DriverTable table;
        table.cuDeviceGetGraphMemAttribute = [](CUdevice, CUgraphMem_attribute attribute, void* value) {
            *static_cast<cuuint64_t*>(value) = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT ? used : reserved;
            return CUDA_SUCCESS;
        };
        table.cuDeviceGraphMemTrim = [](CUdevice) {
            ++trims;
            reserved = kept;
            used = std::min(used, kept);
            return CUDA_SUCCESS;
        };
        table.cuGraphGetNodes = [](CUgraph, CUgraphNode* nodes, size_t* count) {
            if (nodes != nullptr) *nodes = reinterpret_cast<CUgraphNode>(1);
            *count = 1;
            return CUDA_SUCCESS;
        };
        table.cuGraphNodeGetType = [](CUgraphNode, CUgraphNodeType* type) {
            *type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
            return CUDA_SUCCESS;
        };
        table.cuGraphMemAllocNodeGetParams = [](CUgraphNode, CUDA_MEM_ALLOC_NODE_PARAMS* params) {
            *params = {};
            params->poolProps.location.id = 0;
            params->bytesize = node_bytes;
            return CUDA_SUCCESS;
        };
        return table;
    }
};

class MemoryLedgerTest : public testing::Test {
protected:
    const Driver m_driver{FakeGraphs::table(), DriverKind::nvidia, 13000};
    const std::vector<DeviceSnapshot> m_devices{2};
    SessionCounters m_counters{};
    MemoryLedger m_ledger{m_driver, m_devices, m_counters, {64 * k_mib, false}};
};

TEST_F(MemoryLedgerTest, D3_ALimitIsExactAndEachDevicesOwn) {
    MemoryChargePtr first, second, other;
    EXPECT_EQ(m_ledger.take(0, 60 * k_mib, first), CUDA_SUCCESS);
    EXPECT_EQ(m_ledger.take(0, 4 * k_mib + 1, second), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(second, nullptr);
    EXPECT_EQ(m_ledger.take(0, 4 * k_mib, second), CUDA_SUCCESS);
    EXPECT_EQ(m_ledger.left(0), 0u);
    EXPECT_EQ(m_ledger.take(0, 1, other), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(m_ledger.take(1, 64 * k_mib, other), CUDA_SUCCESS) << "another device";
    EXPECT_EQ(m_counters.device_bytes.load(), 128 * k_mib);
    first.reset();
    EXPECT_EQ(m_ledger.used(0), 4 * k_mib);
    EXPECT_EQ(m_ledger.take(0, 60 * k_mib, first), CUDA_SUCCESS) << "what is free again is there again";
    EXPECT_EQ(m_ledger.take(0, UINT64_MAX, other), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(m_ledger.take(2, 1, other), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(m_ledger.take(-1, 1, other), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(MemoryLedgerTest, D3_WithoutALimitNothingIsRefusedAndAllIsCounted) {
    MemoryLedger ledger(m_driver, m_devices, m_counters);
    MemoryChargePtr charge;
    // More than any device has, as senseless calls ask for: the driver refuses it, and it is taken back.
    EXPECT_EQ(ledger.take(0, uint64_t{1} << 63, charge), CUDA_SUCCESS);
    charge.reset();
    EXPECT_EQ(ledger.used(0), 0u);
    EXPECT_EQ(ledger.take(0, uint64_t{1} << 50, charge), CUDA_SUCCESS);
    EXPECT_EQ(ledger.left(0), UINT64_MAX);
    uint64_t free_bytes = 5, total_bytes = 10;
    ledger.narrow(0, free_bytes, total_bytes);
    EXPECT_EQ(free_bytes, 5u);
    EXPECT_EQ(total_bytes, 10u);
    EXPECT_EQ(m_counters.device_bytes.load(), uint64_t{1} << 50);
    charge.reset();
    EXPECT_EQ(m_counters.device_bytes.load(), 0u);
}

TEST_F(MemoryLedgerTest, D3_WhatOthersHaveMadeIsTheirs) {
    const MemoryChargePtr borrowed = m_ledger.borrow(0, 100 * k_mib);
    EXPECT_EQ(m_ledger.used(0), 0u);
    EXPECT_EQ(m_counters.device_bytes.load(), 100 * k_mib) << "the operator sees it";
}

TEST_F(MemoryLedgerTest, D3_ASessionSeesTheSmallerOfLimitAndDevice) {
    MemoryChargePtr charge;
    ASSERT_EQ(m_ledger.take(0, 24 * k_mib, charge), CUDA_SUCCESS);
    uint64_t free_bytes = 1000 * k_mib, total_bytes = 2000 * k_mib;
    m_ledger.narrow(0, free_bytes, total_bytes);
    EXPECT_EQ(free_bytes, 40 * k_mib);
    EXPECT_EQ(total_bytes, 64 * k_mib);
    free_bytes = 7 * k_mib;  // others have the rest of the device
    m_ledger.narrow(0, free_bytes, total_bytes);
    EXPECT_EQ(free_bytes, 7 * k_mib);
}

TEST_F(MemoryLedgerTest, D3_TheSmallerLimitHolds) {
    EXPECT_EQ(MemoryLimit::smaller_of(0, 0).bytes, 0u);
    EXPECT_EQ(MemoryLimit::smaller_of(5, 0).bytes, 5u);
    EXPECT_FALSE(MemoryLimit::smaller_of(5, 9).of_server);
    EXPECT_EQ(MemoryLimit::smaller_of(9, 5).bytes, 5u);
    EXPECT_TRUE(MemoryLimit::smaller_of(9, 5).of_server);
    EXPECT_TRUE(MemoryLimit::smaller_of(0, 5).of_server);
}

TEST_F(MemoryLedgerTest, D3_TheLastOneWhoKeepsMemoryFreesIt) {
    MemoryChargePtr charge;
    ASSERT_EQ(m_ledger.take(0, 64 * k_mib, charge), CUDA_SUCCESS);
    HandleTable handles;
    const uint64_t context = make_token(HandleKind::context, 1, 1), array = make_token(HandleKind::array, 1, 1);
    HandleTable::Entry entry{1, context};
    entry.charge = charge;
    ASSERT_TRUE(handles.bind(HandleKind::array, array, entry));
    entry = {};
    charge.reset();
    EXPECT_EQ(m_ledger.left(0), 0u);
    handles.remove_owned(context);
    EXPECT_EQ(m_ledger.left(0), 64 * k_mib) << "it ended with its context";
}

TEST_F(MemoryLedgerTest, D3_ARefusalIsToldOnceWithLimitUseAndRequest) {
    testing::internal::CaptureStderr();
    MemoryChargePtr charge, refused;
    ASSERT_EQ(m_ledger.take(0, 60 * k_mib, charge), CUDA_SUCCESS);
    EXPECT_EQ(m_ledger.take(0, 8 * k_mib, refused, MemoryLedger::Refusal::quiet), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    testing::internal::CaptureStderr();
    for (int i = 0; i < 100; ++i) EXPECT_EQ(m_ledger.take(0, 8 * k_mib, refused), CUDA_ERROR_OUT_OF_MEMORY);
    const std::string text = testing::internal::GetCapturedStderr();
    for (const char* word : {"8388608", "62914560", "67108864", "CUDA_ERROR_OUT_OF_MEMORY"})
        EXPECT_NE(text.find(word), std::string::npos) << text;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

TEST_F(MemoryLedgerTest, D3_CreditIsNoMoreThanHalfOfWhatIsLeft) {
    DriverTable table = FakeGraphs::table();
    table.cuMemGetInfo_v2 = [](size_t* free_bytes, size_t* total_bytes) {
        *free_bytes = *total_bytes = 1000 * k_mib;
        return CUDA_SUCCESS;
    };
    const Driver driver{table, DriverKind::nvidia, 13000};
    MemoryLedger ledger(driver, m_devices, m_counters, {64 * k_mib, false});
    MemoryCredit credit(driver, ledger);
    MemoryChargePtr charge;
    ASSERT_EQ(ledger.take(0, 24 * k_mib, charge), CUDA_SUCCESS);
    EXPECT_EQ(credit.replace(0), 0u) << "the server allows none";
    credit.at_start(m_devices[0], 1000 * k_mib);
    EXPECT_EQ(credit.replace(0), 20 * k_mib);
}

class GraphMemoryTest : public MemoryLedgerTest {
protected:
    static CUgraphExec exec(uintptr_t number) { return reinterpret_cast<CUgraphExec>(number); }
    HandleTable m_handles;
    Contexts m_contexts{m_driver, m_devices, m_handles};
    GraphMemory m_graphs{m_driver, m_ledger, m_contexts};
};

TEST_F(GraphMemoryTest, D3_WhatTheDriverHasForGraphsCounts) {
    FakeGraphs::reserved = 10 * k_mib;
    EXPECT_EQ(m_ledger.used(0), 0u) << "no graph of the session's allocates";
    EXPECT_EQ(m_graphs.check_node(0, 54 * k_mib), CUDA_SUCCESS);
    EXPECT_EQ(m_ledger.used(0), 10 * k_mib);
    FakeGraphs::kept = 10 * k_mib;
    EXPECT_EQ(m_graphs.check_node(0, 54 * k_mib + 1), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(FakeGraphs::trims, 1) << "first what graphs do not use is given back";
    FakeGraphs::kept = 0;
    EXPECT_EQ(m_graphs.check_node(0, 54 * k_mib + 1), CUDA_SUCCESS);
    MemoryChargePtr charge;
    EXPECT_EQ(m_ledger.take(0, 64 * k_mib, charge), CUDA_SUCCESS);
}

TEST_F(GraphMemoryTest, D3_ALaunchIsRefusedBeforeItTakesMemory) {
    MemoryChargePtr charge;
    ASSERT_EQ(m_graphs.check_node(0, 40 * k_mib), CUDA_SUCCESS);
    FakeGraphs::node_bytes = 40 * k_mib;
    m_graphs.instantiated(exec(1), nullptr);
    m_graphs.instantiated(exec(2), nullptr);
    ASSERT_EQ(m_ledger.take(0, 30 * k_mib, charge), CUDA_SUCCESS);
    EXPECT_EQ(m_graphs.check_launch(exec(1)), CUDA_ERROR_OUT_OF_MEMORY);
    charge.reset();
    EXPECT_EQ(m_graphs.check_launch(exec(1)), CUDA_SUCCESS);
    FakeGraphs::reserved = FakeGraphs::used = FakeGraphs::kept = 40 * k_mib;
    EXPECT_EQ(m_graphs.check_launch(exec(1)), CUDA_SUCCESS) << "it has its memory";
    EXPECT_EQ(m_graphs.check_launch(exec(2)), CUDA_ERROR_OUT_OF_MEMORY) << "beside the first one's";
    FakeGraphs::used = 0;
    EXPECT_EQ(m_graphs.check_launch(exec(2)), CUDA_SUCCESS) << "in its place";
    FakeGraphs::reserved = FakeGraphs::used = 40 * k_mib;
    FakeGraphs::kept = 0;
    m_graphs.instantiated(exec(3), nullptr);
    EXPECT_EQ(m_graphs.check_launch(exec(3)), CUDA_SUCCESS) << "what another one only keeps is given back";
    m_graphs.exec_gone(exec(1));
    EXPECT_EQ(m_graphs.check_launch(exec(1)), CUDA_SUCCESS) << "nothing is known of it";
}

TEST(ArrayBytes, D3_CountElementsOfAllLevels) {
    using cuda::abi::array_bytes;
    CUDA_ARRAY3D_DESCRIPTOR array{1024, 1024, 0, CU_AD_FORMAT_FLOAT, 4, 0};
    EXPECT_EQ(array_bytes(array, 1), 16 * k_mib);
    EXPECT_GT(array_bytes(array, 11), 21 * k_mib);
    EXPECT_EQ(array_bytes(array, 100), array_bytes(array, 11)) << "there are no more";
    array.Depth = 6;
    array.Flags = CUDA_ARRAY3D_LAYERED;
    EXPECT_EQ(array_bytes(array, 1), 96 * k_mib);
    EXPECT_EQ(array_bytes(array, 2), 120 * k_mib) << "layers stay as many";
    array.Format = CU_AD_FORMAT_BC1_UNORM;
    EXPECT_EQ(array_bytes(array, 1), 3 * k_mib);
    array.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
    EXPECT_EQ(array_bytes(array, 1), 0u);
    array = {SIZE_MAX, SIZE_MAX, SIZE_MAX, CU_AD_FORMAT_FLOAT, 4, 0};
    EXPECT_EQ(array_bytes(array, 64), uint64_t{1} << 60);
}

}  // namespace
}  // namespace warpline::server
