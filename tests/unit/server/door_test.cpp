// The door: who asks for the status, and who is not told it (B5, C4, F1).
#include <gtest/gtest.h>

#include <pwd.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "common/net/socket.h"
#include "common/net/tls.h"
#include "protocol/session/status.h"
#include "server/daemon/claims.h"
#include "tests/unit/server/program.h"

namespace warpline::server::test {

namespace {

using namespace std::chrono_literals;

/// A connection that asks for the status, after TLS.
class Asking {
public:
    Asking(uint16_t port, const net::TlsCredentials& credentials) {
        std::string why;
        auto socket = net::dial({"127.0.0.1", port}, 5s, why);
        if (!socket.ok()) return;
        if (!socket->write_all(protocol::encode_preamble({}), 5s).ok()) return;
        auto context = net::TlsContext::create(net::TlsRole::client, credentials, why);
        if (!context.ok()) return;
        m_context.emplace(std::move(*context));
        auto channel = net::TlsChannel::handshake(*m_context, std::move(*socket), "127.0.0.1", {}, why);
        if (channel.ok()) m_channel = std::move(*channel);
    }
    explicit Asking(const ServerProcess& server) : Asking(server.port(), server.client_credentials()) {}

    bool connected() const { return m_channel != nullptr; }
    bool say(BytesView bytes) {
        const BytesView pieces[] = {bytes};
        return m_channel->write(pieces).ok();
    }
    std::optional<protocol::ServerStatus> answer() {
        const auto until = std::chrono::steady_clock::now() + FakeClient::k_patience;
        const auto frame = protocol::read_single_frame(
            protocol::FrameKind::status, [&](MutableBytesView bytes) { return m_channel->read_exact(bytes, until); });
        if (!frame.ok()) return std::nullopt;
        const auto status = protocol::decode_status(*frame);
        return status.ok() ? std::optional(*status) : std::nullopt;
    }
    /// Nothing if the server does not answer.
    std::optional<protocol::ServerStatus> ask(uint32_t claim_below = 0, bool wants_load = false) {
        if (!connected() || !say(*protocol::encode_status_request({"test", claim_below, wants_load}))) return std::nullopt;
        return answer();
    }

private:
    std::optional<net::TlsContext> m_context;
    std::unique_ptr<net::TlsChannel> m_channel;
};

TEST(Door, B5_TellsTheStatusAndCostsNoWorker) {
    ServerProcess server({"--max-sessions=7"});
    ASSERT_TRUE(server.ready());
    const auto workers = server.workers();
    auto status = Asking(server).ask();
    ASSERT_TRUE(status.has_value());
    EXPECT_EQ(status->sessions, 0u);
    EXPECT_EQ(status->max_sessions, 7u);
    EXPECT_EQ(status->server_version, WARPLINE_VERSION);
    EXPECT_FALSE(status->server_name.empty());
    EXPECT_GE(status->device_count, 1u);
    EXPECT_GT(status->driver_version, 11000);
    EXPECT_GE(status->workers_ready, 1u);
    EXPECT_FALSE(status->draining);
    EXPECT_FALSE(status->claimed);
    EXPECT_EQ(server.workers(), workers) << "no worker was touched";
    const auto client = server.client();
    ASSERT_NE(client, nullptr);
    EXPECT_EQ(Asking(server).ask()->sessions, 1u);
}

TEST(Door, B5_KeepsAPlaceForWhoHasChosen) {
    ServerProcess server({"--max-sessions=2"});
    ASSERT_TRUE(server.ready());
    Asking asking(server);
    const auto first = asking.ask(1);
    ASSERT_TRUE(first.has_value());
    EXPECT_TRUE(first->claimed);
    EXPECT_EQ(first->sessions, 1u);
    const auto second = Asking(server).ask(1);
    ASSERT_TRUE(second.has_value());
    EXPECT_FALSE(second->claimed) << "there is one already, and who asks has a better server";
    EXPECT_EQ(second->sessions, 1u);
    // Over the same connection.
    EXPECT_TRUE(asking.ask(2)->claimed);
    EXPECT_FALSE(asking.ask(100)->claimed) << "the server is full";
    const auto client = server.client();
    ASSERT_NE(client, nullptr);
    EXPECT_EQ(asking.ask()->sessions, 2u) << "whoever comes has the place that was kept";
}

TEST(Door, B5_AnswersWhileTheServerDrains) {
    ServerProcess server;
    ASSERT_TRUE(server.ready());
    auto client = server.client_of_drain();
    ASSERT_NE(client, nullptr);
    const auto status = Asking(server).ask(100);
    ASSERT_TRUE(status.has_value());
    EXPECT_TRUE(status->draining);
    EXPECT_FALSE(status->claimed);
    EXPECT_EQ(status->sessions, 1u);
    client->say_goodbye();
    EXPECT_EQ(server.wait_exit(), 0);
}

TEST(Door, F1_StrangersAreToldNothing) {
    ServerProcess server;
    ServerProcess other;
    ASSERT_TRUE(server.ready());
    ASSERT_TRUE(other.ready());
    // Believes the server, and has a certificate of somebody else's authority.
    net::TlsCredentials stranger = other.client_credentials();
    stranger.ca_pem = server.client_credentials().ca_pem;
    EXPECT_FALSE(Asking(server.port(), stranger).ask().has_value());
    EXPECT_TRUE(server.wait_log("refused peer="));
    EXPECT_TRUE(Asking(server).ask().has_value());
}

TEST(Door, F3_WhatIsNoQuestionIsDropped) {
    ServerProcess server;
    ASSERT_TRUE(server.ready());
    for (const char* garbage : {"this is no frame of ours, by far, and it is long enough for one", "\x01"}) {
        Asking asking(server);
        ASSERT_TRUE(asking.connected());
        EXPECT_TRUE(asking.say(as_bytes(std::string_view(garbage))));
        if (std::strlen(garbage) > protocol::k_frame_header_bytes) {
            EXPECT_FALSE(asking.answer().has_value());
            EXPECT_TRUE(server.wait_log("it speaks with the door, and then"));
        }
    }
    EXPECT_TRUE(Asking(server).ask().has_value());
}

/// What the stand-in for NVML says to servers that are started while this lives.
class Readings {
public:
    Readings() { setenv("FAKE_NVML", m_path.c_str(), 1); }
    ~Readings() {
        unsetenv("FAKE_NVML");
        unlink(m_path.c_str());
    }
    void say(const std::string& text) const { std::ofstream(m_path) << text; }

private:
    const std::string m_path = testing::TempDir() + "fake-nvml-" + std::to_string(getpid());
};

TEST(Door, C4_TellsHowBusyTheDevicesAre) {
    const Readings readings;
    readings.say("GPU-abababab-abab-abab-abab-abababababab 42 3 4\n");
    ServerProcess server({std::string("--nvml=") + FAKE_NVML_LIBRARY});
    ASSERT_TRUE(server.ready());
    const auto processes = server.children();
    EXPECT_TRUE(Asking(server).ask()->devices.empty()) << "not asked for";
    EXPECT_EQ(server.children(), processes) << "nobody looks before somebody asks";
    const auto status = Asking(server).ask(1, true);
    ASSERT_TRUE(status.has_value());
    EXPECT_TRUE(status->claimed);
    ASSERT_EQ(status->devices.size(), status->device_count);
    EXPECT_EQ(status->devices[0].utilisation_percent, 42u);
    EXPECT_EQ(status->devices[0].free_bytes, 3u);
    EXPECT_EQ(status->devices[0].total_bytes, 4u);
    EXPECT_EQ(server.children().size(), processes.size() + 1);
}

TEST(Door, F3_TheGaugeRunsAsTheUserOfTheWorkers) {
    if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
    const passwd* nobody = getpwnam("nobody");
    ASSERT_NE(nobody, nullptr);
    const Readings readings;
    readings.say("GPU-abababab-abab-abab-abab-abababababab 42 3 4\n");
    ServerProcess server({std::string("--nvml=") + FAKE_NVML_LIBRARY, "--worker-user=nobody"});
    ASSERT_TRUE(server.ready());
    const auto status = Asking(server).ask(0, true);
    ASSERT_TRUE(status.has_value());
    EXPECT_EQ(status->devices.size(), status->device_count);
    EXPECT_EQ(users_of(server.gauge()), std::vector<uid_t>(4, nobody->pw_uid));
}

TEST(Door, C4_AnswersWhereNvmlHangsDiesOrIsMissing) {
    const Readings readings;
    const std::pair<const char*, const char*> faults[] = {
        {"hang\n", ""}, {"crash\n", "the gauge ended (killed by signal 9)"}, {"no-init\n", "NVML cannot be initialised"}};
    for (const auto& [fault, line] : faults) {
        readings.say(fault);
        ServerProcess server({std::string("--nvml=") + FAKE_NVML_LIBRARY});
        ASSERT_TRUE(server.ready());
        Asking asking(server);
        for (int i = 0; i < 2; ++i) {
            const auto status = asking.ask(0, true);
            ASSERT_TRUE(status.has_value()) << fault;
            EXPECT_TRUE(status->devices.empty()) << fault;
            EXPECT_GE(status->device_count, 1u);
        }
        EXPECT_TRUE(*line == 0 || server.wait_log(line)) << server.log();
    }
}

/// A server with a session, whose door something happens to.
class FailingDoor : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(server.ready());
        client = server.client();
        ASSERT_NE(client, nullptr);
        door = server.door();
        ASSERT_GT(door, 0);
    }
    /// Who asks is answered again, a little later, by another process.
    void expect_another_door() {
        const auto deadline = std::chrono::steady_clock::now() + FakeClient::k_patience;
        bool answered = false;
        while (!answered && std::chrono::steady_clock::now() < deadline) answered = Asking(server).ask().has_value();
        EXPECT_TRUE(answered);
        EXPECT_NE(server.door(), door);
    }

