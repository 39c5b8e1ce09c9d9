// Both ends of bulk lanes in one process, over TLS: parts, losses, the end. The command lane has nobody here, so that what
// arrives came over them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <thread>

#include "client/session/bulk_lanes.h"
#include "common/net/socket.h"
#include "common/net/tls.h"
#include "protocol/codec/link.h"
#include "protocol/session/open.h"
#include "protocol/session/resume.h"
#include "server/worker/bulk_lane.h"
#include "tests/unit/protocol/frames.h"

namespace warpline::client {
namespace {

using namespace std::chrono_literals;
using protocol::k_max_bulk_lanes;

constexpr auto k_patience = 20s;
constexpr uint64_t k_call = 1;
constexpr protocol::SessionId k_session{std::byte{1}};

/// The parts of one payload, as they arrive at one side.
class Arrivals {
public:
    void add(const protocol::BulkHeader& part, BytesView bytes) {
        MutexLock lock(m_mutex);
        m_whole.resize(part.total);
        std::copy(bytes.begin(), bytes.end(), m_whole.begin() + static_cast<ptrdiff_t>(part.offset));
        ++m_times[part.offset];
        m_bytes += bytes.size();
        m_changed.notify_all();
    }
    /// False if so much does not come in time.
    bool wait_for(uint64_t bytes) {
        const auto until = std::chrono::steady_clock::now() + k_patience;
        MutexLock lock(m_mutex);
        while (m_bytes < bytes)
            if (!m_changed.wait_until(m_mutex, until)) return false;
        return true;
    }
    Bytes whole() {
        MutexLock lock(m_mutex);
        return m_whole;
    }
    int most_often() {
        MutexLock lock(m_mutex);
        int most = 0;
        for (const auto& [offset, times] : m_times) most = std::max(most, times);
        return most;
    }

private:
    Mutex m_mutex;
    ConditionVariable m_changed;
    Bytes m_whole WL_GUARDED_BY(m_mutex);
    std::map<uint64_t, int> m_times WL_GUARDED_BY(m_mutex);
    uint64_t m_bytes WL_GUARDED_BY(m_mutex) = 0;
};

protocol::OutboxOptions small_parts() {
    protocol::OutboxOptions options;
    options.part_bytes = options.bulk_part_bytes = 16 * 1024;
    options.chunk_bytes = 64 * 1024;
    options.window_bytes = 64 * 1024;
    return options;
}

/// The worker's ends: one thread takes each connection that comes.
class ServerEnd final : private server::BulkLane::Owner {
public:
    ServerEnd() : m_outbox(small_parts()), m_listener(listen()), m_thread([this] { accept(); }) {}
    ~ServerEnd() {
        m_listener.stop();
        m_thread.join();
    }

    uint16_t port() const { return m_listener.port(); }
    protocol::Outbox& outbox() { return m_outbox; }
    Arrivals& arrivals() { return m_arrivals; }
    std::atomic<unsigned> attached{0};  ///< connections that lanes have had
    /// Connections are closed as they come.
    std::atomic<bool> refuses{false};
    /// What the client tells over the command lane. @return what the worker answers
    Result<uint64_t> give_up(uint16_t number, uint64_t received) {
        MutexLock lock(m_mutex);
        const uint64_t has = m_lanes.at(number - 1u)->give_up();
        WL_TRY(m_outbox.give_up(number, received));
        return has;
    }
    static constexpr protocol::SessionKey k_key{std::byte{7}};

private:
    static net::Listener listen() {
        std::string why;
        return net::Listener::open("127.0.0.1", 0, why).value();
    }

