// What a server must survive: garbage at the port, broken TLS, frames and calls made to hurt. In each test another session is
// alive, and must not notice.
#include <gtest/gtest.h>

#include <sys/socket.h>

#include <cstring>
#include <random>

#include "protocol/codec/preamble.h"
#include "tests/unit/server/program.h"

namespace warpline::server::test {

namespace {

using namespace std::chrono_literals;

class HostileTest : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(m_server.ready());
        m_bystander = m_server.client();
        ASSERT_NE(m_bystander, nullptr);
        Program{*m_bystander}.map(k_window, k_block);
        Program{*m_bystander}.put(k_window, as_bytes("all is well"));
    }
    void TearDown() override {
        ASSERT_NE(m_bystander, nullptr);
        EXPECT_EQ((Program{*m_bystander}.get(k_window, 11).payload), "all is well");
        // And there is room for more.
        EXPECT_NE(m_server.client(), nullptr);
    }

    net::Socket connect_plain() {
        std::string why;
        auto socket = net::dial({"127.0.0.1", m_server.port()}, 5s, why);
        EXPECT_TRUE(socket.ok()) << why;
        return socket.ok() ? std::move(*socket) : net::Socket();
    }
    /// True if the server closes the connection.
    static bool is_closed(net::Socket& socket) {
        std::byte byte[1];
        for (;;) {
            const auto read = socket.read_exact(byte, 20s);
            if (!read.ok()) return read.error().code != Code::deadline;
        }
    }

    ServerProcess m_server;
    std::unique_ptr<FakeClient> m_bystander;
};

TEST_F(HostileTest, F3_GarbageAtThePortIsDropped) {
    std::mt19937 random(42);
    for (int i = 0; i < 20; ++i) {
        net::Socket socket = connect_plain();
        std::vector<std::byte> garbage(1 + random() % 5000);
        for (std::byte& byte : garbage) byte = static_cast<std::byte>(random());
        static_cast<void>(socket.write_all(garbage, 5s));
        if (garbage.size() < protocol::k_preamble_bytes) continue;
        EXPECT_TRUE(is_closed(socket));
    }
    EXPECT_TRUE(m_server.wait_log("dropped"));
}

