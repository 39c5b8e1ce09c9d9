// Connections that come, speak, and do not.
#include "server/daemon/lobby.h"
#include "server/control/control.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "server/daemon/listen_socket.h"

namespace warpline::server {
namespace {

using Kind = protocol::Preamble::Kind;

/// A connection over loopback, from a host of our choice.
class Caller {
public:
    Caller(Lobby& lobby, int listener, uint16_t port, const char* host = "127.0.0.1") : m_fd(socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in from{};
        from.sin_family = AF_INET;
        inet_pton(AF_INET, host, &from.sin_addr);
        EXPECT_EQ(bind(m_fd, reinterpret_cast<sockaddr*>(&from), sizeof from), 0);
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(port);
        inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
        EXPECT_EQ(connect(m_fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
        pollfd incoming{listener, POLLIN, 0};
        EXPECT_EQ(poll(&incoming, 1, -1), 1);
        net::Socket accepted(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        std::string peer = accepted.peer_address();
        lobby.admit(accepted.release(), std::move(peer));
    }
    ~Caller() { close(m_fd); }
    Caller(const Caller&) = delete;

    void say(BytesView bytes) {
        EXPECT_EQ(send(m_fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    }
    void say_preamble() { say(protocol::encode_preamble({})); }
    void say_no_more() { shutdown(m_fd, SHUT_WR); }
    bool is_dropped() {
        pollfd watched{m_fd, POLLIN, 0};
        std::byte byte;
        return poll(&watched, 1, 0) == 1 && recv(m_fd, &byte, 1, 0) <= 0;
    }

private:
    int m_fd;
};

class LobbyTest : public testing::Test {
protected:
    Caller call(const char* host = "127.0.0.1") { return Caller(m_lobby, m_listener, m_port, host); }
    /// What poll() says of a connection, when it says something.
    short events(size_t index) {
        pollfd watched{m_lobby.fd(index), POLLIN | POLLRDHUP, 0};
        EXPECT_EQ(poll(&watched, 1, 10'000), 1) << "nothing is told";
        return watched.revents;
    }
    bool is_quiet(size_t index) {
        pollfd watched{m_lobby.fd(index), POLLIN | POLLRDHUP, 0};
        return poll(&watched, 1, 0) == 0;
    }
    std::optional<Lobby::Guest> hear(size_t index, bool trusts = false) {
        const short told = events(index);
        return m_lobby.hear(index, (told & POLLRDHUP) != 0, trusts);
    }

    ListenSocket m_listening = ListenSocket::open("127.0.0.1:0", 0600).value();
    const int m_listener = m_listening.fd();
    const uint16_t m_port = net::parse_endpoint(m_listening.address())->port;
    Lobby m_lobby{4, std::chrono::seconds(60)};
};

/// A handshake record of so many bytes.
Bytes record(size_t bytes) {
    Bytes result(5 + bytes, std::byte{1});
    result[0] = std::byte{22};
    result[1] = result[2] = std::byte{3};
    result[3] = static_cast<std::byte>(bytes / 256);
    result[4] = static_cast<std::byte>(bytes % 256);
    return result;
}

TEST_F(LobbyTest, F1_APreambleMayComeInPieces) {
    Caller caller = call();
    const auto preamble = protocol::encode_preamble({});
    caller.say(BytesView(preamble).first(10));
    EXPECT_FALSE(hear(0, true));
    caller.say(BytesView(preamble).subspan(10));
    const auto guest = hear(0, true);
    ASSERT_TRUE(guest);
    EXPECT_EQ(guest->preamble.kind, Kind::door);
    EXPECT_EQ(host_of(guest->peer), "127.0.0.1");
    EXPECT_EQ(m_lobby.size(), 0u);
    close(guest->fd);
}

TEST_F(LobbyTest, F1_UnderPressureNobodyIsRoutedBeforeTlsBegins) {
    Caller caller = call();
    caller.say_preamble();
    EXPECT_FALSE(hear(0));
    const Bytes hello = record(600);
    caller.say(BytesView(hello).first(300));
    EXPECT_FALSE(hear(0));
    EXPECT_TRUE(is_quiet(0)) << "half a record wakes us again and again";
    caller.say(BytesView(hello).subspan(300));
    const auto guest = hear(0);
    ASSERT_TRUE(guest);
    // All of it is still there, and a reader is told of each byte.
    std::vector<std::byte> read(hello.size());
    EXPECT_EQ(recv(guest->fd, read.data(), read.size(), 0), static_cast<ssize_t>(hello.size()));
    EXPECT_TRUE(std::equal(read.begin(), read.end(), hello.begin()));
    const std::byte one[] = {std::byte{7}};
    caller.say(one);
    pollfd watched{guest->fd, POLLIN, 0};
    EXPECT_EQ(poll(&watched, 1, 10'000), 1);
    close(guest->fd);
}

TEST_F(LobbyTest, F1_WhatIsNoTlsIsDropped) {
    Caller caller = call();
    caller.say_preamble();
    EXPECT_FALSE(hear(0));
    const Bytes text(64, std::byte{'G'});
    caller.say(text);
    EXPECT_FALSE(hear(0));
    EXPECT_EQ(m_lobby.size(), 0u);
    EXPECT_TRUE(caller.is_dropped());
}

TEST_F(LobbyTest, F1_WhatIsNoPreambleIsDropped) {
    Caller caller = call();
    caller.say(Bytes(64, std::byte{'G'}));
    EXPECT_FALSE(hear(0, true));
    EXPECT_EQ(m_lobby.size(), 0u);
}

TEST_F(LobbyTest, F1_WhoClosesLeaves) {
    Caller silent = call(), talks = call(), begins_tls = call();
    silent.say_no_more();
    EXPECT_FALSE(hear(0));
    EXPECT_EQ(m_lobby.size(), 2u);
    const auto preamble = protocol::encode_preamble({});
    talks.say(BytesView(preamble).first(3));
    talks.say_no_more();
    while (m_lobby.size() == 2) EXPECT_FALSE(hear(0));
    begins_tls.say_preamble();
    begins_tls.say(BytesView(record(100)).first(50));
    begins_tls.say_no_more();
    while (m_lobby.size() == 1) EXPECT_FALSE(hear(0));
    EXPECT_EQ(m_lobby.next_deadline(), Lobby::Clock::time_point::max());
}

TEST_F(LobbyTest, F1_WhoFillsTheLobbyLosesHisOldest) {
    Caller honest = call("127.0.0.3");
    std::vector<std::unique_ptr<Caller>> strangers;
    for (int i = 0; i < 20; ++i) strangers.push_back(std::make_unique<Caller>(m_lobby, m_listener, m_port, "127.0.0.2"));
    EXPECT_EQ(m_lobby.size(), 4u);
    EXPECT_FALSE(honest.is_dropped());
    EXPECT_TRUE(strangers.front()->is_dropped());
    EXPECT_FALSE(strangers.back()->is_dropped());
    honest.say_preamble();
    const auto guest = hear(0, true);
    ASSERT_TRUE(guest);
    EXPECT_EQ(host_of(guest->peer), "127.0.0.3");
    close(guest->fd);
}

TEST_F(LobbyTest, F1_OfHostsWithEquallyManyTheOldestGoes) {
    std::vector<std::unique_ptr<Caller>> strangers;
    const auto come = [&](int host) {
        strangers.push_back(std::make_unique<Caller>(m_lobby, m_listener, m_port, ("127.0.0." + std::to_string(host)).c_str()));
    };
    for (int host = 2; host < 12; ++host) come(host);
    // Before all others in the order of names.
    Caller honest = call("127.0.0.1");
    for (int host = 12; host < 15; ++host) come(host);
    EXPECT_EQ(m_lobby.size(), 4u);
    EXPECT_FALSE(honest.is_dropped());
    EXPECT_TRUE(strangers[9]->is_dropped());
}

TEST_F(LobbyTest, F1_WhoIsSilentIsDroppedInTime) {
    Lobby lobby(4, std::chrono::milliseconds(0));
    Caller caller(lobby, m_listener, m_port);
    lobby.expire();
    EXPECT_EQ(lobby.size(), 0u);
    EXPECT_TRUE(caller.is_dropped());
}

/// A connection over a Unix socket.
class LocalCaller {
public:
    explicit LocalCaller(Lobby& lobby) {
        int ends[2];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
        m_socket = net::Socket(ends[0]);
        const net::Socket peer(ends[1]);
        lobby.admit(dup(peer.fd()), peer.peer_address(), true);
    }
    void say(BytesView bytes) { EXPECT_TRUE(m_socket.write_all(bytes, std::chrono::seconds(5)).ok()); }

private:
    net::Socket m_socket;
};

TEST_F(LobbyTest, B9_WithoutTlsOnlyUnixSocketsAreRouted) {
    const auto plain = protocol::encode_preamble({.plain = true});
    LocalCaller local(m_lobby);
    local.say(plain);
    const auto guest = hear(0);
    ASSERT_TRUE(guest) << "under pressure, too";
    EXPECT_TRUE(guest->preamble.plain);
    EXPECT_EQ(host_of(guest->peer), "user:" + std::to_string(getuid())) << "whom limits count for";
    close(guest->fd);
    Caller remote = call();
    remote.say(plain);
    EXPECT_FALSE(hear(0, true));
    EXPECT_EQ(m_lobby.size(), 0u);
    EXPECT_TRUE(remote.is_dropped());
}

}  // namespace
}  // namespace warpline::server
