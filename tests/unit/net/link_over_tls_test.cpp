// Protocol and transport together, as client and server use them.
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "protocol/codec/call_receiver.h"
#include "tests/unit/net/link_end.h"

namespace warpline {
namespace {

using namespace std::chrono_literals;
using namespace net::test;
using protocol::Frame;
using protocol::FrameKind;

TEST(LinkOverTls, FramesArriveInOrderBothWays_B1) {
    auto pair = good_pair();
    End client(std::move(pair.client.channel)), server(std::move(pair.server.channel));
    ASSERT_TRUE(client.pump.start().ok() && server.pump.start().ok());
    constexpr uint64_t k_count = 2000;
    auto send = [&](End& end) {
        for (uint64_t i = 0; i < k_count; ++i) {
            // Both ways of sending, mixed.
            auto urgency = i % 3 == 0 ? protocol::Urgency::caller : protocol::Urgency::writer;
            if (!send_host_call(end, i, urgency).ok()) return false;
            if (urgency == protocol::Urgency::caller) end.pump.flush();
        }
        return true;
    };
    auto other = std::async(std::launch::async, send, std::ref(server));
    EXPECT_TRUE(send(client));
    EXPECT_TRUE(other.get());
    for (End* end : {&client, &server}) {
        end->wait_for_frames(k_count);
        MutexLock lock(end->mutex);
        ASSERT_EQ(end->frames.size(), k_count);
        for (uint64_t i = 0; i < k_count; ++i) ASSERT_EQ(host_call_id(end->frames[i]), i);
    }
}

TEST(LinkOverTls, ManyThreadsFlushAtOnce_B2) {
    auto pair = good_pair();
    End client(std::move(pair.client.channel)), server(std::move(pair.server.channel));
    ASSERT_TRUE(client.pump.start().ok() && server.pump.start().ok());
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < 4; ++t) {
        threads.emplace_back([&client, t] {
            for (uint64_t i = 0; i < 500; ++i) {
                EXPECT_TRUE(send_host_call(client, t, protocol::Urgency::caller).ok());
                client.pump.flush();
            }
        });
    }
    for (auto& thread : threads) thread.join();
    server.wait_for_frames(2000);
    EXPECT_EQ(server.frame_count(), 2000u);
}

// The server's side of a session as small as it can be: counts calls, takes streamed payloads, gives credit back.
struct SmallServer {
    explicit SmallServer(std::unique_ptr<net::TlsChannel> channel, protocol::CreditLimits limits)
        : receiver(limits), end(std::move(channel)) {
        end.handle = [this](Frame frame) { return handle(std::move(frame)); };
    }
    ~SmallServer() {
        end.pump.stop();
        end.pump.join();
        receiver.fail(Error{Code::shutting_down, "end of test"});
        for (auto& thread : executors) thread.join();
    }
    Result<void> handle(Frame frame) {
        if (frame.header.kind == FrameKind::bulk) return receiver.accept_bulk(std::move(frame));
        if (frame.header.kind != FrameKind::batch) return Error{Code::malformed, "not expected"};
        auto unit = WL_TRY(receiver.accept_batch(std::move(frame)));
        if (unit.stream) {
            executors.emplace_back([this, unit = std::move(unit)] { execute_stream(unit); });
        } else {
            calls += unit.calls;
            report(receiver.grant().done(unit.cost_bytes, unit.calls));
        }
        return {};
    }
    void execute_stream(const protocol::CallReceiver::Unit& unit) {
        size_t at = 0;
        for (;;) {
            auto part = unit.stream->next();
            if (!part.ok() || part->empty()) break;
            for (size_t i = 0; i < part->size(); i += 4099) good = good && part->view().data()[i] == expected[at + i];
            at += part->size();
            if (on_part) on_part();
            report(receiver.grant().done(part->size(), 0));
        }
        streamed += at;
        calls += unit.calls;
        report(receiver.grant().done(unit.cost_bytes, unit.calls));
        auto progress = receiver.grant().report();
        (void)end.link.outbox().add_message<wire::Reply>(FrameKind::reply, protocol::k_reply_words,
                                                         [&](wire::Reply::Builder reply) {
                                                             reply.initProgress().setCalls(progress.calls);
                                                             reply.getProgress().setBytes(progress.bytes);
                                                         });
    }
    void report(std::optional<protocol::CreditGrant::Progress> progress) {
        if (!progress) return;
        (void)end.link.outbox().add_message<wire::Event>(FrameKind::event, k_event_words, [&](wire::Event::Builder event) {
            auto out = event.initProgress();
            out.setCalls(progress->calls);
            out.setBytes(progress->bytes);
        });
    }

