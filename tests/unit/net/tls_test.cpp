// Tests of TLS connections.
#include <sys/socket.h>

#include <thread>

#include "tests/unit/net/tls_pair.h"

namespace warpline::net {
namespace {

using namespace std::chrono_literals;
using namespace test;

TEST(Tls, IsMutualAndNamesTheTenant_F1) {
    Pair pair = good_pair();
    EXPECT_EQ(pair.server.channel->peer_name(), "tenant-a");
    EXPECT_EQ(pair.client.channel->peer_name(), "server");
    EXPECT_EQ(pair.client.channel->cipher().substr(0, 4), "TLS_");
    ASSERT_TRUE(write_bytes(*pair.client.channel, as_bytes("ping")).ok());
    EXPECT_EQ(as_text(*read_bytes(*pair.server.channel, 4)), "ping");
    ASSERT_TRUE(write_bytes(*pair.server.channel, as_bytes("pong")).ok());
    EXPECT_EQ(as_text(*read_bytes(*pair.client.channel, 4)), "pong");
}

TEST(Tls, WorksOnADescriptorFromAnotherProcess_F1) {
    Sockets sockets = loopback();
    Socket supervisor, worker;
    ASSERT_TRUE(make_unix_pair(supervisor, worker).ok());
    ASSERT_TRUE(send_fd(supervisor.fd(), sockets.server.fd(), as_bytes("x")).ok());
    sockets.server.close();
    auto server = std::async(std::launch::async, [&] {
        Bytes message;
        auto adopted = receive_fd(worker.fd(), message, 10);
        return shake(context(TlsRole::server, server_credentials()), std::move(adopted).value(), "");
    });
    Outcome client = shake(context(TlsRole::client, client_credentials()), std::move(sockets.client), "localhost");
    ASSERT_TRUE(client.channel) << client.why;
    Outcome accepted = server.get();
    ASSERT_TRUE(accepted.channel) << accepted.why;
    ASSERT_TRUE(write_bytes(*client.channel, as_bytes("hello")).ok());
    EXPECT_EQ(as_text(*read_bytes(*accepted.channel, 5)), "hello");
}

TEST(Tls, GathersPiecesOfAllSizes) {
    Pair pair = good_pair();
    std::vector<size_t> sizes = {1, 48, 200, 16384, 3, 0, 16383, 16385, 300000, 7, 65536, 1};
    std::vector<Bytes> parts;
    Bytes all;
    for (size_t size : sizes) {
        parts.push_back(pattern(size, static_cast<uint8_t>(parts.size())));
        all.insert(all.end(), parts.back().begin(), parts.back().end());
    }
    std::vector<BytesView> views(parts.begin(), parts.end());
    auto writer = std::async(std::launch::async, [&] { return pair.client.channel->write(views).ok(); });
    EXPECT_EQ(*read_bytes(*pair.server.channel, all.size()), all);
    EXPECT_TRUE(writer.get());
}

TEST(Tls, IsFullDuplex_B3) {
    Pair pair = good_pair();
#if defined(WARPLINE_THREAD_SANITIZER)
    constexpr size_t k_total = 32u << 20;  // the sanitizer looks at every byte
#else
    constexpr size_t k_total = 256u << 20;
#endif
    Bytes block = pattern(1 << 20);
    auto send_all = [&](TlsChannel& channel) {
        for (size_t sent = 0; sent < k_total; sent += block.size())
            if (!write_bytes(channel, block).ok()) return false;
        return true;
    };
    auto receive_all = [&](TlsChannel& channel) {
        Bytes into(block.size());
        for (size_t got = 0; got < k_total; got += into.size()) {
            for (size_t have = 0; have < into.size();) {
                auto count = channel.read(MutableBytesView(into).subspan(have));
                if (!count.ok()) return false;
                have += *count;
            }
            if (into != block) return false;
        }
        return true;
    };
    auto a = std::async(std::launch::async, send_all, std::ref(*pair.client.channel));
    auto b = std::async(std::launch::async, send_all, std::ref(*pair.server.channel));
    auto c = std::async(std::launch::async, receive_all, std::ref(*pair.client.channel));
    EXPECT_TRUE(receive_all(*pair.server.channel));
    EXPECT_TRUE(a.get());
    EXPECT_TRUE(b.get());
    EXPECT_TRUE(c.get());
}

TEST(Tls, RenewsItsKeys_F1) {
    TlsChannel::Options options;
    options.rekey_bytes = 100000;
    Pair pair = good_pair(options);
    Bytes data = pattern(3 << 20);
    for (TlsChannel* from : {pair.client.channel.get(), pair.server.channel.get()}) {
        TlsChannel* to = from == pair.client.channel.get() ? pair.server.channel.get() : pair.client.channel.get();
        auto writer = std::async(std::launch::async, [&] {
            for (size_t at = 0; at < data.size(); at += 65536)
                if (!write_bytes(*from, BytesView(data).subspan(at, 65536)).ok()) return false;
            return true;
        });
        EXPECT_EQ(*read_bytes(*to, data.size()), data);
        EXPECT_TRUE(writer.get());
    }
}

TEST(Tls, WriteSomeKeepsWhatTheSocketDoesNotTake) {
    Pair pair = good_pair();
    Bytes data = pattern(32 << 20);
    BytesView view = data;
    auto all = pair.client.channel->write_some({&view, 1});
    ASSERT_TRUE(all.ok());
    EXPECT_FALSE(*all) << "the socket took 32 MiB at once, nobody reading";
    std::fill(data.begin(), data.end(), std::byte{0});
    auto rest = std::async(std::launch::async, [&] {
        return pair.client.channel->finish_write().ok() && write_bytes(*pair.client.channel, as_bytes("end")).ok();
    });
    EXPECT_TRUE(*read_bytes(*pair.server.channel, data.size()) == pattern(32 << 20));
    EXPECT_EQ(as_text(*read_bytes(*pair.server.channel, 3)), "end");
    EXPECT_TRUE(rest.get());
}

TEST(Tls, ReadTellsWhenTimePasses_C1) {
    Pair pair = good_pair();
    pair.client.channel->set_read_tick(10ms);
    Bytes into(10);
    auto count = pair.client.channel->read(into);
    ASSERT_TRUE(count.ok());
    EXPECT_EQ(*count, 0u);
}

TEST(Tls, ReadTellsOfBytesThatAreNoRecordYet_C1) {
    Pair pair = good_pair();
    TlsChannel& client = *pair.client.channel;
    client.set_read_tick(10s);
    uint64_t before = client.wire_bytes_received();
    // The head of a record of 4 KiB, and then parts of it: never all.
    const std::string head("\x17\x03\x03\x10\x00", 5);
    Bytes into(10);
    for (std::string_view part : {std::string_view(head), std::string_view("part"), std::string_view("another part")}) {
        ASSERT_EQ(::send(pair.server.channel->fd(), part.data(), part.size(), 0), static_cast<ssize_t>(part.size()));
        auto count = client.read(into);
        ASSERT_TRUE(count.ok());
        EXPECT_EQ(*count, 0u);
        EXPECT_EQ(client.wire_bytes_received() - before, part.size());
        before = client.wire_bytes_received();
    }
}

TEST(Tls, ShutdownWakesReaderAndWriter) {
    Pair pair = good_pair();
    TlsChannel& channel = *pair.client.channel;
    auto reader = std::async(std::launch::async, [&] { return read_bytes(channel, 1).error().code; });
    auto writer = std::async(std::launch::async, [&] {
        Bytes block(1 << 20);
        for (;;) {
            auto written = write_bytes(channel, block);
            if (!written.ok()) return written.error().code;
        }
    });
    // Both are sure to be stuck in the end, whenever this happens: nobody sends and nobody reads.
    channel.shutdown();
    channel.shutdown();
    EXPECT_EQ(reader.get(), Code::connection_lost);
    EXPECT_EQ(writer.get(), Code::connection_lost);
    EXPECT_EQ(channel.explain(), "the connection was closed here");
}

TEST(Tls, TellsTheEndOfTheOtherSide) {
    Pair pair = good_pair();
    ASSERT_TRUE(write_bytes(*pair.server.channel, as_bytes("last")).ok());
    pair.server.channel->send_end();
    EXPECT_EQ(as_text(*read_bytes(*pair.client.channel, 4)), "last");
    EXPECT_EQ(read_bytes(*pair.client.channel, 1).error().code, Code::connection_lost);
    EXPECT_NE(pair.client.channel->explain().find("has closed the connection"), std::string::npos)
        << pair.client.channel->explain();
    // The other direction still works.
    ASSERT_TRUE(write_bytes(*pair.client.channel, as_bytes("answer")).ok());
    EXPECT_EQ(as_text(*read_bytes(*pair.server.channel, 6)), "answer");
}

TEST(Tls, AnAbruptEndIsAConnectionLost_C1) {
    Pair pair = good_pair();
    linger reset{1, 0};
    ASSERT_EQ(::setsockopt(pair.server.channel->fd(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
    pair.server.channel.reset();
    EXPECT_EQ(read_bytes(*pair.client.channel, 1).error().code, Code::connection_lost);
    EXPECT_FALSE(pair.client.channel->explain().empty());
    Result<void> written;
    Bytes block(1 << 20);
    for (int i = 0; i < 100 && written.ok(); ++i) written = write_bytes(*pair.client.channel, block);
    EXPECT_EQ(written.error().code, Code::connection_lost);
}

TEST(Tls, GarbageInTheMiddleIsMalformed_F3) {
    Pair pair = good_pair();
    Bytes garbage = pattern(1000);
    ASSERT_EQ(::send(pair.client.channel->fd(), garbage.data(), garbage.size(), 0), 1000);
    EXPECT_EQ(read_bytes(*pair.server.channel, 1).error().code, Code::malformed);
}

TEST(Tls, AForgedRecordEndsTheConnectionAndNothingElse_F3) {
    Pair pair = good_pair();
    Bytes record = pattern(5 + 100);
    record[0] = std::byte{23};  // application data, with a tag that cannot be right
    record[1] = std::byte{3};
    record[2] = std::byte{3};
    record[3] = std::byte{0};
    record[4] = std::byte{100};
    ASSERT_EQ(::send(pair.client.channel->fd(), record.data(), record.size(), 0), 105);
    EXPECT_EQ(read_bytes(*pair.server.channel, 1).error().code, Code::connection_lost);
}

}  // namespace
}  // namespace warpline::net
