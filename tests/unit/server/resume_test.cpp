// Connections that want to continue a session: the client's own, and those of whoever has seen its id on the wire (C2, F3).
#include <gtest/gtest.h>

#include <optional>

#include "common/net/socket.h"
#include "common/net/tls.h"
#include "tests/unit/server/program.h"

namespace warpline::server::test {

namespace {

using namespace std::chrono_literals;

class ResumeTest : public testing::Test {
protected:
    /// Long where nothing shall end by it.
    static std::string grace() {
        const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
        return name.rfind("C3_", 0) == 0 ? "--grace-seconds=60" : "--grace-seconds=1";
    }
    void SetUp() override {
        ASSERT_TRUE(m_server.ready());
        std::string why;
        m_owner = FakeClient::connect(m_server.port(), m_server.client_credentials(), why);
        ASSERT_NE(m_owner, nullptr) << why;
        const auto hello = m_owner->hello();
        ASSERT_TRUE(hello.has_value());
        m_session = hello->session;
        m_token = hello->token;
        Program{*m_owner}.map(k_window, k_block);
        Program{*m_owner}.put(k_window, as_bytes("all is well"));
    }

    /// TCP, a preamble that names the session, TLS.
    std::unique_ptr<net::TlsChannel> connect(const protocol::SessionId& session) {
        std::string why;
        auto socket = net::connect_tcp({"127.0.0.1", m_server.port()}, 5s, why);
        EXPECT_TRUE(socket.ok()) << why;
        if (!socket.ok()) return nullptr;
        const auto preamble = protocol::encode_preamble({protocol::Preamble::Kind::further_connection, session, 0});
        EXPECT_TRUE(socket->write_all(preamble, 5s).ok());
        auto context = net::TlsContext::create(net::TlsRole::client, m_server.client_credentials(), why);
        EXPECT_TRUE(context.ok()) << why;
        if (!context.ok()) return nullptr;
        m_contexts.push_back(std::make_unique<net::TlsContext>(std::move(*context)));
        auto channel = net::TlsChannel::handshake(*m_contexts.back(), std::move(*socket), "127.0.0.1", {}, why);
        EXPECT_TRUE(channel.ok()) << why;
        return channel.ok() ? std::move(*channel) : nullptr;
    }
    /// The server's answer; nothing if it closes the connection instead.
    static std::optional<protocol::ResumeAnswer> answer_of(net::TlsChannel& channel) {
        const auto until = std::chrono::steady_clock::now() + FakeClient::k_patience;
        auto frame = protocol::read_resume_frame([&](MutableBytesView bytes) { return channel.read_exact(bytes, until); });
        if (!frame.ok()) return std::nullopt;
        auto answer = protocol::decode_resume_answer(*frame);
        return answer.ok() ? std::optional(*answer) : std::nullopt;
    }
    std::optional<protocol::ResumeAnswer> ask(const protocol::SessionId& named, const protocol::ResumeRequest& request) {
        const auto channel = connect(named);
        if (channel == nullptr) return std::nullopt;
        const auto frame = protocol::encode_resume(request);
        EXPECT_TRUE(frame.ok());
        const BytesView pieces[] = {*frame};
        EXPECT_TRUE(channel->write(pieces).ok());
        return answer_of(*channel);
    }
    void expect_unharmed() { EXPECT_EQ((Program{*m_owner}.get(k_window, 11).payload), "all is well"); }

    ServerProcess m_server{{grace()}};
    std::vector<std::unique_ptr<net::TlsContext>> m_contexts;
    std::unique_ptr<FakeClient> m_owner;
    protocol::SessionId m_session{};
    protocol::SessionToken m_token{};
};

TEST_F(ResumeTest, F3_WhoDoesNotHaveTheKeyIsRefused) {
    protocol::SessionToken wrong = m_token;
    wrong.back() ^= std::byte{1};
    const auto answer = ask(m_session, {m_session, wrong, 1, 0});
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->refused, Code::denied);
    EXPECT_EQ(answer->received, 0u) << "a stranger is told nothing of the session";
    expect_unharmed();
}

TEST_F(ResumeTest, C2_AnAttemptThatWasOvertakenIsRefused) {
    const auto answer = ask(m_session, {m_session, m_token, 0, 0});
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->refused, Code::denied);
    expect_unharmed();
}

