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
        ASSERT_TRUE(m_owner->hello().has_value());
        m_session = m_owner->session;
        m_key = m_owner->key;
        Program{*m_owner}.map(k_window, k_block);
        Program{*m_owner}.put(k_window, as_bytes("all is well"));
    }

    /// A lane that names the session, after TLS. Null if the server does not believe who comes.
    std::unique_ptr<net::TlsChannel> connect(const protocol::SessionId& session, const protocol::SessionKey& key,
                                             uint32_t epoch, uint16_t lane = protocol::k_command_lane) {
        return FakeClient::lane(m_server.port(), m_server.client_credentials(),
                                {protocol::Preamble::Kind::lane, session, lane, epoch}, key, m_why);
    }
    /// The server's answer; nothing if it closes the connection instead.
    static std::optional<protocol::ResumeAnswer> answer_of(net::TlsChannel& channel) {
        const auto until = std::chrono::steady_clock::now() + FakeClient::k_patience;
        auto answer = protocol::read_resume_answer(channel, until);
        return answer.ok() ? std::optional(*answer) : std::nullopt;
    }
    std::optional<protocol::ResumeAnswer> say(net::TlsChannel& channel, const protocol::ResumeRequest& request) {
        const auto frame = protocol::encode_resume(request);
        EXPECT_TRUE(frame.ok());
        const BytesView pieces[] = {*frame};
        EXPECT_TRUE(channel.write(pieces).ok());
        return answer_of(channel);
    }
    std::optional<protocol::ResumeAnswer> tell_death(const protocol::SessionKey& key) {
        const auto channel = connect(m_session, key, 1, protocol::k_death_lane);
        return channel == nullptr ? std::nullopt : say(*channel, {0, true, m_session});
    }
    void expect_unharmed() { EXPECT_EQ((Program{*m_owner}.get(k_window, 11).payload), "all is well"); }

    ServerProcess m_server{{grace()}};
    std::unique_ptr<FakeClient> m_owner;
    protocol::SessionId m_session{};
    protocol::SessionKey m_key{};
    std::string m_why;
};

TEST_F(ResumeTest, F3_WhoDoesNotHaveTheKeyIsRefused) {
    protocol::SessionKey wrong = m_key;
    wrong.back() ^= std::byte{1};
    EXPECT_EQ(connect(m_session, wrong, 1), nullptr) << "although he has a certificate";
    EXPECT_NE(m_why.find("key"), std::string::npos) << m_why;
    EXPECT_TRUE(m_server.wait_log("the client does not have the session's key"));
    expect_unharmed();
}

TEST_F(ResumeTest, F3_WhoDoesNotSpeakCostsTheSessionNothing) {
    std::vector<net::Socket> silent;
    for (uint32_t i = 0; i < 40; ++i) {
        std::string why;
        auto socket = net::dial({"127.0.0.1", m_server.port()}, 5s, why);
        ASSERT_TRUE(socket.ok()) << why;
        EXPECT_TRUE(
            socket->write_all(protocol::encode_preamble({protocol::Preamble::Kind::lane, m_session, 0, i + 1}), 5s).ok());
        // The beginning of a handshake, and its end never.
        EXPECT_TRUE(socket->write_all(as_bytes(std::string_view("\x16\x03\x01\x00\x20", 5)), 5s).ok());
        EXPECT_TRUE(socket->write_all(Bytes(32), 5s).ok() || i > 0);
        silent.push_back(std::move(*socket));
    }
    expect_unharmed();
    // Its owner comes back meanwhile, and the program's death is heard.
    const auto channel = connect(m_session, m_key, 1);
    ASSERT_NE(channel, nullptr) << m_why;
    const auto answer = say(*channel, {m_owner->received(), false});
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->refused, Code::ok);
}

