// Sessions of a real gpu-server process over real TLS, with a driver made for the tests.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/server/program.h"

namespace warpline::server::test {

namespace {

class SessionTest : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(m_server.ready());
        m_client = m_server.client();
        ASSERT_NE(m_client, nullptr);
    }
    ServerProcess m_server;
    std::unique_ptr<FakeClient> m_client;
};

std::string pattern(size_t bytes) {
    std::string text(bytes, '\0');
    for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 31 + i / 251);
    return text;
}

TEST_F(SessionTest, D1_TellsDevicesAndPrintsThem) {
    std::string why;
    auto client = FakeClient::connect(m_server.port(), m_server.client_credentials(), why);
    ASSERT_NE(client, nullptr) << why;
    const auto hello = client->hello();
    ASSERT_TRUE(hello.has_value());
    EXPECT_EQ(hello->devices, 1u);
    EXPECT_EQ(hello->device_name, "Fake GPU");
    EXPECT_EQ(hello->tenant, "local");
    EXPECT_GT(hello->memory_credit, 0u);
    EXPECT_EQ(hello->window_address, k_window);
    EXPECT_NE(m_server.standard_output().find("Fake GPU"), std::string::npos);
    EXPECT_NE(m_server.standard_output().find("8.9"), std::string::npos);
}

TEST_F(SessionTest, VectorAddTakesTwoWaits) {
    Program program{*m_client};
    constexpr int k_count = 1000;
    std::vector<float> a(k_count), b(k_count);
    for (int i = 0; i < k_count; ++i) a[i] = static_cast<float>(i), b[i] = 0.5f;
    program.map(k_window, k_block);
    program.put(k_window, as_bytes(a.data(), a.size() * 4));
    program.put(k_window + 4096, as_bytes(b.data(), b.size() * 4));
    program.load();
    const uint64_t add = program.function("add", 0);
    program.launch(add, {k_window, k_window + 4096, k_window + 8192, k_count});
    EXPECT_EQ(program.synchronize().result, 0);
    const FakeReply reply = program.get(k_window + 8192, k_count * 4);
    ASSERT_EQ(reply.result, 0);
    ASSERT_EQ(reply.payload.size(), k_count * 4u);
    for (int i = 0; i < k_count; ++i) {
        float sum = 0;
        std::memcpy(&sum, reply.payload.data() + i * 4, 4);
        ASSERT_EQ(sum, static_cast<float>(i) + 0.5f);
    }
    EXPECT_TRUE(m_client->async_errors().empty());
}

TEST_F(SessionTest, B5_LargeCopiesTravelInParts) {
    Program program{*m_client};
    const std::string bytes = pattern(9 * 1024 * 1024 + 17);
    program.map(k_window, 8 * k_block);
    program.put(k_window, as_bytes(bytes));
    const FakeReply reply = program.get(k_window, bytes.size());
    ASSERT_EQ(reply.result, 0);
    EXPECT_TRUE(reply.payload == bytes);
}

TEST_F(SessionTest, A6_AsyncCopiesArriveBeforeTheSynchronisationIsAnswered) {
    Program program{*m_client};
    program.map(k_window, 8 * k_block);
    program.make_stream();
    for (const size_t size : {100u, 3u * 1024 * 1024, 3u * 1024 * 1024 + 100}) {
        const std::string bytes = pattern(size);
        m_client->send<wire::CuMemcpyHtoDAsyncV2>(
            CallId::cuMemcpyHtoDAsync_v2,
            [&](auto b) { b.setDstDevice(k_window), b.setByteCount(size), b.setHStream(k_stream); }, as_bytes(bytes));
        const uint64_t copy = m_client->send<wire::CuMemcpyDtoHAsyncV2>(CallId::cuMemcpyDtoHAsync_v2, [&](auto b) {
            b.setSrcDevice(k_window), b.setByteCount(size), b.setHStream(k_stream);
        });
        const FakeReply reply =
            m_client->call<wire::CuStreamSynchronize>(CallId::cuStreamSynchronize, [](auto b) { b.setHStream(k_stream); });
        EXPECT_EQ(reply.result, 0);
        // It is here already: nothing is waited for between the answer and the look.
        ASSERT_TRUE(m_client->has_copy(copy));
        EXPECT_TRUE(*m_client->wait_copy(copy) == bytes);
    }
}