    Bytes expected;
    std::function<void()> on_part;  ///< of a streamed payload; called by its executor
    std::atomic<uint64_t> calls{0};
    std::atomic<uint64_t> streamed{0};
    std::atomic<bool> good{true};
    protocol::CallReceiver receiver;
    std::vector<std::thread> executors;
    End end;
};

TEST(LinkOverTls, CallsFlowWithinASmallCredit_B2) {
    auto pair = good_pair();
    protocol::CreditLimits limits{20000, 100};
    End client(std::move(pair.client.channel));
    SmallServer server(std::move(pair.server.channel), limits);
    client.link.outbox().set_credit(limits);
    ASSERT_TRUE(client.pump.start().ok() && server.end.pump.start().ok());
    for (uint64_t i = 0; i < 20000; ++i) {
        auto number = client.link.outbox().add_call<wire::HostCall>(
            protocol::CallHeader{}, 4, [&](wire::HostCall::Builder args) { args.setId(i); }, [](uint64_t) {});
        ASSERT_TRUE(number.ok()) << number.error().what;
    }
    EXPECT_GE(server.calls + 100, 20000u);
}

TEST(LinkOverTls, StreamsALargeCopyWithBoundedMemory_B3) {
    auto pair = good_pair();
    protocol::CreditLimits limits{8u << 20, 100};
    End client(std::move(pair.client.channel));
    SmallServer server(std::move(pair.server.channel), limits);
    server.expected = pattern(64u << 20);
    client.link.outbox().set_credit(limits);
    std::atomic<size_t> most_queued{0};
    std::atomic<bool> sender_waited{false};
    server.on_part = [&] {
        // At the first part nothing is given back until the sender has used up what it may send.
        for (; !sender_waited; std::this_thread::yield()) sender_waited = client.link.outbox().has_waiters();
        most_queued = std::max(most_queued.load(), client.link.outbox().queued_bytes());
    };
    ASSERT_TRUE(client.pump.start().ok() && server.end.pump.start().ok());
    Bytes payload = server.expected;
    auto number = client.link.outbox().add_streamed_call<wire::HostCall>(
        protocol::CallHeader{}, 4, [](wire::HostCall::Builder) {}, [](uint64_t) {}, payload);
    ASSERT_TRUE(number.ok()) << number.error().what;
    client.wait_for_frames(1);  // the reply
    EXPECT_EQ(server.streamed, payload.size());
    EXPECT_TRUE(server.good);
    EXPECT_LE(most_queued.load(), (8u << 20) + 10000);
}

TEST(LinkOverTls, ALargeAnswerGoesStraightIntoItsPlace_B3) {
    auto pair = good_pair();
    protocol::LinkOptions options;
    options.fits_link = false;  // so that the number of parts is known: they are smaller where the link is slow
    End client(std::move(pair.client.channel)), server(std::move(pair.server.channel), options);
    Bytes payload = pattern((64u << 20) + 77);
    client.place.resize(payload.size());
    ASSERT_TRUE(client.pump.start().ok() && server.pump.start().ok());
    ASSERT_TRUE(server.link.outbox().send_payload(1, payload).ok());
    ASSERT_TRUE(send_host_call(server, 1).ok());
    const size_t part_bytes = options.outbox.part_bytes;
    const size_t parts = (payload.size() + part_bytes - 1) / part_bytes;
    client.wait_for_frames(parts + 1);  // and the call behind them
    EXPECT_EQ(client.frame_count(), parts + 1);
    EXPECT_TRUE(client.place == payload);
}

/// One end of a bulk lane, which comes back as often as it is lost.
struct LaneEnd final : protocol::Link::Handler {
    LaneEnd(End& end, uint16_t number) : link(*this, end.link.outbox(), number, {}) {}
    ~LaneEnd() override { cut(); }
    void connect(std::unique_ptr<net::TlsChannel> channel, uint64_t received_there) {
        const auto attach = [&] { return link.attach(received_there); };
        if (pump) {
            EXPECT_TRUE(pump->restart(std::move(channel), attach).ok());
            return;
        }
        pump = std::make_unique<net::ChannelPump>(std::move(channel), net::user_of(link));
        EXPECT_TRUE(attach().ok() && pump->start().ok());
    }
    void cut() {
        if (!pump) return;
        pump->stop();
        pump->join();
    }
    Result<void> on_frame(Frame frame) override { return handle ? handle(std::move(frame)) : Result<void>{}; }
    bool keeps() const override { return true; }