    ServerProcess server;
    std::unique_ptr<FakeClient> client;
    pid_t door = -1;
};

TEST_F(FailingDoor, C5_ADoorThatDiesIsReplacedAndHarmsNobody) {
    kill(door, SIGKILL);
    EXPECT_TRUE(server.wait_log("the door ended (killed by signal 9)"));
    EXPECT_EQ((Program{*client}.synchronize().result), 0);
    expect_another_door();
}

TEST_F(FailingDoor, C5_ADoorThatIsStoppedHoldsUpNobody) {
    kill(door, SIGSTOP);
    // More than its channel holds.
    for (int i = 0; i < 400; ++i) {
        std::string why;
        auto socket = net::dial({"127.0.0.1", server.port()}, 5s, why);
        ASSERT_TRUE(socket.ok()) << why;
        // With a record of TLS, or what looks like one: under pressure nobody is passed on without.
        const auto preamble = protocol::encode_preamble({});
        Bytes first(preamble.begin(), preamble.end());
        for (const char c : {'\x16', '\x03', '\x01', '\x00', '\x01', '\x01'}) first.push_back(static_cast<std::byte>(c));
        EXPECT_TRUE(socket->write_all(first, 5s).ok());
    }
    EXPECT_TRUE(server.wait_log("the door does not take it"));
    // Sessions go on, and come back over other connections.
    EXPECT_EQ((Program{*client}.synchronize().result), 0);
    std::string why;
    const auto lane = FakeClient::lane(server.port(), server.client_credentials(),
                                       {protocol::Preamble::Kind::lane, client->session, 0, 1}, client->key, why);
    EXPECT_NE(lane, nullptr) << why;
    kill(door, SIGCONT);
}