// Memory of the wrong size is given back while other copies finish: the driver waits for them, and they for nobody.
TEST(Session, A6_AsyncCopiesOfManySizesShareLittleStagingMemory) {
    ServerProcess server({"--staging-memory=4MiB"});
    ASSERT_TRUE(server.ready());
    const auto client = server.client();
    ASSERT_NE(client, nullptr);
    Program program{*client};
    program.map(k_window, k_block);
    program.make_stream();
    const std::string bytes = pattern(1024 * 1024);
    program.put(k_window, as_bytes(bytes));
    std::vector<std::pair<uint64_t, size_t>> copies;
    for (int i = 0; i < 150; ++i) {
        const size_t size = i % 5 == 4 ? 100u * 1024 : 1024u * 1024;
        const uint64_t copy = client->send<wire::CuMemcpyDtoHAsyncV2>(CallId::cuMemcpyDtoHAsync_v2, [&](auto b) {
            b.setSrcDevice(k_window), b.setByteCount(size), b.setHStream(k_stream);
        });
        copies.emplace_back(copy, size);
    }
    const FakeReply reply =
        client->call<wire::CuStreamSynchronize>(CallId::cuStreamSynchronize, [](auto b) { b.setHStream(k_stream); });
    EXPECT_EQ(reply.result, 0);
    for (auto [copy, size] : copies) {
        const auto got = client->wait_copy(copy);
        ASSERT_TRUE(got.has_value());
        EXPECT_TRUE(*got == bytes.substr(0, size));
    }
}

TEST_F(SessionTest, A8_DevicePrintfComesBeforeTheSynchronisationIsAnswered) {
    Program program{*m_client};
    program.load();
    const uint64_t print = program.function("print", 0);
    program.launch(print, {}, 0, 32);
    EXPECT_EQ(program.synchronize().result, 0);
    EXPECT_EQ(m_client->output(), "printed by 32 threads\n");
}

const uint64_t k_gatekeeper = make_token(HandleKind::stream, 1, 2);

/// A kernel that runs until the gate at the window's start is opened.
void launch_gate(Program& program, uint64_t stream) {
    program.map(k_window, k_block);
    program.map(k_window + k_block, k_block);
    program.load();
    const uint64_t gate = program.function("gate", 0);
    // Not blocking: copies in the legacy default stream have nothing to wait for.
    program.make_stream(k_stream, CU_STREAM_NON_BLOCKING);
    program.make_stream(k_gatekeeper, CU_STREAM_NON_BLOCKING);
    program.launch(gate, {k_window}, stream);
}
void open_gate(Program& program) {
    const uint32_t open = 1;
    const auto copy = [](auto b) { b.setDstDevice(k_window), b.setByteCount(sizeof open), b.setHStream(k_gatekeeper); };
    program.client.send<wire::CuMemcpyHtoDAsyncV2>(CallId::cuMemcpyHtoDAsync_v2, copy, as_bytes(&open, sizeof open));
}

TEST_F(SessionTest, AWaitingCallDoesNotHoldUpOtherThreads) {
    Program program{*m_client};
    launch_gate(program, k_stream);
    const uint64_t waiting = m_client->send<wire::CuStreamSynchronize>(
        CallId::cuStreamSynchronize, [](auto b) { b.setHStream(k_stream); }, {}, true, 1);
    // The other thread gets its answers, and opens the gate.
    EXPECT_EQ(program.get(k_window + 64, 16, 2).result, 0);
    EXPECT_FALSE(m_client->has_reply(waiting));
    open_gate(program);
    EXPECT_EQ(m_client->wait_reply(waiting).result, 0);
}