    std::function<Result<void>(Frame)> handle;
    protocol::Link link;
    std::unique_ptr<net::ChannelPump> pump;
};

void connect_lane(LaneEnd& client, LaneEnd& server) {
    client.cut();
    server.cut();
    const uint64_t client_has = client.link.received_sequence(), server_has = server.link.received_sequence();
    auto pair = good_pair();
    client.connect(std::move(pair.client.channel), server_has);
    server.connect(std::move(pair.server.channel), client_has);
}

TEST(LinkOverTls, PayloadsTravelOverLanesThatComeAndGo_B3_C2) {
    auto pair = good_pair();
    End client(std::move(pair.client.channel)), server(std::move(pair.server.channel));
    protocol::CallReceiver receiver({64u << 20, 65536});
    Mutex mutex;
    ConditionVariable begun;
    std::vector<std::shared_ptr<protocol::PayloadStream>> streams;
    std::atomic<uint64_t> calls{0};
    server.handle = [&](Frame frame) -> Result<void> {
        if (frame.header.kind == FrameKind::bulk) return receiver.accept_bulk(std::move(frame));
        if (frame.header.kind != FrameKind::batch) return {};
        auto unit = WL_TRY(receiver.accept_batch(std::move(frame)));
        calls += unit.calls;
        MutexLock lock(mutex);
        if (unit.stream) streams.push_back(unit.stream);
        begun.notify_all();
        return {};
    };
    ASSERT_TRUE(client.pump.start().ok() && server.pump.start().ok());
    std::vector<std::unique_ptr<LaneEnd>> of_client, of_server;
    for (uint16_t lane = 1; lane <= 2; ++lane) {
        of_client.push_back(std::make_unique<LaneEnd>(client, lane));
        of_server.push_back(std::make_unique<LaneEnd>(server, lane));
        of_server.back()->handle = [&](Frame frame) { return receiver.accept_bulk(std::move(frame)); };
        connect_lane(*of_client.back(), *of_server.back());
    }
    constexpr unsigned k_words = 4;
    std::atomic<bool> done{false};
    std::thread caller([&] {
        while (!done) {
            const auto added = client.link.outbox().add_call<wire::HostCall>(
                protocol::CallHeader{}, k_words, [](wire::HostCall::Builder) {}, [](uint64_t) {});
            if (!added.ok()) return;
            client.pump.flush();
            std::this_thread::yield();
            if (calls > 30000) return;  // of the credit
        }
    });
    const Bytes payload = pattern((12u << 20) + 77);
    constexpr size_t k_payloads = 3;
    std::thread copier([&] {
        for (size_t i = 0; i < k_payloads; ++i)
            EXPECT_TRUE(client.link.outbox()
                            .add_streamed_call<wire::HostCall>(
                                protocol::CallHeader{}, k_words, [](wire::HostCall::Builder) {}, [](uint64_t) {}, payload)
                            .ok());
    });
    const auto have_all_arrived = [&] {
        MutexLock lock(mutex);
        return streams.size() == k_payloads &&
               std::all_of(streams.begin(), streams.end(), [](const auto& stream) { return stream->has_arrived(); });
    };
    // Not for ever: on a busy machine a lane that is cut this often has hardly sent a part.
    constexpr size_t k_most_cuts = 40;
    for (size_t cuts = 0; cuts < k_most_cuts && !have_all_arrived(); ++cuts)
        connect_lane(*of_client[cuts % 2], *of_server[cuts % 2]);
    copier.join();
    {
        MutexLock lock(mutex);
        while (streams.size() < k_payloads) begun.wait(mutex);
    }
    done = true;
    caller.join();
    for (const auto& stream : streams) {
        size_t read = 0;
        for (auto part = stream->next(); part.ok() && !part->empty(); part = stream->next()) {
            ASSERT_LE(part->size(), payload.size() - read);
            EXPECT_TRUE(std::equal(part->view().begin(), part->view().end(), payload.begin() + static_cast<ptrdiff_t>(read)));
            read += part->size();
        }
        EXPECT_EQ(read, payload.size());
    }
    for (const auto* ends : {&of_client, &of_server})
        for (const auto& lane : *ends) lane->cut();
}

TEST(LinkOverTls, ABulkLaneCarriesNothingElse_F3) {
    auto pair = good_pair();
    End client(std::move(pair.client.channel)), server(std::move(pair.server.channel));
    LaneEnd lane(server, 1);
    auto lane_pair = good_pair();
    lane.connect(std::move(lane_pair.server.channel), 0);
    End sender(std::move(lane_pair.client.channel));
    ASSERT_TRUE(client.pump.start().ok() && server.pump.start().ok() && sender.pump.start().ok());
    ASSERT_TRUE(send_host_call(sender, 1).ok());
    EXPECT_EQ(sender.wait_for_end().code, Code::connection_lost);
    lane.pump->join();
    EXPECT_TRUE(lane.pump->refused());
}

TEST(LinkOverTls, AFrameThatIsRefusedIsToldToItsSender_F3) {
    auto pair = good_pair();
    End client(std::move(pair.client.channel)), server(std::move(pair.server.channel));
    server.handle = [](Frame) -> Result<void> { return Error{Code::malformed, "that makes no sense"}; };
    ASSERT_TRUE(client.pump.start().ok() && server.pump.start().ok());
    ASSERT_TRUE(send_host_call(client, 1).ok());
    EXPECT_EQ(server.wait_for_end().code, Code::malformed);
    client.wait_for_frames(1);
    {
        MutexLock lock(client.mutex);
        ASSERT_EQ(client.frames.size(), 1u);
        ASSERT_EQ(client.frames[0].header.kind, FrameKind::close);
        auto reason = protocol::read_message<wire::Close>(
            client.frames[0].body.view(),
            [](wire::Close::Reader close) -> Result<std::string> { return std::string(close.getReason().cStr()); });
        EXPECT_EQ(*reason, "that makes no sense");
    }
    EXPECT_EQ(client.wait_for_end().code, Code::connection_lost);
    EXPECT_FALSE(send_host_call(client, 2).ok());
}

TEST(LinkOverTls, GarbageEndsOneConnectionOnly_F3) {
    auto first = good_pair(), second = good_pair();
    End victim(std::move(first.server.channel)), bystander(std::move(second.server.channel));
    End good(std::move(second.client.channel));
    ASSERT_TRUE(victim.pump.start().ok() && bystander.pump.start().ok() && good.pump.start().ok());
    ASSERT_TRUE(write_bytes(*first.client.channel, pattern(100000)).ok());
    EXPECT_EQ(victim.wait_for_end().code, Code::malformed);
    ASSERT_TRUE(send_host_call(good, 5).ok());
    bystander.wait_for_frames(1);
    EXPECT_EQ(bystander.frame_count(), 1u);
}

TEST(LinkOverTls, ASilentPeerIsFound_C1) {
    auto pair = good_pair();
    protocol::LinkOptions options;
    options.heartbeat = {20ms, 150ms, 150ms, 300ms};
    net::PumpOptions pump_options;
    pump_options.tick_interval = 5ms;
    End client(std::move(pair.client.channel), options, pump_options);
    ASSERT_TRUE(client.pump.start().ok());
    EXPECT_EQ(client.wait_for_end().code, Code::connection_lost);  // pair.server lives and says nothing
}

TEST(LinkOverTls, PartsOfARecordAreASignOfLife_C1) {
    auto pair = good_pair();
    protocol::LinkOptions options;
    options.heartbeat = {10ms, 100ms, 200ms, 3600s};  // its machine acknowledges: it is not lost in the time of a test
    net::PumpOptions pump_options;
    pump_options.tick_interval = 2ms;
    End client(std::move(pair.client.channel), options, pump_options);
    ASSERT_TRUE(client.pump.start().ok());
    auto wait_for = [&](auto condition) {
        auto deadline = std::chrono::steady_clock::now() + 10s;
        while (!condition(client.link.quality()) && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
        return condition(client.link.quality());
    };
    auto suspect = [](const protocol::LinkQuality& quality) { return quality.level == protocol::LinkLevel::suspect; };
    ASSERT_TRUE(wait_for(suspect));
    // From there the only ways out are up, by a sign of life, and the end after an hour.
    const uint32_t changes = client.link.quality().level_changes;
    ASSERT_EQ(::send(pair.server.channel->fd(), "\x17\x03\x03\x10\x00 and no more", 17, 0), 17);
    EXPECT_TRUE(wait_for([&](const protocol::LinkQuality& quality) { return quality.level_changes > changes; }));
    EXPECT_TRUE(wait_for(suspect)) << "and then it is silent again";
    EXPECT_EQ(client.frame_count(), 0u);
}

TEST(LinkOverTls, HeartbeatsKeepAnIdleConnectionAndMeasureIt_C1) {
    auto pair = good_pair();
    protocol::LinkOptions options;
    options.heartbeat = {10ms, 2000ms};
    net::PumpOptions pump_options;
    pump_options.tick_interval = 2ms;
    End client(std::move(pair.client.channel), options, pump_options),
        server(std::move(pair.server.channel), options, pump_options);
    ASSERT_TRUE(client.pump.start().ok() && server.pump.start().ok());
    auto deadline = std::chrono::steady_clock::now() + 10s;
    while (client.link.quality().round_trips < 3 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    const protocol::LinkQuality quality = client.link.quality();
    EXPECT_GE(quality.round_trips, 3u);
    EXPECT_GT(quality.minimum_round_trip_us, 0u);
    EXPECT_GE(quality.pings, quality.round_trips);
    EXPECT_GT(quality.sent_bytes_per_s, 0u);
    EXPECT_GT(quality.received_bytes_per_s, 0u);
    EXPECT_EQ(client.frame_count(), 0u);
}

TEST(LinkOverTls, TheEndOfAProcessIsNoticed_C1) {
    auto pair = good_pair();
    End client(std::move(pair.client.channel));
    ASSERT_TRUE(client.pump.start().ok());
    pair.server.channel.reset();
    EXPECT_EQ(client.wait_for_end().code, Code::connection_lost);
    MutexLock lock(client.mutex);
    EXPECT_NE(client.end_why.find("127.0.0.1"), std::string::npos) << client.end_why;
}

TEST(LinkOverTls, StopEndsWhoWaits) {
    auto pair = good_pair();
    End client(std::move(pair.client.channel));
    client.link.outbox().set_credit({1 << 20, 1});
    ASSERT_TRUE(client.pump.start().ok());
    auto add = [&] {
        return client.link.outbox().add_call<wire::HostCall>(
            protocol::CallHeader{}, 4, [](wire::HostCall::Builder) {}, [](uint64_t) {});
    };
    ASSERT_TRUE(add().ok());
    auto second = std::async(std::launch::async, [&] { return add().error().code; });
    while (!client.link.outbox().has_waiters()) std::this_thread::yield();
    client.pump.stop();
    EXPECT_EQ(second.get(), Code::shutting_down);
    EXPECT_EQ(client.wait_for_end().code, Code::shutting_down);
}

TEST(LinkOverTls, GoodbyeArrivesAfterEverything) {
    auto pair = good_pair();
    End client(std::move(pair.client.channel)), server(std::move(pair.server.channel));
    ASSERT_TRUE(client.pump.start().ok() && server.pump.start().ok());
    for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(send_host_call(client, i).ok());
    client.link.say_goodbye(Code::ok, "done");
    server.wait_for_frames(101);
    ASSERT_EQ(server.frame_count(), 101u);
    {
        MutexLock lock(server.mutex);
        EXPECT_EQ(server.frames.back().header.kind, FrameKind::close);
    }
    EXPECT_EQ(server.wait_for_end().code, Code::connection_lost);
}

}  // namespace
}  // namespace warpline