TEST_F(FailingDoor, C5_ADoorThatIsStoppedIsReplaced) {
    kill(door, SIGSTOP);
    // Who comes meanwhile is sent away with the door, and comes again.
    EXPECT_FALSE(Asking(server).ask().has_value());
    EXPECT_TRUE(server.wait_log("the door (process " + std::to_string(door) + ") has not answered for"));
    expect_another_door();
    EXPECT_EQ((Program{*client}.synchronize().result), 0) << "the session goes on";
    EXPECT_NE(server.client(), nullptr);
    EXPECT_EQ(server.log().find("the door ended"), std::string::npos) << "it did not die by itself";
}

TEST(Door, F1_WhoHasOpenedASessionHasAPlace) {
    ServerProcess server({"--max-sessions=2"});
    ASSERT_TRUE(server.ready());
    std::string why;
    const auto first = FakeClient::open(server.port(), server.client_credentials(), why);
    ASSERT_TRUE(first.has_value()) << why;
    const auto second = FakeClient::open(server.port(), server.client_credentials(), why);
    ASSERT_TRUE(second.has_value()) << why;
    EXPECT_NE(first->session, second->session);
    EXPECT_NE(first->key, second->key);
    EXPECT_EQ(Asking(server).ask()->sessions, 2u);
    EXPECT_FALSE(FakeClient::open(server.port(), server.client_credentials(), why).has_value());
    EXPECT_NE(why.find("full"), std::string::npos) << why;
    // The key of one does not open the other one.
    EXPECT_EQ(FakeClient::lane(server.port(), server.client_credentials(),
                               {protocol::Preamble::Kind::lane, second->session, 0, 0}, first->key, why),
              nullptr);
    EXPECT_NE(FakeClient::lane(server.port(), server.client_credentials(),
                               {protocol::Preamble::Kind::lane, second->session, 0, 0}, second->key, why),
              nullptr)
        << why << ": a failed attempt costs the session nothing";
}