TEST_F(HostileTest, F3_AnHttpRequestIsNamedInTheLog) {
    net::Socket socket = connect_plain();
    ASSERT_TRUE(socket.write_all(as_bytes("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), 5s).ok());
    EXPECT_TRUE(is_closed(socket));
    EXPECT_TRUE(m_server.wait_log("127.0.0.1:"));
}

TEST_F(HostileTest, F3_AnUnknownSessionIsDropped) {
    net::Socket socket = connect_plain();
    protocol::Preamble preamble{protocol::Preamble::Kind::lane, {}};
    preamble.session.fill(std::byte{7});
    ASSERT_TRUE(socket.write_all(protocol::encode_preamble(preamble), 5s).ok());
    EXPECT_TRUE(is_closed(socket));
}

TEST_F(HostileTest, F3_BrokenTlsFreesItsWorker) {
    for (int i = 0; i < 3; ++i) {
        net::Socket socket = connect_plain();
        ASSERT_TRUE(socket.write_all(protocol::encode_preamble({}), 5s).ok());
        // The beginning of a TLS record, which then goes wrong or ends.
        ASSERT_TRUE(socket.write_all(as_bytes(std::string_view("\x16\x03\x01\x02\x00garbage follows", 20)), 5s).ok());
        if (i != 0) socket.shutdown();
    }
    EXPECT_TRUE(m_server.wait_log("refused peer="));
}

TEST_F(HostileTest, F1_AnUnknownAuthorityIsRefusedWithWordsOnBothSides) {
    auto ca = net::ThrowawayCa::create("somebody else");
    ASSERT_TRUE(ca.ok());
    net::ThrowawayCa::Request request;
    request.common_name = "intruder";
    auto credentials = ca->issue(request);
    ASSERT_TRUE(credentials.ok());
    // It trusts the server, but the server does not trust it.
    credentials->ca_pem = m_server.client_credentials().ca_pem;
    std::string why;
    auto client = FakeClient::connect(m_server.port(), *credentials, why);
    if (client != nullptr) {
        EXPECT_FALSE(client->hello().has_value());
        EXPECT_TRUE(client->wait_end());
        why = client->end_explanation();
    }
    EXPECT_NE(why.find("certificate"), std::string::npos) << why;
    EXPECT_TRUE(m_server.wait_log("refused peer="));
    EXPECT_NE(m_server.log().find("certificate"), std::string::npos) << m_server.log();
    EXPECT_EQ(m_server.log().find("intruder\" peer"), std::string::npos);
}

TEST_F(HostileTest, F3_AnotherProtocolVersionIsToldPlainly) {
    std::string why;
    auto client = FakeClient::connect(m_server.port(), m_server.client_credentials(), why);
    ASSERT_NE(client, nullptr) << why;
    const auto hello = client->hello(200, 300);
    ASSERT_TRUE(hello.has_value());
    EXPECT_EQ(hello->version, 0);
    EXPECT_NE(hello->error.find("version"), std::string::npos) << hello->error;
    EXPECT_TRUE(client->wait_end());
}

TEST_F(HostileTest, F3_FramesInsideTlsThatAreNoneEndTheSession) {
    auto client = m_server.client();
    ASSERT_NE(client, nullptr);
    client->send_raw(as_bytes(std::string(4096, 'x')));
    EXPECT_TRUE(client->wait_end());
    EXPECT_TRUE(m_server.wait_log("session end"));
}

TEST_F(HostileTest, F3_AFrameThatClaimsToBeHugeEndsTheSession) {
    auto client = m_server.client();
    ASSERT_NE(client, nullptr);
    protocol::FrameHeader header;
    header.kind = protocol::FrameKind::batch;
    header.sequence = 2;
    header.body_bytes = 0xfffffff8u;
    std::byte bytes[protocol::k_frame_header_bytes];
    protocol::encode_frame_header(header, bytes);
    client->send_raw(bytes);
    EXPECT_TRUE(client->wait_end());
}

TEST_F(HostileTest, F3_ABatchBeforeHelloEndsTheConnection) {
    std::string why;
    auto client = FakeClient::connect(m_server.port(), m_server.client_credentials(), why);
    ASSERT_NE(client, nullptr) << why;
    client->send<wire::CuCtxSynchronize>(CallId::cuCtxSynchronize, [](auto) {});
    EXPECT_TRUE(client->wait_end());
}

TEST_F(HostileTest, F3_AClientThatSaysNothingAfterTlsIsSentAway) {
    std::string why;
    auto client = FakeClient::connect(m_server.port(), m_server.client_credentials(), why);
    ASSERT_NE(client, nullptr) << why;
    EXPECT_TRUE(client->wait_end());
    EXPECT_TRUE(m_server.wait_log("said nothing"));
}

TEST_F(HostileTest, F3_ACallThatDoesNotExistEndsTheSession) {
    auto client = m_server.client();
    ASSERT_NE(client, nullptr);
    const FakeReply reply = client->call<wire::CuCtxSynchronize>(static_cast<CallId>(0x7777), [](auto) {});
    EXPECT_EQ(reply.result, -1);
    EXPECT_TRUE(client->wait_end());
    EXPECT_NE(client->close_reason().find("does not exist"), std::string::npos) << client->close_reason();
}

TEST_F(HostileTest, F3_WrongArgumentsAreRefusedCallByCall) {
    auto client = m_server.client();
    ASSERT_NE(client, nullptr);
    Program program{*client};
    program.map(k_window, k_block);
    // Outside of what is mapped, of the window, of the address space.
    for (const uint64_t address : {k_window + k_block, k_window - 16, uint64_t{0}, UINT64_MAX - 8}) {
        EXPECT_EQ(program.get(address, 16).result, CUDA_ERROR_INVALID_VALUE);
    }
    EXPECT_EQ(program.get(k_window, k_block + 1).result, CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(program.get(k_window, UINT64_MAX).result, CUDA_ERROR_INVALID_VALUE);
    const auto map_now = [&](uint64_t address, uint64_t bytes, int device) {
        return client
            ->call<wire::WlMapNow>(CallId::wlMapNow,
                                   [&](auto b) { b.setAddress(address), b.setBytes(bytes), b.setDevice(device); })
            .result;
    };
    EXPECT_EQ(map_now(k_window, k_block, 0), CUDA_ERROR_INVALID_VALUE);                // mapped already
    EXPECT_EQ(map_now(k_window + 4096, k_block, 0), CUDA_ERROR_INVALID_VALUE);         // misaligned
    EXPECT_EQ(map_now(k_window + 4 * k_block, 0, 0), CUDA_ERROR_INVALID_VALUE);        // nothing
    EXPECT_EQ(map_now(k_window + 4 * k_block, k_block, 5), CUDA_ERROR_INVALID_VALUE);  // no such device
    EXPECT_EQ(map_now(0x1000000000 * 2048, k_block, 0), CUDA_ERROR_INVALID_VALUE);     // outside of the window
    EXPECT_EQ(map_now(k_window, UINT64_MAX & ~(k_block - 1), 0), CUDA_ERROR_INVALID_VALUE);
    // A payload of another length than the call says, and a structure of the wrong size.
    const FakeReply shorter = client->call<wire::CuMemcpyHtoDV2>(
        CallId::cuMemcpyHtoD_v2, [](auto b) { b.setDstDevice(k_window), b.setByteCount(1000); }, as_bytes("short"));
    EXPECT_EQ(shorter.result, CUDA_ERROR_INVALID_VALUE);
    const FakeReply copy = client->call<wire::WlCopyOnDevice>(CallId::wlCopyOnDevice, [](auto b) { b.setCopy({}); });
    EXPECT_EQ(copy.result, CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(program.get(k_window, 16).result, 0);
}

TEST_F(HostileTest, F3_TokensOfOtherKindsOrSessionsFindNothing) {
    Program{*m_bystander}.make_stream();
    auto client = m_server.client();
    ASSERT_NE(client, nullptr);
    Program program{*client};
    const auto synchronize = [&](uint64_t token) {
        return client->call<wire::CuStreamSynchronize>(CallId::cuStreamSynchronize, [&](auto b) { b.setHStream(token); })
            .result;
    };
    EXPECT_EQ(synchronize(k_stream), CUDA_ERROR_INVALID_HANDLE);  // the bystander's
    program.load();
    EXPECT_EQ(synchronize(k_library), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(synchronize(0xdeadbeefdeadbeef), CUDA_ERROR_INVALID_HANDLE);
    program.make_stream();
    EXPECT_EQ(synchronize(k_stream), 0);
    EXPECT_EQ(synchronize(k_stream + (uint64_t{1} << 32)), CUDA_ERROR_INVALID_HANDLE);  // another generation
    // A token is not given twice, nor for another kind.
    const auto create = [&](uint64_t token) {
        return client->call<wire::CuStreamCreate>(CallId::cuStreamCreate, [&](auto b) { b.setPhStream(token); }).result;
    };
    EXPECT_EQ(create(k_stream), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(create(make_token(HandleKind::event, 1, 9)), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(create(0), CUDA_ERROR_INVALID_HANDLE);
    // Kernels go with their library.
    const uint64_t add = program.function("add", 0);
    program.synchronize();
    EXPECT_TRUE(client->async_errors().empty());
    client->send<wire::CuLibraryUnload>(CallId::cuLibraryUnload, [](auto b) { b.setLibrary(k_library); });
    const uint64_t late = program.launch(add, {});
    program.synchronize();
    ASSERT_EQ(client->async_errors().size(), 1u);
    EXPECT_EQ(client->async_errors()[0], std::make_pair(late, int{CUDA_ERROR_INVALID_HANDLE}));
}

TEST_F(HostileTest, F3_LaunchesWithTwistedParametersAreRefused) {
    auto client = m_server.client();
    ASSERT_NE(client, nullptr);
    Program program{*client};
    program.load();
    const uint64_t print = program.function("print", 0);
    const uint64_t gate = program.function("gate", 1);
    program.map(k_window, k_block);
    program.put(k_window, as_bytes("open"));
    const std::string address(reinterpret_cast<const char*>(&k_window), sizeof k_window);
    const auto launch = [&](uint64_t function, const std::string& params, const std::vector<uint32_t>& sizes) {
        return client
            ->call<wire::CuLaunchKernel>(CallId::cuLaunchKernel,
                                         [&](auto b) {
                                             b.setF(function), b.setBlockX(1);
                                             b.setParams({reinterpret_cast<const capnp::byte*>(params.data()), params.size()});
                                             b.setSizes({reinterpret_cast<const capnp::byte*>(sizes.data()), sizes.size() * 4});
                                         })
            .result;
    };
    EXPECT_EQ(launch(print, "", {}), 0);
    EXPECT_EQ(launch(gate, address, {8}), 0);
    // Sizes that are not those of what came.
    EXPECT_EQ(launch(gate, "1234567", {8}), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(launch(gate, "123456789", {8}), CUDA_ERROR_INVALID_VALUE);
    // Parameters that are not the kernel's: more, fewer, larger, smaller. The driver would read what lies beside them.
    EXPECT_EQ(launch(print, "12345678", {8}), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(launch(gate, "", {}), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(launch(gate, "1234", {4}), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(launch(gate, address + address, {8, 8}), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(launch(gate, address + address, {16}), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(launch(gate, "12345678", {4, 0xffffffffu}), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(launch(gate, "", {0xffffffffu, 1}), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(HostileTest, F3_AWorkerReachesNeitherProgramsNorNetworksNorOtherProcesses) {
    auto client = m_server.client();
    ASSERT_NE(client, nullptr);
    Program program{*client};
    program.load();
    program.launch(program.function("break_out", 0), {});
    EXPECT_EQ(program.synchronize().result, 0);
    EXPECT_EQ(client->output(), "tried 22 ways\n");
}

TEST_F(HostileTest, F3_OnlyLanesThatThereAreCanBeGivenUp) {
    // The command lane; numbers that no lane has; one that this session never had.
    for (const uint16_t lane : {0, 5, 65535, 1}) {
        auto client = m_server.client();
        ASSERT_NE(client, nullptr);
        auto body = protocol::build_message<wire::Event>([&](wire::Event::Builder event) {
            event.initLaneGivenUp().setLane(lane);
            event.getLaneGivenUp().setReceived(7);
        });
        ASSERT_TRUE(body.ok());
        client->send_body(protocol::FrameKind::event, std::move(*body));
        EXPECT_TRUE(client->wait_end()) << lane;
    }
    EXPECT_TRUE(m_server.wait_log("the client gives up a lane that it never had"));
}

TEST_F(HostileTest, B7_OffersThatCannotBeOnesEndTheSession) {
    constexpr uint64_t k_mib = 1 << 20, k_huge = ~uint64_t{0};
    struct {
        uint64_t offset, total;
        size_t hash_bytes;
        bool wants_uploads = true;
    } const offers[] = {{0, 8 * k_mib, 0},
                        {0, 8 * k_mib, 31},
                        {0, 64 * k_mib, 17 * 32},
                        {1, 8 * k_mib, 32},
                        {8 * k_mib, 8 * k_mib, 32},
                        {7 * k_mib, 8 * k_mib, 64},
                        {k_huge - k_huge % k_mib, k_huge, 64},
                        {0, 0, 32},
                        {0, 8 * k_mib, 32, false}};
    for (const auto& offer : offers) {
        std::string why;
        auto client = FakeClient::connect(m_server.port(), m_server.client_credentials(), why);
        ASSERT_NE(client, nullptr) << why;
        client->wants_uploads = offer.wants_uploads;
        ASSERT_TRUE(client->hello().has_value());
        const Bytes hashes(offer.hash_bytes, std::byte{7});
        auto body = protocol::build_message<wire::Event>([&](wire::Event::Builder event) {
            auto made = event.initOffer();
            made.setCall(1);
            made.setOffset(offer.offset);
            made.setTotal(offer.total);
            made.setHashes(kj::arrayPtr(reinterpret_cast<const kj::byte*>(hashes.data()), hashes.size()));
        });
        ASSERT_TRUE(body.ok());
        client->send_body(protocol::FrameKind::event, std::move(*body));
        EXPECT_TRUE(client->wait_end());
        EXPECT_EQ(client->close_reason(), "an offer that cannot be one");
    }
}

TEST_F(HostileTest, C5_ACrashingWorkerTakesOnlyItsSession) {
    auto client = m_server.client();
    ASSERT_NE(client, nullptr);
    Program program{*client};
    program.load();
    program.launch(program.function("crash", 0), {});
    EXPECT_TRUE(client->wait_end());
    EXPECT_TRUE(m_server.wait_log("killed by signal 6"));
}

TEST_F(HostileTest, C5_AClientThatIsCutOffFreesItsWorker) {
    auto client = m_server.client();
    ASSERT_NE(client, nullptr);
    Program program{*client};
    program.map(k_window, k_block);
    program.load();
    program.make_stream();
    program.launch(program.function("gate", 0), {k_window}, k_stream);  // runs for ever
    client->send<wire::CuStreamSynchronize>(
        CallId::cuStreamSynchronize, [](auto b) { b.setHStream(k_stream); }, {}, true);
    EXPECT_EQ(program.get(k_window + 64, 4, 2).result, 0);
    client->cut();
    EXPECT_TRUE(m_server.wait_log("session end"));
}

TEST_F(HostileTest, D3_AFullServerSaysSo) {
    // max_sessions is 4 here, and one is the bystander's.
    std::vector<std::unique_ptr<FakeClient>> clients;
    for (int i = 0; i < 3; ++i) {
        clients.push_back(m_server.client());
        ASSERT_NE(clients.back(), nullptr);
    }
    std::string why;
    EXPECT_EQ(FakeClient::connect(m_server.port(), m_server.client_credentials(), why), nullptr);
    EXPECT_NE(why.find("full"), std::string::npos) << why;
    clients.back()->say_goodbye();
    EXPECT_TRUE(clients.back()->wait_end());
    EXPECT_TRUE(m_server.wait_log("session end"));
}

}  // namespace
}  // namespace warpline::server::test