TEST_F(ResumeTest, C2_AnAttemptThatWasOvertakenIsDropped) {
    // The session's first lane has this number.
    EXPECT_EQ(connect(m_session, m_key, 0), nullptr);
    const auto later = connect(m_session, m_key, 7);
    ASSERT_NE(later, nullptr) << m_why;
    ASSERT_TRUE(say(*later, {m_owner->received(), false}).has_value());
    EXPECT_TRUE(m_server.wait_log("the session goes on over"));
    for (const uint32_t old : {1u, 7u, 7u + 100'001u}) EXPECT_EQ(connect(m_session, m_key, old), nullptr);
    EXPECT_TRUE(m_server.wait_log("the session has a newer lane"));
    const auto newest = connect(m_session, m_key, 8);
    ASSERT_NE(newest, nullptr) << m_why;
    EXPECT_EQ(say(*newest, {m_owner->received(), false})->refused, Code::ok);
}

TEST_F(ResumeTest, F3_LanesThatNobodyUsesAreDropped) {
    for (const uint16_t lane : {uint16_t{protocol::k_max_lanes}, uint16_t{0x7fff}})
        EXPECT_EQ(connect(m_session, m_key, 1, lane), nullptr);
    EXPECT_EQ(connect(m_session, m_key, 0, 1), nullptr) << "bulk lanes come to a session, and do not begin it";
    // Nor does a watcher continue the session, or its owner end it by the wrong one.
    const auto watcher = connect(m_session, m_key, 1, protocol::k_death_lane);
    ASSERT_NE(watcher, nullptr) << m_why;
    EXPECT_FALSE(say(*watcher, {0, false}).has_value());
    const auto owner = connect(m_session, m_key, 1);
    ASSERT_NE(owner, nullptr) << m_why;
    EXPECT_FALSE(say(*owner, {0, true}).has_value());
    expect_unharmed();
}

TEST_F(ResumeTest, C2_ASessionThatIsGoneIsToldSo) {
    protocol::SessionId unknown = m_session;
    unknown[0] ^= std::byte{1};
    const auto channel = connect(unknown, m_key, 1);
    ASSERT_NE(channel, nullptr) << m_why;
    EXPECT_FALSE(channel->proved_by_key()) << "the door shows its certificate";
    const auto answer = say(*channel, {0, false, unknown});
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->refused, Code::unknown_handle);
    EXPECT_NE(answer->reason.find("ended"), std::string::npos) << answer->reason;
    expect_unharmed();
}

TEST_F(ResumeTest, F3_APreambleThatWasChangedEndsNothing) {
    // It says another attempt than the handshake does.
    std::string why;
    auto socket = net::dial({"127.0.0.1", m_server.port()}, 5s, why);
    ASSERT_TRUE(socket.ok()) << why;
    const auto meant = protocol::encode_preamble({protocol::Preamble::Kind::lane, m_session, 0, 3});
    const auto sent = protocol::encode_preamble({protocol::Preamble::Kind::lane, m_session, 0, 2});
    ASSERT_TRUE(socket->write_all(sent, 5s).ok());
    const auto context = net::TlsContext::create(net::TlsRole::client, m_server.client_credentials(), why);
    ASSERT_TRUE(context.ok()) << why;
    net::TlsChannel::Options options;
    options.key = net::PresharedKey{m_key, Bytes(meant.begin(), meant.end())};
    EXPECT_FALSE(net::TlsChannel::handshake(*context, std::move(*socket), "127.0.0.1", options, why).ok());
    expect_unharmed();
}

TEST_F(ResumeTest, C2_ASessionIsNotGoneBecauseItsNameWasDamagedOnTheWay) {
    protocol::SessionId damaged = m_session;
    damaged[3] ^= std::byte{4};
    const auto channel = connect(damaged, m_key, 1);
    ASSERT_NE(channel, nullptr) << m_why;
    EXPECT_FALSE(say(*channel, {0, false, m_session}).has_value());
    EXPECT_TRUE(m_server.wait_log("was damaged on the way"));
    expect_unharmed();
}

TEST_F(ResumeTest, F3_WhatIsNoResumeIsDropped) {
    uint32_t epoch = 0;
    for (const char* garbage : {"this is no frame of ours, by far", "\x01"}) {
        const auto channel = connect(m_session, m_key, ++epoch);
        ASSERT_NE(channel, nullptr) << m_why;
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
    const auto channel = connect(m_session, m_key, 1);
    ASSERT_NE(channel, nullptr) << m_why;
    static_cast<void>(say(*channel, {1u << 30, false}));
    EXPECT_TRUE(m_owner->wait_end());
    EXPECT_TRUE(m_server.wait_log("session end"));
    Program{*bystander}.map(k_window, k_block);
}

TEST_F(ResumeTest, C3_TheDeathOfAProgramEndsItsSession) {
    protocol::SessionKey wrong = m_key;
    wrong[0] ^= std::byte{0x10};
    EXPECT_FALSE(tell_death(wrong).has_value());
    expect_unharmed();
    // Although its connection is still there: a forked child may have a copy of the socket.
    auto answer = tell_death(m_key);
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->refused, Code::ok);
    EXPECT_TRUE(m_owner->wait_end());
    EXPECT_TRUE(m_server.wait_log("reason=\"the program was killed\""));
    // Told again, as by who has not heard the answer.
    answer = tell_death(m_key);
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->refused, Code::unknown_handle);
}

TEST_F(ResumeTest, C3_TheDeathOfAProgramEndsItsLostSession) {
    const auto held = m_server.client();
    m_owner->cut();
    ASSERT_TRUE(m_server.wait_log("the connection is lost"));
    const auto answer = tell_death(m_key);
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->refused, Code::ok);
    EXPECT_TRUE(m_server.wait_log("reason=\"the program was killed\""));
    EXPECT_EQ(m_server.log().find("did not come back"), std::string::npos);
    ASSERT_NE(held, nullptr);
    Program{*held}.map(k_window, k_block);
}

TEST_F(ResumeTest, C2_TheOwnerTakesOverAndAnAbandonedSessionEnds) {
    expect_unharmed();  // the answer to a call: so the server has received it
    const auto channel = connect(m_session, m_key, 1);
    ASSERT_NE(channel, nullptr) << m_why;
    // What it has acknowledged, perhaps, it must not have forgotten.
    const auto answer = say(*channel, {m_owner->received(), false});
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