    void accept() {
        const auto context = net::TlsContext::create_for_keys(net::TlsRole::server);
        for (auto socket = m_listener.accept(); socket.ok(); socket = m_listener.accept()) {
            std::array<std::byte, protocol::k_preamble_bytes> bytes{};
            if (refuses.load() || !socket->read_exact(bytes, k_patience).ok()) continue;
            const auto preamble = protocol::decode_preamble(bytes);
            ASSERT_TRUE(preamble.ok());
            net::TlsChannel::Options options;
            options.key = net::PresharedKey{k_key, Bytes(bytes.begin(), bytes.end())};
            std::string why;
            auto channel = net::TlsChannel::handshake(*context, std::move(*socket), "", options, why);
            if (channel.ok()) take(preamble->lane, preamble->epoch, std::move(*channel));
        }
        MutexLock lock(m_mutex);
        for (const auto& lane : m_lanes)
            if (lane) lane->stop();
    }
    void take(uint16_t number, uint32_t epoch, std::unique_ptr<net::TlsChannel> channel) {
        const auto until = std::chrono::steady_clock::now() + k_patience;
        const auto frame = protocol::read_resume_frame([&](MutableBytesView into) { return channel->read_exact(into, until); });
        if (!frame.ok()) return;  // it was cut
        const auto request = protocol::decode_resume(*frame);
        ASSERT_TRUE(request.ok());
        EXPECT_EQ(request->session, k_session);
        MutexLock lock(m_mutex);
        auto& lane = m_lanes.at(number - 1u);
        server::BulkLane::Owner& owner = *this;
        if (!lane) lane = std::make_unique<server::BulkLane>(owner, m_outbox, number, protocol::LinkOptions{});
        if (lane->resume(std::move(channel), epoch, *request).ok()) ++attached;
    }

    Result<protocol::Place> place_part(size_t) override { return protocol::Place{}; }
    Result<void> on_part(protocol::Frame frame) override {
        const auto part = WL_TRY(protocol::read_bulk_header(frame.body.view(), frame.payload_view().size()));
        m_arrivals.add(part, frame.payload_view());
        return {};
    }
    void lane_misbehaved(const Error& error) override { ADD_FAILURE() << error.what; }

    protocol::Outbox m_outbox;
    Arrivals m_arrivals;
    Mutex m_mutex;
    std::array<std::unique_ptr<server::BulkLane>, k_max_bulk_lanes> m_lanes WL_GUARDED_BY(m_mutex);
    net::Listener m_listener;
    std::thread m_thread;
};

/// The program's ends.
class ClientEnd final : private BulkLanes::Owner {
public:
    explicit ClientEnd(ServerEnd& server, std::chrono::milliseconds grace = 30s)
        : m_server(server), m_outbox(small_parts()), m_lanes(*this, m_outbox, {{}, grace, 1ms, 5ms}) {
        m_outbox.set_credit({1u << 30, 1000});
    }
    ~ClientEnd() { m_lanes.stop(); }

