// Connections without TLS: who is let in, and that bytes and descriptors get there.
#include "common/net/plain_channel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "tests/unit/net/tls_pair.h"

namespace warpline::net {
namespace {

using namespace std::chrono_literals;
using ChannelPtr = std::unique_ptr<Channel>;
using test::read_bytes;

struct UnixSockets {
    UnixSockets() {
        int ends[2];
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        client = Socket(ends[0]);
        server = Socket(ends[1]);
    }
    Socket client, server;
};

PresharedKey key_with(uint8_t byte) {
    PresharedKey key;
    key.key.fill(std::byte{byte});
    return key;
}

struct Meeting {
    Result<ChannelPtr> client, server;
    std::string client_why, server_why;
};

/// Both ends at the same time. @param offers  the client's key
template <typename Accept>
Meeting meet(const std::optional<PresharedKey>& offers, Accept accept) {
    UnixSockets sockets;
    Meeting outcome{Error{}, Error{}, "", ""};
    auto server = std::async(std::launch::async, [&] { return accept(std::move(sockets.server), outcome.server_why); });
    outcome.client = PlainChannel::connect(std::move(sockets.client), offers, 5s, outcome.client_why);
    outcome.server = server.get();
    return outcome;
}

Meeting meet_by_key(uint8_t offered, uint8_t wanted) {
    return meet(key_with(offered), [&](Socket socket, std::string& why) {
        return PlainChannel::accept_key(std::move(socket), key_with(wanted), 5s, why);
    });
}

Meeting meet_as_user(const PlainChannel::WhoIs& who_is, const std::optional<PresharedKey>& offers = std::nullopt) {
    return meet(offers, [&](Socket socket, std::string& why) {
        return PlainChannel::accept_user(std::move(socket), who_is, offers.has_value(), 5s, why);
    });
}

Result<std::string> call_alice(const PeerUser&, std::string&) { return std::string("alice"); }

TEST(PlainChannel, AUserIsWhoTheKernelSays_B9) {
    PeerUser seen;
    const auto met = meet_as_user([&](const PeerUser& user, std::string& why) {
        seen = user;
        return call_alice(user, why);
    });
    ASSERT_TRUE(met.client.ok()) << met.client_why;
    ASSERT_TRUE(met.server.ok()) << met.server_why;
    EXPECT_EQ(seen.user, ::getuid());
    EXPECT_EQ((*met.server)->peer_name(), "alice");
    EXPECT_FALSE((*met.client)->proved_by_key());
    EXPECT_EQ((*met.client)->cipher(), "");
}

TEST(PlainChannel, WhoIsRefusedHearsWhy_B9) {
    const auto met = meet_as_user([](const PeerUser&, std::string& why) -> Result<std::string> {
        why = "user 7 has no place here";
        return Error{Code::denied, "no"};
    });
    EXPECT_EQ(met.server.error().code, Code::auth_failed);
    EXPECT_EQ(met.client.error().code, Code::auth_failed);
    EXPECT_EQ(met.client_why, "the server refuses: user 7 has no place here");
}

TEST(PlainChannel, ALaneIsProvedByTheSessionsKey_B9) {
    const auto good = meet_by_key(7, 7);
    ASSERT_TRUE(good.client.ok() && good.server.ok()) << good.client_why << good.server_why;
    EXPECT_TRUE((*good.client)->proved_by_key());
    EXPECT_TRUE((*good.server)->proved_by_key());
    const auto bad = meet_by_key(7, 8);
    EXPECT_EQ(bad.server.error().code, Code::auth_failed);
    EXPECT_EQ(bad.client.error().code, Code::auth_failed);
    // The session has gone, and the door answers in its place.
    const auto gone = meet_as_user(call_alice, key_with(7));
    ASSERT_TRUE(gone.client.ok()) << gone.client_why;
    EXPECT_FALSE((*gone.client)->proved_by_key());
}

TEST(PlainChannel, IsForUnixSocketsOnly_B9) {
    auto pair = test::loopback();
    std::string why;
    EXPECT_EQ(PlainChannel::connect(std::move(pair.client), std::nullopt, 1s, why).error().code, Code::bad_argument);
    EXPECT_EQ(PlainChannel::accept_user(std::move(pair.server), call_alice, false, 1s, why).error().code, Code::bad_argument);
}

TEST(PlainChannel, MuchGetsThereInManyPieces_B9) {
    auto met = meet_by_key(1, 1);
    Channel& from = **met.client;
    Channel& to = **met.server;
    Bytes sent(5'000'000);
    for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 131 + (i >> 12));
    auto received = std::async(std::launch::async, [&] { return read_bytes(to, sent.size()); });
    std::vector<BytesView> pieces;
    for (size_t at = 0, size = 1; at < sent.size(); at += size, size = size * 3 % 70'001 + 1)
        pieces.push_back(BytesView(sent).subspan(at, std::min(size, sent.size() - at)));
    // Half of it without waiting for the socket: what it does not take stays behind until finish_write().
    const std::span<const BytesView> all(pieces);
    const auto begun = from.write_some(all.first(pieces.size() / 2));
    ASSERT_TRUE(begun.ok() && from.finish_write().ok());
    ASSERT_TRUE(from.write(all.subspan(pieces.size() / 2)).ok());
    const auto got = received.get();
    ASSERT_TRUE(got.ok());
    EXPECT_TRUE(*got == sent);
    EXPECT_EQ(to.wire_bytes_received(), sent.size());
    from.send_end();
    std::byte one;
    EXPECT_EQ(to.read({&one, 1}).error().code, Code::connection_lost);
    EXPECT_TRUE(to.ended_by_peer());
}

TEST(PlainChannel, ShutdownWakesTheReader_B9) {
    auto met = meet_by_key(1, 1);
    Channel& reader = **met.client;
    auto read = std::async(std::launch::async, [&] {
        std::byte one;
        return reader.read({&one, 1});
    });
    reader.shutdown();
    EXPECT_EQ(read.get().error().code, Code::connection_lost);
    EXPECT_FALSE(reader.ended_by_peer());
    EXPECT_EQ(reader.explain(), "the connection was closed here");
}

TEST(PlainChannel, ADescriptorComesWithWhatIsWritten_B9) {
    auto met = meet_by_key(1, 1);
    Channel& from = **met.server;
    Channel& to = **met.client;
    const auto some_file = [] { return Socket(::memfd_create("test", MFD_CLOEXEC)); };
    to.accept_descriptor();
    Socket file = some_file();
    ASSERT_EQ(::write(file.fd(), "here", 4), 4);
    from.pass_descriptor(std::move(file));
    ASSERT_TRUE(test::write_bytes(from, as_bytes("hello")).ok());
    ASSERT_TRUE(read_bytes(to, 5).ok());
    const Socket got = to.take_descriptor();
    ASSERT_TRUE(got.valid());
    char text[4] = {};
    EXPECT_EQ(::pread(got.fd(), text, 4, 0), 4);
    EXPECT_EQ(std::string(text, 4), "here");
    EXPECT_TRUE(::fcntl(got.fd(), F_GETFD) & FD_CLOEXEC);
    // One, and no more: a peer that sends others costs nothing.
    from.pass_descriptor(some_file());
    ASSERT_TRUE(test::write_bytes(from, as_bytes("again")).ok());
    ASSERT_TRUE(read_bytes(to, 5).ok());
    EXPECT_FALSE(to.take_descriptor().valid());
}

}  // namespace
}  // namespace warpline::net