/// Calls that wait inside of the driver until another thread of the program writes a variable.
class OvertakenTest : public SessionTest {
protected:
    void SetUp() override {
        SessionTest::SetUp();
        if (HasFatalFailure()) return;
        m_program.emplace(Program{*m_client});
        m_program->load();
        m_print = m_program->function("print", 0);
        m_variable = m_program->variable();
        ASSERT_NE(m_variable, 0u);
        // Not blocking: copies in the legacy default stream have nothing to wait for.
        m_program->make_stream(k_stream, CU_STREAM_NON_BLOCKING);
        m_program->make_stream(k_other, CU_STREAM_NON_BLOCKING);
    }
    /// The other thread prints, and is answered; then it lets the first one go on.
    void other_thread_works() {
        m_program->launch(m_print, {}, k_other, 7);
        EXPECT_EQ(m_program->synchronize_stream(k_other, 2).result, 0);
        EXPECT_EQ(m_client->output(), "printed by 7 threads\n");
        const uint64_t go_on = 1;
        m_program->put(m_variable, as_bytes(&go_on, sizeof go_on));
    }
    static inline const uint64_t k_other = make_token(HandleKind::stream, 1, 1);
    std::optional<Program> m_program;
    uint64_t m_print = 0;
    uint64_t m_variable = 0;
};

TEST_F(OvertakenTest, C16_ALaunchThatFindsTheQueueFullHoldsUpItsStreamOnly) {
    m_program->launch(m_program->function("full", 1), {}, k_stream, 5);
    m_program->launch(m_print, {}, k_stream, 6);
    const uint64_t waiting = m_client->send<wire::CuStreamSynchronize>(
        CallId::cuStreamSynchronize, [](auto b) { b.setHStream(k_stream); }, {}, true);
    other_thread_works();
    EXPECT_EQ(m_client->wait_reply(waiting).result, 0);
    EXPECT_EQ(m_client->output(), "printed by 7 threads\nprinted by 5 threads\nprinted by 6 threads\n");
    EXPECT_TRUE(m_client->async_errors().empty());
}

TEST_F(OvertakenTest, C16_AnImageThatIsBeingLoadedIsWaitedForByItsUsersOnly) {
    const uint64_t library = make_token(HandleKind::library, 1, 1);
    m_program->load(".version 8.0 // an image that waits", library);
    m_program->launch(m_program->function("print", 1, library), {}, k_stream, 5);
    const uint64_t waiting = m_client->send<wire::CuStreamSynchronize>(
        CallId::cuStreamSynchronize, [](auto b) { b.setHStream(k_stream); }, {}, true);
    other_thread_works();
    EXPECT_EQ(m_client->wait_reply(waiting).result, 0);
    EXPECT_EQ(m_client->output(), "printed by 7 threads\nprinted by 5 threads\n");
    EXPECT_TRUE(m_client->async_errors().empty());
}

TEST_F(OvertakenTest, C16_AFunctionThatIsBeingLoadedHoldsUpNoOtherLaunch) {
    m_program->launch(m_program->function("lazy", 1), {}, k_stream, 5);
    const uint64_t waiting = m_client->send<wire::CuStreamSynchronize>(
        CallId::cuStreamSynchronize, [](auto b) { b.setHStream(k_stream); }, {}, true);
    other_thread_works();
    EXPECT_EQ(m_client->wait_reply(waiting).result, 0);
    EXPECT_EQ(m_client->output(), "printed by 7 threads\nprinted by 5 threads\n");
}