TEST_F(ResumeTest, C2_ASessionThatIsGoneIsToldSo) {
    protocol::SessionId unknown = m_session;
    unknown[0] ^= std::byte{1};
    const auto answer = ask(unknown, {unknown, m_token, 1, 0});
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->refused, Code::unknown_handle);
    EXPECT_NE(answer->reason.find("ended"), std::string::npos) << answer->reason;
    expect_unharmed();
}

TEST_F(ResumeTest, F3_APreambleThatWasChangedEndsNothing) {
    protocol::SessionId changed = m_session;
    changed[3] ^= std::byte{0x40};
    EXPECT_FALSE(ask(changed, {m_session, m_token, 1, 0}).has_value()) << "neither refused nor gone: the client tries again";
    EXPECT_TRUE(m_server.wait_log("its preamble was changed on the way"));
    expect_unharmed();
}

TEST_F(ResumeTest, F3_WhatIsNoResumeIsDropped) {
    for (const char* garbage : {"this is no frame of ours, by far", "\x01"}) {
        const auto channel = connect(m_session);
        ASSERT_NE(channel, nullptr);
        const BytesView pieces[] = {as_bytes(std::string_view(garbage))};
        EXPECT_TRUE(channel->write(pieces).ok());
        channel->send_end();
        EXPECT_FALSE(answer_of(*channel).has_value());
    }
    expect_unharmed();
}

TEST_F(ResumeTest, F3_WhoHasReceivedMoreThanWasSentLosesHisSessionOnly) {
    const auto bystander = m_server.client();
    ASSERT_NE(bystander, nullptr);
    static_cast<void>(ask(m_session, {m_session, m_token, 1, 1u << 30}));
    EXPECT_TRUE(m_owner->wait_end());
    EXPECT_TRUE(m_server.wait_log("session end"));
    Program{*bystander}.map(k_window, k_block);
}

TEST_F(ResumeTest, C3_TheDeathOfAProgramEndsItsSession) {
    protocol::ResumeRequest death{m_session, m_token};
    death.dead = true;
    protocol::ResumeRequest stranger = death;
    stranger.token[0] ^= std::byte{0x10};
    auto answer = ask(m_session, stranger);
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->refused, Code::denied);
    expect_unharmed();
    // Although its connection is still there: a forked child may have a copy of the socket.
    answer = ask(m_session, death);
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->refused, Code::ok);
    EXPECT_TRUE(m_owner->wait_end());
    EXPECT_TRUE(m_server.wait_log("reason=\"the program was killed\""));
    // Told again, as by who has not heard the answer.
    answer = ask(m_session, death);
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->refused, Code::unknown_handle);
}

TEST_F(ResumeTest, C3_TheDeathOfAProgramEndsItsLostSession) {
    const auto held = m_server.client();
    m_owner->cut();
    ASSERT_TRUE(m_server.wait_log("the connection is lost"));
    protocol::ResumeRequest death{m_session, m_token};
    death.dead = true;
    const auto answer = ask(m_session, death);
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->refused, Code::ok);
    EXPECT_TRUE(m_server.wait_log("reason=\"the program was killed\""));
    EXPECT_EQ(m_server.log().find("did not come back"), std::string::npos);
    ASSERT_NE(held, nullptr);
    Program{*held}.map(k_window, k_block);
}

TEST_F(ResumeTest, C2_TheOwnerTakesOverAndAnAbandonedSessionEnds) {
    const auto channel = connect(m_session);
    ASSERT_NE(channel, nullptr);
    const auto frame = protocol::encode_resume({m_session, m_token, 1, 0});
    ASSERT_TRUE(frame.ok());
    const BytesView pieces[] = {*frame};
    ASSERT_TRUE(channel->write(pieces).ok());
    const auto answer = answer_of(*channel);
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->refused, Code::ok);
    EXPECT_GT(answer->received, 0u);
    EXPECT_TRUE(m_owner->wait_end()) << "the connection before is superseded";
    // Nobody speaks on the new one any more.
    channel->shutdown();
    EXPECT_TRUE(m_server.wait_log("did not come back"));
    EXPECT_NE(m_server.client(), nullptr);
}

}  // namespace
}  // namespace warpline::server::test