TEST(Door, F1_WhoOpensASessionAndDoesNotComeLosesIt) {
    ServerProcess server({"--max-sessions=1"});
    ASSERT_TRUE(server.ready());
    std::string why;
    ASSERT_TRUE(FakeClient::open(server.port(), server.client_credentials(), why).has_value()) << why;
    EXPECT_TRUE(server.wait_log("the client did not come after it had opened the session"));
    EXPECT_NE(server.client(), nullptr);
}

TEST(Door, F1_WorkersForThoseWhoDidNotComeEndAgain) {
    ServerProcess server({"--workers-ready=1", "--max-sessions=4"});
    ASSERT_TRUE(server.ready());
    std::string why;
    for (int i = 0; i < 3; ++i)
        ASSERT_TRUE(FakeClient::open(server.port(), server.client_credentials(), why).has_value()) << why;
    EXPECT_TRUE(server.wait_log("the client did not come after it had opened the session"));
    const auto deadline = std::chrono::steady_clock::now() + FakeClient::k_patience;
    while (server.workers().size() > 1 && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(20ms);
    EXPECT_EQ(server.workers().size(), 1u);
    EXPECT_NE(server.client(), nullptr);
}

TEST(Door, F1_SighupWithBadCertificatesLeavesTheDoorAsItIs) {
    ServerProcess server;
    ASSERT_TRUE(server.ready());
    server.damage_certificate();
    server.signal(SIGHUP);
    EXPECT_TRUE(server.wait_log("the door cannot open"));
    EXPECT_TRUE(server.wait_log("the one before goes on"));
    EXPECT_NE(server.client(), nullptr);
}

TEST(Door, F1_RunsAsAUserOfItsOwn) {
    if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
    const passwd* nobody = getpwnam("nobody");
    ASSERT_NE(nobody, nullptr);
    ServerProcess server({"--door-user=nobody"});
    ASSERT_TRUE(server.ready());
    EXPECT_EQ(users_of(server.door()), std::vector<uid_t>(4, nobody->pw_uid));
    EXPECT_EQ(groups_of(server.door()), std::vector<gid_t>{nobody->pw_gid});
    EXPECT_NE(server.client(), nullptr);
    EXPECT_TRUE(Asking(server).ask().has_value());
}

TEST(Door, F1_AUserThatIsNotThereStopsTheServer) {
    ServerProcess server({"--door-user=no-such-user-of-ours"});
    EXPECT_FALSE(server.ready());
    EXPECT_TRUE(server.wait_log("door_user"));
    EXPECT_EQ(server.wait_exit(), 1);
}

TEST(Door, F1_SighupGivesItTheNewCertificates) {
    ServerProcess server;
    ASSERT_TRUE(server.ready());
    const pid_t before = server.door();
    Asking held(server);
    ASSERT_TRUE(held.ask().has_value());
    server.signal(SIGHUP);
    EXPECT_TRUE(server.wait_log("SIGHUP"));
    EXPECT_TRUE(held.ask().has_value()) << "what it has in hand is finished";
    EXPECT_TRUE(Asking(server).ask().has_value());
    EXPECT_NE(server.children(), std::vector<pid_t>{before});
}

TEST(Door, C5_DiesWithTheSupervisor) {
    ServerProcess server;
    ASSERT_TRUE(server.ready());
    const pid_t door = server.door();
    ASSERT_GT(door, 0);
    server.signal(SIGKILL);
    EXPECT_EQ(server.wait_exit(), 128 + SIGKILL);
    const auto deadline = std::chrono::steady_clock::now() + FakeClient::k_patience;
    while (kill(door, 0) == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(5ms);
    EXPECT_NE(kill(door, 0), 0);
}

TEST(Claims, AreTakenByWhoComesOrEnd_B5) {
    Claims claims;
    const Claims::Clock::time_point now{};
    claims.take();
    EXPECT_EQ(claims.count(now), 0u);
    claims.keep(now);
    claims.keep(now + 1s);
    EXPECT_EQ(claims.count(now + 1s), 2u);
    EXPECT_EQ(claims.count(now + Claims::k_lifetime), 1u);
    claims.take();
    EXPECT_EQ(claims.count(now + Claims::k_lifetime), 0u);
}

}  // namespace
}  // namespace warpline::server::test
