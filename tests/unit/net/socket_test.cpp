// Tests of what is asked of and set for TCP connections.
#include "common/net/socket.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <future>
#include <thread>

#include "tests/unit/net/tls_pair.h"

namespace warpline::net {
namespace {

using namespace std::chrono_literals;
using test::loopback;

TEST(Socket, AMachineWhoseProcessDoesNotReadAcknowledgesAllTheSame_C1) {
    auto pair = loopback();
    ASSERT_EQ(tcp_path(pair.client.fd())->unacknowledged_for, 0ms);
    ASSERT_EQ(::send(pair.client.fd(), "hello", 5, 0), 5);
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (tcp_path(pair.client.fd())->unacknowledged_for != 0ms && std::chrono::steady_clock::now() < deadline)
        std::this_thread::yield();
    EXPECT_EQ(tcp_path(pair.client.fd())->unacknowledged_for, 0ms);
    // Nor when its window is closed: probes are answered.
    Bytes block(1 << 20);
    while (::send(pair.client.fd(), block.data(), block.size(), MSG_DONTWAIT) > 0) {
    }
    while (tcp_path(pair.client.fd())->unacknowledged_for != 0ms && std::chrono::steady_clock::now() < deadline)
        std::this_thread::yield();
    EXPECT_EQ(tcp_path(pair.client.fd())->unacknowledged_for, 0ms);
}

TEST(Socket, ConnectionsWithinAMachineAreNotPaced_B3) {
    auto pair = loopback();
    for (const int fd : {pair.client.fd(), pair.server.fd()}) {
        tune_stream_socket(fd);
        std::array<char, 16> control{};
        socklen_t size = control.size();
        ASSERT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control.data(), &size), 0);
        EXPECT_STREQ(control.data(), "reno");
    }
}