    BulkLanes& lanes() { return m_lanes; }
    protocol::Outbox& outbox() { return m_outbox; }
    Arrivals& arrivals() { return m_arrivals; }
    /// The connection that a lane has, or is about to have, ends.
    void cut(uint16_t lane) {
        MutexLock lock(m_mutex);
        if (m_beneath.at(lane).fd() >= 0) m_beneath.at(lane).shutdown();
    }
    void wait_until_up(unsigned count) {
        wait_until([&] { return m_lanes.up() == count && m_server.attached >= count; });
    }
    void wait_until_given_up(unsigned count) {
        wait_until([&] { return given_up == count; });
    }
    /// So many attempts find that what comes has been damaged.
    std::atomic<int> damaged{0};
    std::future<std::string> failure() { return m_failed.get_future(); }
    std::atomic<unsigned> given_up{0};

private:
    static void wait_until(const std::function<bool()>& reached) {
        const auto until = std::chrono::steady_clock::now() + k_patience;
        while (!reached() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
        ASSERT_TRUE(reached());
    }
    Result<protocol::Place> place_part(uint16_t, const protocol::BulkHeader&, size_t) override { return protocol::Place{}; }
    Result<void> on_part(uint16_t, const protocol::Frame& frame) override {
        const auto part = WL_TRY(protocol::read_bulk_header(frame.body.view(), frame.payload_view().size()));
        m_arrivals.add(part, frame.payload_view());
        return {};
    }
    void lane_ended(uint16_t) override {}
    Result<std::unique_ptr<net::Channel>> connect_lane(uint16_t lane, uint32_t epoch,
                                                       std::chrono::milliseconds patience) override {
        if (damaged.fetch_sub(1) > 0) return Error{Code::malformed, "what arrives is not TLS"};
        std::string why;
        const auto endpoint = WL_TRY(net::parse_endpoint("127.0.0.1:" + std::to_string(m_server.port())));
        net::Socket socket = WL_TRY(net::dial(endpoint, patience, why));
        {
            MutexLock lock(m_mutex);
            m_beneath.at(lane) = net::Socket(::dup(socket.fd()));
        }
        const auto preamble = protocol::encode_preamble({protocol::Preamble::Kind::lane, k_session, lane, epoch});
        WL_TRY(socket.write_all(preamble, patience));
        net::TlsChannel::Options options;
        options.handshake_timeout = patience;
        options.key = net::PresharedKey{ServerEnd::k_key, Bytes(preamble.begin(), preamble.end())};
        const auto context = WL_TRY(net::TlsContext::create_for_keys(net::TlsRole::client));
        return std::unique_ptr<net::Channel>(
            WL_TRY(net::TlsChannel::handshake(context, std::move(socket), endpoint.host, options, why)));
    }
    void lane_given_up(uint16_t lane, uint64_t received) override {
        const auto has = m_server.give_up(lane, received);
        ASSERT_TRUE(has.ok()) << has.error().what;
        EXPECT_TRUE(m_lanes.server_gave_up(lane, *has).ok());
        EXPECT_EQ(m_lanes.server_gave_up(lane, *has).error().code, Code::malformed) << "a second answer";
        ++given_up;
    }
    void lanes_failed(const Error&, const std::string& why) override { m_failed.set_value(why); }

    ServerEnd& m_server;
    protocol::Outbox m_outbox;
    Arrivals m_arrivals;
    Mutex m_mutex;
    std::array<net::Socket, protocol::k_max_lanes> m_beneath WL_GUARDED_BY(m_mutex);
    std::promise<std::string> m_failed;
    BulkLanes m_lanes;
};

TEST(BulkLanes, CarryAPayloadBothWaysOnce_B3) {
    ServerEnd server;
    ClientEnd client(server);
    client.lanes().open(2, k_session, true);
    client.wait_until_up(2);
    const Bytes up = protocol::test::pattern(3'000'000, 1);
    Bytes down = protocol::test::pattern(3'000'000, 2);
    ASSERT_TRUE(protocol::test::add_long_call(client.outbox(), up, protocol::Lent::until_given_back).ok());
    std::thread sender([&] {
        for (size_t offset = 0; offset < down.size(); offset += 16'000)
            EXPECT_TRUE(
                server.outbox().add_bulk(k_call, offset, down.size(), protocol::test::part_of(down, offset, 16'000)).ok());
    });
    EXPECT_TRUE(server.arrivals().wait_for(up.size()));
    EXPECT_TRUE(client.arrivals().wait_for(down.size()));
    sender.join();
    EXPECT_EQ(server.arrivals().whole(), up);
    EXPECT_EQ(client.arrivals().whole(), down);
    EXPECT_EQ(server.arrivals().most_often(), 1);
    EXPECT_EQ(client.arrivals().most_often(), 1);
    EXPECT_GE(client.lanes().received().bytes, down.size());
    EXPECT_EQ(client.outbox().wire_bytes(protocol::k_command_lane), 0u);
}

TEST(BulkLanes, MoreAreOpenedWhenMoreAreWanted_B6) {
    ServerEnd server;
    ClientEnd client(server);
    client.lanes().open(1, k_session, true);
    client.wait_until_up(1);
    client.lanes().open(3, k_session, true);
    client.wait_until_up(3);
    client.lanes().open(2, k_session, true);
    EXPECT_EQ(client.lanes().up(), 3u) << "none is closed";
    const Bytes up = protocol::test::pattern(3'000'000, 1);
    ASSERT_TRUE(protocol::test::add_long_call(client.outbox(), up, protocol::Lent::until_given_back).ok());
    EXPECT_TRUE(server.arrivals().wait_for(up.size()));
    EXPECT_EQ(server.arrivals().whole(), up);
}

TEST(BulkLanes, WhatALostOneCarriedArrivesOnce_C2) {
    ServerEnd server;
    ClientEnd client(server);
    client.lanes().open(3, k_session, true);
    client.wait_until_up(3);
    const Bytes up = protocol::test::pattern(12'000'000);
    ASSERT_TRUE(protocol::test::add_long_call(client.outbox(), up, protocol::Lent::until_given_back).ok());
    // Each cut after a further part of it has come, wherever that lane is then.
    for (uint16_t i = 0; i < 12; ++i) {
        ASSERT_TRUE(server.arrivals().wait_for(up.size() / 16 * (i + 1u)));
        client.cut(static_cast<uint16_t>(1 + i % 3));
    }
    EXPECT_TRUE(server.arrivals().wait_for(up.size()));
    client.wait_until_up(3);
    EXPECT_EQ(server.arrivals().whole(), up);
    EXPECT_EQ(server.arrivals().most_often(), 1) << "a part took effect twice";
    EXPECT_GT(client.lanes().reconnects(), 0u);
}

TEST(BulkLanes, DamageBeforeTlsProtectsIsNoMisbehaviour_C2) {
    ServerEnd server;
    ClientEnd client(server);
    client.damaged = 5;
    client.lanes().open(2, k_session, true);
    client.wait_until_up(2);
    EXPECT_LE(client.damaged.load(), 0);
}

TEST(BulkLanes, WhatOneCarriedThatDoesNotComeBackArrivesOnce_C2) {
    ServerEnd server;
    ClientEnd client(server, 50ms);
    client.lanes().open(3, k_session, true);
    client.wait_until_up(3);
    EXPECT_EQ(client.lanes().server_gave_up(1, 0).error().code, Code::malformed) << "nobody has given it up";
    const Bytes up = protocol::test::pattern(12'000'000, 1);
    Bytes down = protocol::test::pattern(12'000'000, 2);
    ASSERT_TRUE(protocol::test::add_long_call(client.outbox(), up, protocol::Lent::until_given_back).ok());
    std::thread sender([&] {
        for (size_t offset = 0; offset < down.size(); offset += 16'000)
            EXPECT_TRUE(
                server.outbox().add_bulk(k_call, offset, down.size(), protocol::test::part_of(down, offset, 16'000)).ok());
    });
    ASSERT_TRUE(server.arrivals().wait_for(up.size() / 4));
    ASSERT_TRUE(client.arrivals().wait_for(down.size() / 4));
    server.refuses = true;
    for (const uint16_t lane : {uint16_t{1}, uint16_t{2}}) client.cut(lane);
    EXPECT_TRUE(server.arrivals().wait_for(up.size()));
    EXPECT_TRUE(client.arrivals().wait_for(down.size()));
    sender.join();
    client.wait_until_given_up(2);
    EXPECT_EQ(server.arrivals().whole(), up);
    EXPECT_EQ(client.arrivals().whole(), down);
    EXPECT_EQ(server.arrivals().most_often(), 1) << "a part took effect twice";
    EXPECT_EQ(client.arrivals().most_often(), 1) << "a part took effect twice";
}

TEST(BulkLanes, OneThatDoesNotComeBackEndsASessionWithAServerThatNeedsIt_C2) {
    ServerEnd server;
    ClientEnd client(server, 50ms);
    auto failed = client.failure();
    client.lanes().open(1, k_session, false);
    client.wait_until_up(1);
    server.refuses = true;
    client.cut(1);
    ASSERT_EQ(failed.wait_for(k_patience), std::future_status::ready);
    EXPECT_NE(failed.get().find("did not come back"), std::string::npos);
}

TEST(BulkLanes, EndWhileTheyAreOpened_C2) {
    for (int i = 0; i < 5; ++i) {
        ServerEnd server;
        server.refuses = i % 2 == 0;
        ClientEnd client(server);
        client.lanes().open(k_max_bulk_lanes, k_session, true);
        client.lanes().stop();
        EXPECT_EQ(client.lanes().threads(), 0u);
        client.lanes().open(1, k_session, true);
        EXPECT_EQ(client.lanes().threads(), 0u) << "it was stopped for good";
    }
}

}  // namespace
}  // namespace warpline::client