TEST_F(OvertakenTest, B3_WhoAsksWhetherAStreamIsDoneDoesNotWaitForIt) {
    const auto ask = [&](uint64_t stream) {
        return m_client
            ->call<wire::CuStreamQuery>(
                CallId::cuStreamQuery, [&](auto b) { b.setHStream(stream); }, {}, 2)
            .result;
    };
    m_client->send<wire::CuEventCreate>(CallId::cuEventCreate, [](auto b) { b.setPhEvent(k_event); });
    m_program->launch(m_program->function("full", 1), {}, k_stream, 5);
    m_client->send<wire::CuEventRecord>(CallId::cuEventRecord, [](auto b) { b.setHEvent(k_event), b.setHStream(k_stream); });
    EXPECT_EQ(ask(k_stream), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(m_client->call<wire::CuEventQuery>(CallId::cuEventQuery, [](auto b) { b.setHEvent(k_event); }).result,
              CUDA_ERROR_NOT_READY);
    EXPECT_EQ(ask(k_other), CUDA_SUCCESS);
    other_thread_works();
    EXPECT_EQ(m_program->synchronize_stream(k_stream).result, 0);
    EXPECT_EQ(ask(k_stream), CUDA_SUCCESS);
    EXPECT_TRUE(m_client->async_errors().empty());
}

TEST_F(OvertakenTest, C16_AClientMayLeaveWhileALaunchWaits) {
    m_program->launch(m_program->function("full", 1), {}, k_stream);
    EXPECT_EQ(m_program->synchronize_stream(k_other, 2).result, 0);
    m_client->say_goodbye();
    EXPECT_TRUE(m_client->wait_end());
    EXPECT_TRUE(m_server.wait_log("session end"));
}

// Each of these waits on a GPU, and what it waits for is in the hands of the program's other thread.
TEST_F(SessionTest, C16_ACopyToTheDeviceThatWaitsDoesNotHoldUpOtherThreads) {
    Program program{*m_client};
    launch_gate(program, 0);
    const std::string bytes = pattern(1000);
    const uint64_t waiting = m_client->send<wire::CuMemcpyHtoDV2>(
        CallId::cuMemcpyHtoD_v2, [&](auto b) { b.setDstDevice(k_window + k_block), b.setByteCount(bytes.size()); },
        as_bytes(bytes), true, 1);
    open_gate(program);
    EXPECT_EQ(m_client->wait_reply(waiting).result, 0);
    EXPECT_EQ(program.get(k_window + k_block, bytes.size()).payload, bytes);
}

uint64_t freed_through(const FakeReply& reply) {
    uint64_t through = 0;
    EXPECT_TRUE(protocol::read_message<wire::Reply>(reply.body, [&](wire::Reply::Reader message) {
                    through = message.getFreedThrough();
                }).ok());
    return through;
}

TEST_F(SessionTest, C16_AFreeWaitsForNobodyAndIsToldWhenItIsOver) {
    Program program{*m_client};
    launch_gate(program, k_stream);
    const uint64_t freed =
        m_client->send<wire::WlUnmap>(CallId::wlUnmap, [](auto b) { b.setAddress(k_window + k_block), b.setBytes(k_block); });
    const FakeReply meanwhile = program.get(k_window + 64, 16, 2);
    EXPECT_EQ(meanwhile.result, 0);
    EXPECT_LT(freed_through(meanwhile), freed);
    EXPECT_EQ(program.get(k_window + k_block, 16).result, CUDA_ERROR_INVALID_VALUE) << "freed is freed";
    open_gate(program);
    EXPECT_EQ(program.synchronize().result, 0);
    // As cuMemGetInfo counts it, the memory is free again.
    const FakeReply reply = m_client->call<wire::CuMemGetInfoV2>(CallId::cuMemGetInfo_v2, [](auto) {});
    uint64_t free_bytes = 0;
    EXPECT_TRUE(read_values<wire::CuMemGetInfoV2Reply>(reply, [&](auto values) { free_bytes = values.getFree(); }));
    EXPECT_EQ(free_bytes, (uint64_t{6} << 30) - k_block);
    EXPECT_GE(freed_through(reply), freed);
    EXPECT_TRUE(m_client->async_errors().empty());
}

TEST_F(SessionTest, C16_MemoryForCopiesIsThereWhileTheDeviceIsBusy) {
    Program program{*m_client};
    launch_gate(program, k_stream);
    program.put(k_window + 64, as_bytes("12345678"));
    const uint64_t copy = m_client->send<wire::CuMemcpyDtoHAsyncV2>(
        CallId::cuMemcpyDtoHAsync_v2, [](auto b) { b.setSrcDevice(k_window + 64), b.setByteCount(8); });
    const auto got = m_client->wait_copy(copy);
    open_gate(program);
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(*got, "12345678");
}

TEST_F(SessionTest, A4_AnAllocationWaitsForWhatWasFreedBeforeIt) {
    Program program{*m_client};
    program.map(k_window, uint64_t{4} << 30);
    program.put(k_window, as_bytes("in use"));
    m_client->send<wire::WlUnmap>(CallId::wlUnmap, [](auto b) { b.setAddress(k_window), b.setBytes(uint64_t{4} << 30); });
    const FakeReply reply = m_client->call<wire::WlMapNow>(
        CallId::wlMapNow, [](auto b) { b.setAddress(k_window + (uint64_t{8} << 30)), b.setBytes(uint64_t{5} << 30); });
    EXPECT_EQ(reply.result, 0);
}

// In a context that has failed the driver calls no host functions: nobody may wait for one.
TEST(Session, A5_CopiesThatNeverCompleteHoldUpNobody) {
    ServerProcess server({"--staging-memory=4MiB"});
    ASSERT_TRUE(server.ready());
    const auto client = server.client();
    ASSERT_NE(client, nullptr);
    Program program{*client};
    program.map(k_window, 8 * k_block);
    program.load();
    program.make_stream();
    program.launch(program.function("fault", 0), {});
    std::vector<uint64_t> copies;
    for (int i = 0; i < 20; ++i) {
        copies.push_back(client->send<wire::CuMemcpyDtoHAsyncV2>(CallId::cuMemcpyDtoHAsync_v2, [&](auto b) {
            b.setSrcDevice(k_window), b.setByteCount(1024 * 1024), b.setHStream(k_stream);
        }));
    }
    EXPECT_EQ(program.synchronize().result, CUDA_ERROR_ILLEGAL_ADDRESS);
}

// Without peer access: memory that is mapped cannot be reached from another device, not even by copies.
TEST(Session, A7_CopiesReachTheMemoryOfOtherDevices) {
    setenv("FAKE_DRIVER_DEVICES", "2", 1);
    ServerProcess server;
    unsetenv("FAKE_DRIVER_DEVICES");
    ASSERT_TRUE(server.ready());
    const auto client = server.client();
    ASSERT_NE(client, nullptr);
    Program program{*client};
    program.map(k_window, k_block, 0);
    program.map(k_window + k_block, k_block, 1);
    program.make_stream();
    const uint64_t own = k_window, other = k_window + k_block;
    const std::string small = pattern(100), large = pattern(100000);
    program.put(other, as_bytes(small));
    EXPECT_EQ(program.get(other, small.size()).payload, small);
    client->send<wire::CuMemcpyHtoDAsyncV2>(
        CallId::cuMemcpyHtoDAsync_v2,
        [&](auto b) { b.setDstDevice(other), b.setByteCount(large.size()), b.setHStream(k_stream); }, as_bytes(large));
    const uint64_t copy = client->send<wire::CuMemcpyDtoHAsyncV2>(CallId::cuMemcpyDtoHAsync_v2, [&](auto b) {
        b.setSrcDevice(other), b.setByteCount(large.size()), b.setHStream(k_stream);
    });
    EXPECT_EQ(client->wait_copy(copy), large);
    client->send<wire::CuMemcpyDtoDV2>(
        CallId::cuMemcpyDtoD_v2, [&](auto b) { b.setDstDevice(own), b.setSrcDevice(other), b.setByteCount(large.size()); });
    EXPECT_EQ(program.get(own, large.size()).payload, large);
    EXPECT_EQ(program.synchronize().result, 0);
    EXPECT_TRUE(client->async_errors().empty());
}

// Virtual GPUs, some virtual machines.
TEST(Session, A6_WithoutMappingMemoryHasTheDriversAddresses) {
    setenv("FAKE_DRIVER_NO_MAPPING", "1", 1);
    ServerProcess server;
    unsetenv("FAKE_DRIVER_NO_MAPPING");
    ASSERT_TRUE(server.ready());
    std::string why;
    auto client = FakeClient::connect(server.port(), server.client_credentials(), why);
    ASSERT_NE(client, nullptr) << why;
    const auto hello = client->hello();
    ASSERT_TRUE(hello.has_value());
    EXPECT_EQ(hello->error, "");
    EXPECT_EQ(hello->window_bytes, 0u);
    client->context = hello->primary_context;
    Program program{*client};
    const auto allocate = [&](uint64_t bytes, int expected) {
        uint64_t address = 0;
        const FakeReply reply = client->call<wire::WlAlloc>(CallId::wlAlloc, [&](auto b) { b.setBytes(bytes); });
        EXPECT_EQ(reply.result, expected);
        read_values<wire::WlAllocReply>(reply, [&](auto values) { address = values.getAddress(); });
        return address;
    };
    const uint64_t address = allocate(uint64_t{4} << 30, 0);
    ASSERT_NE(address, 0u);
    program.put(address + 1000, as_bytes("12345678"));
    EXPECT_EQ(program.get(address + 1000, 8).payload, "12345678");
    allocate(uint64_t{3} << 30, CUDA_ERROR_OUT_OF_MEMORY);
    client->send<wire::WlUnmap>(CallId::wlUnmap, [&](auto b) { b.setAddress(address), b.setBytes(uint64_t{4} << 30); });
    EXPECT_EQ(program.get(address, 8).result, CUDA_ERROR_INVALID_VALUE);
    allocate(uint64_t{5} << 30, 0);
    EXPECT_TRUE(client->async_errors().empty());
}

TEST_F(SessionTest, A6_HostFunctionsRunOnTheClientInTheStreamsOrder) {
    Program program{*m_client};
    program.make_stream();
    m_client->send<wire::CuLaunchHostFunc>(CallId::cuLaunchHostFunc, [](auto b) { b.setHStream(k_stream), b.setId(77); });
    const uint64_t waiting = m_client->send<wire::CuStreamSynchronize>(
        CallId::cuStreamSynchronize, [](auto b) { b.setHStream(k_stream); }, {}, true);
    EXPECT_EQ(m_client->wait_host_call(), 77u);
    EXPECT_FALSE(m_client->has_reply(waiting));
    m_client->host_call_done(77);
    EXPECT_EQ(m_client->wait_reply(waiting).result, 0);
}

TEST_F(SessionTest, FailuresOfCallsWithoutReplyAreToldOnce) {
    Program program{*m_client};
    const uint64_t wrong = program.launch(make_token(HandleKind::function, 1, 5), {});
    // It has come before the next reply does.
    EXPECT_EQ(program.synchronize().result, 0);
    ASSERT_EQ(m_client->async_errors().size(), 1u);
    EXPECT_EQ(m_client->async_errors()[0], std::make_pair(wrong, int{CUDA_ERROR_INVALID_HANDLE}));
}

TEST_F(SessionTest, C5_AStickyErrorStaysInItsSession) {
    Program program{*m_client};
    program.load();
    program.launch(program.function("fault", 0), {});
    EXPECT_EQ(program.synchronize().result, CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(program.synchronize().result, CUDA_ERROR_ILLEGAL_ADDRESS);
    // A kernel that the context cannot have any more fails in the same way, not as an unknown handle.
    const uint64_t late = program.launch(program.function("gate", 1), {k_window});
    EXPECT_EQ(program.synchronize().result, CUDA_ERROR_ILLEGAL_ADDRESS);
    ASSERT_EQ(m_client->async_errors().size(), 1u);
    EXPECT_EQ(m_client->async_errors()[0], std::make_pair(late, int{CUDA_ERROR_ILLEGAL_ADDRESS}));
    auto other = m_server.client();
    ASSERT_NE(other, nullptr);
    EXPECT_EQ((Program{*other}.synchronize().result), 0);
}

TEST_F(SessionTest, CompilingTellsItsLog) {
    const std::string image = ".version 8.0 // broken";
    const FakeReply reply = m_client->call<wire::WlImageCompile>(
        CallId::wlImageCompile,
        [&](auto b) {
            b.setImage(k_library), b.setKind(3), b.setLibrary(true);
            auto options = b.initOptions(2);
            auto values = b.initValues(2);
            options.set(0, CU_JIT_ERROR_LOG_BUFFER), values.set(0, 1);  // wanted
            options.set(1, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES), values.set(1, 512);
        },
        as_bytes(image));
    EXPECT_EQ(reply.result, CUDA_ERROR_INVALID_PTX);
    std::string log;
    EXPECT_TRUE(read_values<wire::WlImageCompileReply>(reply, [&](auto values) { log = values.getErrorLog().cStr(); }));
    EXPECT_EQ(log, "line 1: broken");
}

constexpr unsigned k_attributes = 32;  // as many as are asked for, also by servers built with an older toolkit

TEST_F(SessionTest, FunctionAttributesComeInOneAnswer) {
    Program program{*m_client};
    program.load();
    const uint64_t add = program.function("add", 0);
    const FakeReply reply =
        m_client->call<wire::WlFunctionAttributes>(CallId::wlFunctionAttributes, [&](auto b) { b.setFunction(add); });
    ASSERT_EQ(reply.result, 0);
    std::vector<uint64_t> values;
    EXPECT_TRUE(read_values<wire::WlFunctionAttributesReply>(reply, [&](auto v) {
        for (uint64_t value : v.getValues()) values.push_back(value);
    }));
    ASSERT_EQ(values.size(), size_t{k_attributes});
    EXPECT_EQ(values[3], 30u);
}

TEST_F(SessionTest, B2_FunctionAttributesOfFurtherKernelsComeWithThem) {
    Program program{*m_client};
    program.load();
    const uint64_t add = program.function("add", 0);
    const auto ask = [&](uint64_t image, const std::string& others) {
        return m_client->call<wire::WlFunctionAttributes>(
            CallId::wlFunctionAttributes, [&](auto b) { b.setFunction(add), b.setImage(image), b.setOthers(others); });
    };
    std::vector<uint64_t> values, results;
    EXPECT_TRUE(read_values<wire::WlFunctionAttributesReply>(ask(k_library, "gate\nnone\nfault"), [&](auto v) {
        EXPECT_EQ(v.getValues().size(), unsigned{k_attributes});
        for (uint64_t value : v.getOtherValues()) values.push_back(value);
        for (uint64_t result : v.getOtherResults()) results.push_back(result);
    }));
    ASSERT_EQ(values.size(), size_t{3} * k_attributes);
    ASSERT_EQ(results.size(), values.size());
    EXPECT_EQ(values[3], 30u);
    EXPECT_EQ(results[k_attributes], uint64_t{CUDA_ERROR_NOT_FOUND});
    EXPECT_EQ(results[2 * k_attributes], 0u);
    EXPECT_EQ(ask(k_library + 1, "gate").result, CUDA_ERROR_INVALID_HANDLE) << "of another image";
    EXPECT_EQ(ask(k_library, std::string(1024, '\n')).result, CUDA_ERROR_INVALID_VALUE) << "too many";
}

TEST_F(SessionTest, AVariableOfAModuleCanBeCopied) {
    Program program{*m_client};
    program.load();
    const FakeReply reply = m_client->call<wire::CuLibraryGetGlobal>(CallId::cuLibraryGetGlobal,
                                                                     [&](auto b) { b.setLibrary(k_library), b.setName("x"); });
    ASSERT_EQ(reply.result, 0);
    uint64_t address = 0;
    uint64_t bytes = 0;
    EXPECT_TRUE(
        read_values<wire::CuLibraryGetGlobalReply>(reply, [&](auto v) { address = v.getDptr(), bytes = v.getBytes(); }));
    ASSERT_EQ(bytes, 8u);
    program.put(address, as_bytes("12345678"));
    EXPECT_EQ(program.get(address, bytes).payload, "12345678");
    EXPECT_EQ(program.get(address, bytes + 1).result, CUDA_ERROR_INVALID_VALUE);
}

TEST_F(SessionTest, WhatTheDriverLacksIsNotSupported) {
    const FakeReply reply = m_client->call<wire::CuCtxGetCacheConfig>(CallId::cuCtxGetCacheConfig, [](auto) {});
    EXPECT_EQ(reply.result, CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(SessionTest, MemoryBeyondTheDeviceIsRefusedExactly) {
    const auto map_now = [&](uint64_t address, uint64_t bytes) {
        return m_client->call<wire::WlMapNow>(CallId::wlMapNow, [&](auto b) { b.setAddress(address), b.setBytes(bytes); })
            .result;
    };
    EXPECT_EQ(map_now(k_window, uint64_t{32} << 30), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(map_now(k_window, k_block), 0);
}

// 6 GiB are free, and 1 GiB may be used without asking: not after somebody has been given nearly all.
TEST_F(SessionTest, A4_ADecisionLeavesNoCreditThatIsNotThere) {
    const auto map_now = [&](uint64_t address, uint64_t bytes) {
        uint64_t credit = 0;
        const FakeReply reply =
            m_client->call<wire::WlMapNow>(CallId::wlMapNow, [&](auto b) { b.setAddress(address), b.setBytes(bytes); });
        EXPECT_EQ(reply.result, 0);
        EXPECT_TRUE(read_values<wire::WlMapNowReply>(reply, [&](auto values) { credit = values.getCredit(); }));
        return credit;
    };
    EXPECT_EQ(map_now(k_window, k_block), uint64_t{1} << 30);
    EXPECT_EQ(map_now(k_window + k_block, (uint64_t{6} << 30) - 51 * k_block), 25 * k_block);
    EXPECT_EQ(map_now(k_window + (uint64_t{8} << 30), 49 * k_block), 0u);
}

TEST_F(SessionTest, A11_FindsAFunctionByItsOlderName) {
    const uint64_t k_other_event = make_token(HandleKind::event, 1, 1);
    for (const uint64_t event : {k_event, k_other_event}) {
        m_client->send<wire::CuEventCreate>(CallId::cuEventCreate, [&](auto b) { b.setPhEvent(event); });
    }
    const FakeReply reply = m_client->call<wire::CuEventElapsedTimeV2>(
        CallId::cuEventElapsedTime_v2, [](auto b) { b.setHStart(k_event), b.setHEnd(k_other_event); });
    EXPECT_EQ(reply.result, 0);
}

TEST_F(SessionTest, F3_EventsInAttributesAreTheSessionsOwn) {
    Program program{*m_client};
    program.make_stream();
    m_client->send<wire::CuEventCreate>(CallId::cuEventCreate, [](auto b) { b.setPhEvent(k_event); });
    auto set = [&](uint64_t event) {
        CUstreamAttrValue value{};
        std::memcpy(&value.programmaticEvent.event, &event, sizeof event);
        m_client->send<wire::CuStreamSetAttribute>(CallId::cuStreamSetAttribute, [&](auto b) {
            b.setHStream(k_stream), b.setAttr(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT);
            b.setParam({reinterpret_cast<const capnp::byte*>(&value), sizeof value});
        });
        program.synchronize();
    };
    set(k_event);
    EXPECT_TRUE(m_client->async_errors().empty());
    set(0x1234567890);
    ASSERT_EQ(m_client->async_errors().size(), 1u);
    EXPECT_EQ(m_client->async_errors()[0].second, CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(SessionTest, AnEndedSessionLeavesAnAuditLine) {
    Program program{*m_client};
    EXPECT_EQ(program.synchronize().result, 0);
    m_client->say_goodbye();
    EXPECT_TRUE(m_client->wait_end());
    EXPECT_TRUE(m_server.wait_log("session end"));
    const std::string log = m_server.log();
    EXPECT_NE(log.find("session start"), std::string::npos);
    EXPECT_NE(log.find("tenant=\"local\""), std::string::npos);
    EXPECT_NE(log.find("calls=1 "), std::string::npos);
    EXPECT_NE(log.find("reason=\"the client has finished\""), std::string::npos);
}

TEST_F(SessionTest, CallsBeforeCloseAreExecuted) {
    Program program{*m_client};
    program.load();
    const uint64_t print = program.function("print", 0);
    for (int i = 0; i < 50; ++i) program.launch(print, {}, 0, 7);
    m_client->say_goodbye();
    EXPECT_TRUE(m_client->wait_end());
    EXPECT_TRUE(m_server.wait_log("calls=52 "));
}

}  // namespace
}  // namespace warpline::server::test
