// Copies whose bytes the client is asked for when their stream comes to them, where the driver lets streams wait for values in
// memory and where it does not (A7): what comes when, and what a client does wrong.
#include <gtest/gtest.h>

#include "tests/unit/server/program.h"

namespace warpline::server::test {

namespace {

class LateReadsTest : public testing::TestWithParam<const char*> {
protected:
    static constexpr uint64_t k_function = 7, k_source = 8, k_other_source = 9;

    void SetUp() override {
        ASSERT_TRUE(m_server.ready());
        m_client = m_server.client();
        ASSERT_NE(m_client, nullptr);
        m_memory = m_client->window;
        program().make_stream(k_stream, CU_STREAM_NON_BLOCKING);
        program().map(m_memory, k_block);
        program().put(m_memory, as_bytes(std::string_view("before..")));
    }
    void TearDown() override { unsetenv("SOFTGPU_PROFILE"); }

    Program program() { return {*m_client}; }
    /// The stream stands still until the client has answered.
    void hold() {
        m_client->send<wire::CuLaunchHostFunc>(CallId::cuLaunchHostFunc,
                                               [](auto b) { b.setHStream(k_stream), b.setId(k_function); });
    }
    uint64_t copy(uint64_t source, uint64_t bytes = 8) {
        CUDA_MEMCPY3D_PEER copy{};
        copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        copy.dstDevice = m_memory;
        copy.WidthInBytes = bytes, copy.Height = copy.Depth = 1;
        return m_client->send<wire::WlCopyToDeviceLate>(CallId::wlCopyToDeviceLate, [&](auto b) {
            b.setCopy({reinterpret_cast<const capnp::byte*>(&copy), sizeof copy});
            b.setHStream(k_stream), b.setAsync(true), b.setSource(source);
        });
    }
    void bring(uint64_t source, std::string_view bytes, uint64_t offset = 0) {
        m_client->host_data(source, offset, as_bytes(bytes));
    }
    /// What is on the device, however far the stream has come.
    std::string now() { return program().get(m_memory, 8).payload; }
    std::string behind_the_stream() {
        EXPECT_EQ(program().synchronize_stream(k_stream).result, CUDA_SUCCESS);
        return now();
    }

    // Read by the server process that begins with the test.
    const int m_profile = setenv("SOFTGPU_PROFILE", GetParam(), 1);
    ServerProcess m_server{{"--driver=" SOFTGPU}};
    std::unique_ptr<FakeClient> m_client;
    uint64_t m_memory = 0;
};

TEST_P(LateReadsTest, A7_BytesAreAskedForWhenTheStreamComesToThem) {
    hold();
    copy(k_source);
    ASSERT_EQ(m_client->wait_host_call(), k_function);
    EXPECT_EQ(now(), "before..");
    EXPECT_FALSE(m_client->has_host_call());
    m_client->host_call_done(k_function);
    ASSERT_EQ(m_client->wait_host_call(), k_source);
    EXPECT_EQ(now(), "before..");
    bring(k_source, "after");
    bring(k_source, "all", 5);
    m_client->host_call_done(k_source);
    EXPECT_EQ(behind_the_stream(), "afterall");
    EXPECT_TRUE(m_client->async_errors().empty());
}

TEST_P(LateReadsTest, A7_BytesBeyondACopyAreLeftOut) {
    copy(k_source);
    ASSERT_EQ(m_client->wait_host_call(), k_source);
    bring(k_source, "eight...");
    bring(k_source, "too much.");
    bring(k_source, "x", 8);
    bring(k_source, "x", UINT64_MAX);
    bring(k_other_source, "nobody asked");
    m_client->host_call_done(k_source);
    EXPECT_EQ(behind_the_stream(), "eight...");
}

TEST_P(LateReadsTest, A7_AHostCallBringsOneCopyAtATime) {
    hold();
    copy(k_source);
    const uint64_t refused = copy(k_source);
    ASSERT_EQ(m_client->wait_host_call(), k_function);
    m_client->host_call_done(k_function);
    ASSERT_EQ(m_client->wait_host_call(), k_source);
    bring(k_source, "one copy");
    m_client->host_call_done(k_source);
    EXPECT_EQ(behind_the_stream(), "one copy");
    EXPECT_EQ(m_client->async_errors(), (std::vector<std::pair<uint64_t, int>>{{refused, CUDA_ERROR_INVALID_VALUE}}));
}

TEST_P(LateReadsTest, A7_WhatCannotBeStagedIsRefused) {
    const uint64_t nothing = copy(k_source, 0);
    const uint64_t beyond = copy(k_source, k_block + 1);
    EXPECT_EQ(behind_the_stream(), "before..");
    std::vector<std::pair<uint64_t, int>> errors = m_client->async_errors();
    ASSERT_EQ(errors.size(), 2u);
    EXPECT_EQ(errors[0].first, nothing);
    EXPECT_EQ(errors[1].first, beyond);
    EXPECT_FALSE(m_client->has_host_call());
}

TEST_P(LateReadsTest, A7_AClientThatGoesWithoutAnAnswerLeavesNobodyWaiting) {
    copy(k_source);
    ASSERT_EQ(m_client->wait_host_call(), k_source);
    m_client->say_goodbye();
    EXPECT_TRUE(m_client->wait_end());
    const auto next = m_server.client();
    ASSERT_NE(next, nullptr);
    EXPECT_EQ(Program{*next}.synchronize().result, CUDA_SUCCESS);
}

INSTANTIATE_TEST_SUITE_P(, LateReadsTest, testing::Values("strict", "strict,stream_values=no"),
                         [](const auto& info) { return std::string(info.index == 0 ? "ByValues" : "ByFunctions"); });

}  // namespace
}  // namespace warpline::server::test
