// Copies with rows go piece by piece, and one of the pieces may be refused: what the client is told then, and that the session
// goes on (B3). Rows beyond the end of an array are what the software GPU refuses, and the client's library would not send.
#include <gtest/gtest.h>

#include "protocol/schema/array.capnp.h"
#include "tests/unit/server/program.h"

namespace warpline::server::test {

namespace {

class RowCopiesTest : public testing::Test {
protected:
    static constexpr uint64_t k_row_bytes = 4096, k_rows = 1024;
    static constexpr uint64_t k_too_many_rows = k_rows + 300;  // the last pieces

    void SetUp() override {
        ASSERT_TRUE(m_server.ready());
        m_client = m_server.client();
        ASSERT_NE(m_client, nullptr);
        Program{*m_client}.make_stream();
        CUDA_ARRAY_DESCRIPTOR array{};
        array.Width = k_row_bytes, array.Height = k_rows, array.Format = CU_AD_FORMAT_UNSIGNED_INT8, array.NumChannels = 1;
        m_client->send<wire::CuArrayCreateV2>(CallId::cuArrayCreate_v2, [&](auto b) {
            b.setPHandle(m_array);
            b.setPAllocateArray(data_of(array));
        });
        for (size_t i = 0; i < m_rows.size(); ++i) m_rows[i] = static_cast<char>(i * 31 + i / 251);
    }
    void TearDown() override { EXPECT_EQ(m_client->async_errors().size(), m_expected_errors); }

    template <typename T>
    static capnp::Data::Reader data_of(const T& value) {
        return {reinterpret_cast<const capnp::byte*>(&value), sizeof value};
    }
    static CUDA_MEMCPY3D_PEER shape(uint64_t rows) {
        CUDA_MEMCPY3D_PEER copy{};
        copy.WidthInBytes = k_row_bytes, copy.Height = rows, copy.Depth = 1;
        return copy;
    }
    /// The call's number.
    uint64_t put(uint64_t rows, bool async, bool wants_reply) {
        CUDA_MEMCPY3D_PEER copy = shape(rows);
        copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
        return m_client->send<wire::WlCopyToDevice>(
            CallId::wlCopyToDevice,
            [&](auto b) {
                b.setDstArray(m_array), b.setCopy(data_of(copy));
                if (async) b.setAsync(true), b.setHStream(k_stream);
            },
            as_bytes(std::string_view(m_rows).substr(0, rows * k_row_bytes)), wants_reply);
    }
    FakeReply get(uint64_t rows) {
        CUDA_MEMCPY3D_PEER copy = shape(rows);
        copy.srcMemoryType = CU_MEMORYTYPE_ARRAY, copy.dstMemoryType = CU_MEMORYTYPE_HOST;
        return m_client->call<wire::WlCopyFromDevice>(CallId::wlCopyFromDevice,
                                                      [&](auto b) { b.setSrcArray(m_array), b.setCopy(data_of(copy)); });
    }
    uint64_t get_in_stream(uint64_t rows) {
        CUDA_MEMCPY3D_PEER copy = shape(rows);
        copy.srcMemoryType = CU_MEMORYTYPE_ARRAY, copy.dstMemoryType = CU_MEMORYTYPE_HOST;
        return m_client->send<wire::WlCopyFromDeviceAsync>(CallId::wlCopyFromDeviceAsync, [&](auto b) {
            b.setSrcArray(m_array), b.setCopy(data_of(copy)), b.setAsync(true), b.setHStream(k_stream);
            b.setBytes(rows * k_row_bytes);
        });
    }
    std::string_view in_array() const { return std::string_view(m_rows).substr(0, k_rows * k_row_bytes); }

    const uint64_t m_array = make_token(HandleKind::array, 1, 0);
    std::string m_rows = std::string(k_too_many_rows * k_row_bytes, '\0');
    ServerProcess m_server{{"--driver=" SOFTGPU}};
    std::unique_ptr<FakeClient> m_client;
    size_t m_expected_errors = 0;  // of calls that have no reply
};

TEST_F(RowCopiesTest, B3_RowsAreOnTheDeviceBeforeTheLastHasCome) {
    const FakeReply refused = m_client->wait_reply(put(k_too_many_rows, false, true));
    EXPECT_EQ(refused.result, CUDA_ERROR_INVALID_VALUE);
    const FakeReply got = get(k_rows);
    EXPECT_EQ(got.result, CUDA_SUCCESS);
    EXPECT_TRUE(got.payload == in_array()) << "the pieces before the one that was refused";
}

TEST_F(RowCopiesTest, B3_RowsLeaveTheDeviceBeforeAllAreFetched) {
    put(k_rows, false, false);
    const FakeReply refused = get(k_too_many_rows);
    EXPECT_EQ(refused.result, CUDA_ERROR_INVALID_VALUE);
    EXPECT_TRUE(refused.payload == in_array()) << "the pieces before the one that was refused";
    EXPECT_TRUE(get(k_rows).payload == in_array());
}

TEST_F(RowCopiesTest, B3_AnAsynchronousCopyThatFailsInTheMiddleIsToldOnce) {
    put(k_rows, true, false);
    const uint64_t refused = get_in_stream(k_too_many_rows);
    const uint64_t good = get_in_stream(k_rows);
    EXPECT_EQ(Program{*m_client}.synchronize_stream(k_stream).result, CUDA_SUCCESS);
    EXPECT_FALSE(m_client->has_copy(refused)) << "not all of it has come";
    ASSERT_EQ(m_client->async_errors(), (std::vector<std::pair<uint64_t, int>>{{refused, CUDA_ERROR_INVALID_VALUE}}));
    m_expected_errors = 1;
    ASSERT_TRUE(m_client->has_copy(good));
    EXPECT_TRUE(m_client->wait_copy(good) == in_array());
}

TEST_F(RowCopiesTest, B3_AnAsynchronousCopyToTheDeviceThatFailsInTheMiddleIsToldOnce) {
    const uint64_t refused = put(k_too_many_rows, true, false);
    const uint64_t good = get_in_stream(k_rows);
    EXPECT_EQ(Program{*m_client}.synchronize_stream(k_stream).result, CUDA_SUCCESS);
    ASSERT_EQ(m_client->async_errors(), (std::vector<std::pair<uint64_t, int>>{{refused, CUDA_ERROR_INVALID_VALUE}}));
    m_expected_errors = 1;
    ASSERT_TRUE(m_client->has_copy(good));
    EXPECT_TRUE(m_client->wait_copy(good) == in_array());
}

}  // namespace
}  // namespace warpline::server::test