TEST(Socket, PeersFarAwayAreReachedByBbr_B6) {
    EXPECT_STREQ(congestion_control_for(true, 50'000), "reno");
    EXPECT_STREQ(congestion_control_for(false, 2'000), "bbr");
    EXPECT_EQ(congestion_control_for(false, 1'999), nullptr);
    EXPECT_EQ(congestion_control_for(false, 0), nullptr) << "a distance that is not known";
    use_bbr(false);
    EXPECT_EQ(congestion_control_for(false, 50'000), nullptr);
    EXPECT_STREQ(congestion_control_for(true, 50'000), "reno");
    use_bbr(true);
}

TEST(Socket, WhatIsSentOverAUnixSocketHasArrived_B9) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    Socket one(ends[0]), other(ends[1]);
    ASSERT_EQ(::send(one.fd(), "hello", 5, 0), 5);
    ASSERT_TRUE(tcp_path(one.fd()).has_value());
    EXPECT_EQ(tcp_path(one.fd())->unacknowledged_for, 0ms);
    EXPECT_EQ(tcp_path(one.fd())->capacity_bytes, 0u);
}

struct EndpointCase {
    const char* text;
    const char* host;  // nullptr: refused
    uint16_t port;
};

TEST(Endpoint, IsReadAsUsersWriteIt) {
    const EndpointCase cases[] = {
        {"gpu1", "gpu1", k_default_port},
        {"gpu1.example.com:9000", "gpu1.example.com", 9000},
        {"10.0.0.7:1", "10.0.0.7", 1},
        {"[::1]:14833", "::1", 14833},
        {"[fe80::1]", "fe80::1", k_default_port},
        {"fe80::1", "fe80::1", k_default_port},
        {"", nullptr, 0},
        {":14833", nullptr, 0},
        {"gpu1:", nullptr, 0},
        {"gpu1:0", nullptr, 0},
        {"gpu1:65536", nullptr, 0},
        {"gpu1:70x", nullptr, 0},
        {"gpu 1:70", nullptr, 0},
        {"https://gpu1", nullptr, 0},
        {"[::1", nullptr, 0},
        {"[::1]14833", nullptr, 0},
        {"[::1]:", nullptr, 0},
        {"gpus[10.0.0.7]:9000", "gpus", 9000},
        {"gpus[10.0.0.7]", "gpus", k_default_port},
        {"gpus[10.0.0.7 ::1]:9000", "gpus", 9000},
        {"gpus[]:9000", nullptr, 0},
        {"gpus[gpu1]:9000", nullptr, 0},
        {"gpus[10.0.0.7  ::1]:9000", nullptr, 0},
        {"gpus]10.0.0.7[:9000", nullptr, 0},
    };
    for (const EndpointCase& expected : cases) {
        auto endpoint = parse_endpoint(expected.text);
        ASSERT_EQ(endpoint.ok(), expected.host != nullptr) << expected.text;
        if (!endpoint.ok()) {
            EXPECT_EQ(endpoint.error().code, Code::bad_argument);
            continue;
        }
        EXPECT_EQ(endpoint->host, expected.host) << expected.text;
        EXPECT_EQ(endpoint->port, expected.port) << expected.text;
    }
    EXPECT_EQ((Endpoint{"::1", 7}).to_string(), "[::1]:7");
    const auto placed = parse_endpoint("gpus[10.0.0.7 ::1]:9000");
    EXPECT_EQ(placed->addresses, (std::vector<std::string>{"10.0.0.7", "::1"}));
    EXPECT_EQ(placed->to_string(), "gpus[10.0.0.7 ::1]:9000");
}

TEST(Connect, SaysThatNobodyListens) {
    std::string why;
    uint16_t free_port;
    {
        auto listener = Listener::open("127.0.0.1", 0, why);
        ASSERT_TRUE(listener.ok()) << why;
        free_port = listener->port();
    }
    auto socket = dial({"127.0.0.1", free_port}, 5s, why);
    EXPECT_EQ(socket.error().code, Code::connect_refused);
    EXPECT_NE(why.find("connection refused"), std::string::npos) << why;
    EXPECT_NE(why.find("127.0.0.1:" + std::to_string(free_port)), std::string::npos) << why;
}

TEST(Connect, SaysThatThereIsNoSuchName) {
    std::string why;
    auto socket = dial({"no-such-host.invalid", 14833}, 5s, why);
    EXPECT_EQ(socket.error().code, Code::connect_refused);
    EXPECT_NE(why.find("no such host name"), std::string::npos) << why;
}

TEST(Connect, DialsTheAddressesThatAreKnown) {
    std::string why;
    auto listener = Listener::open("127.0.0.1", 0, why);
    ASSERT_TRUE(listener.ok()) << why;
    // Nobody listens at the first one; the name itself is nowhere.
    auto socket = dial({"no-such-host.invalid", listener->port(), {"127.0.0.2", "127.0.0.1"}}, 5s, why);
    ASSERT_TRUE(socket.ok()) << why;
    EXPECT_EQ(socket->peer_address(), "127.0.0.1:" + std::to_string(listener->port()));
}

TEST(Connect, GivesUpInTime) {
    // A listener whose queue is full drops what comes: nobody answers.
    Socket full(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::listen(full.fd(), 0), 0);
    sockaddr_in address{};
    socklen_t length = sizeof address;
    ASSERT_EQ(::getsockname(full.fd(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    std::vector<Socket> fillers;
    for (int i = 0; i < 3; ++i) {
        fillers.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        (void)::connect(fillers.back().fd(), reinterpret_cast<sockaddr*>(&address), sizeof address);
    }
    std::string why;
    auto socket = dial({"127.0.0.1", ntohs(address.sin_port)}, 200ms, why);
    EXPECT_EQ(socket.error().code, Code::deadline);
    EXPECT_NE(why.find("no answer in time"), std::string::npos) << why;
}

TEST(Listener, AcceptsAndStops) {
    std::string why;
    auto listener = Listener::open("127.0.0.1", 0, why);
    ASSERT_TRUE(listener.ok()) << why;
    EXPECT_NE(listener->port(), 0);
    auto accepted = std::async(std::launch::async, [&] { return listener->accept(); });
    auto client = dial({"127.0.0.1", listener->port()}, 5s, why);
    ASSERT_TRUE(client.ok()) << why;
    auto server = accepted.get();
    ASSERT_TRUE(server.ok());
    EXPECT_EQ(client->peer_address(), "127.0.0.1:" + std::to_string(listener->port()));
    EXPECT_EQ(server->peer_address().substr(0, 10), "127.0.0.1:");
    auto ended = std::async(std::launch::async, [&] { return listener->accept().error().code; });
    listener->stop();
    EXPECT_EQ(ended.get(), Code::shutting_down);
    EXPECT_EQ(listener->accept().error().code, Code::shutting_down);
}

TEST(Listener, APeerThatHasLeftStillHasAName) {
    std::string why;
    auto listener = Listener::open("127.0.0.1", 0, why);
    ASSERT_TRUE(listener.ok()) << why;
    auto client = dial({"127.0.0.1", listener->port()}, 5s, why);
    auto server = listener->accept();
    ASSERT_TRUE(client.ok() && server.ok());
    const linger at_once{1, 0};
    ASSERT_EQ(::setsockopt(client->fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    client->close();
    std::array<std::byte, 1> byte{};
    EXPECT_FALSE(server->read_exact(byte, 5s).ok());
    EXPECT_EQ(server->peer_address(), "a peer that has left");
}

TEST(Listener, SaysThatThePortIsInUse) {
    std::string why;
    auto first = Listener::open("127.0.0.1", 0, why);
    ASSERT_TRUE(first.ok());
    auto second = Listener::open("127.0.0.1", first->port(), why);
    EXPECT_EQ(second.error().code, Code::io);
    EXPECT_NE(why.find("the port is in use"), std::string::npos) << why;
    auto elsewhere = Listener::open("203.0.113.1", 0, why);
    EXPECT_EQ(elsewhere.error().code, Code::io);
    EXPECT_NE(why.find("203.0.113.1"), std::string::npos) << why;
}

TEST(Socket, ReadsExactlyAndInTime) {
    auto [client, server] = loopback();
    Bytes sent = test::pattern(100000);
    auto writer = std::async(std::launch::async, [&, &client = client] { return client.write_all(sent, 5s).ok(); });
    Bytes got(sent.size());
    ASSERT_TRUE(server.read_exact(got, 5s).ok());
    EXPECT_TRUE(writer.get());
    EXPECT_EQ(got, sent);
    EXPECT_EQ(server.read_exact(MutableBytesView(got).first(1), 20ms).error().code, Code::deadline);
    client.close();
    EXPECT_EQ(server.read_exact(MutableBytesView(got).first(1), 5s).error().code, Code::connection_lost);
}

TEST(Socket, AWriteThatNobodyReadsEndsInTime) {
    auto [client, server] = loopback();
    Bytes endless(64u << 20);
    EXPECT_EQ(client.write_all(endless, 100ms).error().code, Code::deadline);
}

TEST(Descriptors, TravelBetweenProcesses) {
    Socket parent, child;
    ASSERT_TRUE(make_unix_pair(parent, child).ok());
    auto [client, server] = loopback();
    int original = server.fd();
    ASSERT_TRUE(send_fd(parent.fd(), server.fd(), as_bytes("session 7")).ok());
    server.close();
    Bytes message;
    auto received = receive_fd(child.fd(), message, 100);
    ASSERT_TRUE(received.ok() && received->valid());
    EXPECT_EQ(as_text(message), "session 7");
    (void)original;
    ASSERT_TRUE(client.write_all(as_bytes("hello"), 5s).ok());
    Bytes hello(5);
    ASSERT_TRUE(received->read_exact(hello, 5s).ok());
    EXPECT_EQ(as_text(hello), "hello");
}

TEST(Descriptors, MessagesWithoutOneAndTheEndAreTold) {
    Socket parent, child;
    ASSERT_TRUE(make_unix_pair(parent, child).ok());
    ASSERT_EQ(::send(parent.fd(), "note", 4, 0), 4);
    Bytes message;
    auto none = receive_fd(child.fd(), message, 100);
    ASSERT_TRUE(none.ok());
    EXPECT_FALSE(none->valid());
    EXPECT_EQ(as_text(message), "note");
    ASSERT_EQ(::send(parent.fd(), "too long", 8, 0), 8);
    EXPECT_EQ(receive_fd(child.fd(), message, 4).error().code, Code::malformed);
    parent.close();
    EXPECT_EQ(receive_fd(child.fd(), message, 100).error().code, Code::connection_lost);
    EXPECT_EQ(send_fd(child.fd(), 0, as_bytes("x")).error().code, Code::connection_lost);
}

}  // namespace
}  // namespace warpline::net
