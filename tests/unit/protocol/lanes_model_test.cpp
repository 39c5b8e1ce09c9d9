// Every way in which replies on the command lane and parts of payloads on it and on a bulk lane can come, with losses of each
// connection, for small bounds: the classes explored are those that production runs (B3, C2). What must hold: effects come in
// the order of the command lane, each once and not before all that it tells of has arrived; whoever hears that a copy failed
// finds no byte of it written later; and when the losses end, everything has taken effect and nothing is left. The lane beside
// the command lane may be given up by the receiver, at any time: then what it has not received comes over the command lane.
#include <array>
#include <deque>
#include <string>
#include <vector>

#include "protocol/codec/session_state.h"
#include "protocol/session/arrival_order.h"
#include "protocol/session/item_sender.h"
#include "tests/unit/protocol/explorer.h"
#include "tests/unit/protocol/frames.h"

namespace warpline::protocol {
namespace {

using namespace test;

constexpr uint16_t k_lanes = 2;  // the command lane and one beside it
constexpr uint16_t k_bulk = 1;
constexpr uint64_t k_frame_bytes = 10;
constexpr uint64_t k_retained_bytes = 20;  // two frames

/// What the server says of one call: parts of a payload on any lane, then that it is complete, or that the copy has failed.
struct ToldCall {
    uint64_t parts;
    bool fails;  // what is told of it does not say how many parts there are
};
using Story = std::vector<ToldCall>;

/// A frame of the model: part 0 tells of the call. Call 0: the lane is given up, and what was on its way was sent before.
struct ModelFrame {
    uint64_t call = 0;
    uint64_t part = 0;
};

struct ModelLane {
    ItemSender<ModelFrame> sender{k_retained_bytes};
    ReceiveState receiver;
    uint64_t told = 0;                                     // the highest acknowledgement that has left
    std::deque<std::pair<uint64_t, ModelFrame>> arriving;  // on the connection, with their numbers
    std::deque<uint64_t> acknowledgements;                 // likewise, the other way
    bool in_place = false;                                 // the first one arriving is being received
};

struct LanesWorld {
    std::array<ModelLane, k_lanes> lanes;
    ArrivalOrder<ModelFrame> order;
    size_t next_call = 0;           // the server's, with the next part
    uint64_t next_part = 1;         //
    std::vector<uint64_t> written;  // parts, by call
    std::vector<uint64_t> effects;  // calls, in order
    std::string said;               // which lane each part went to
    int cuts = 0;
    enum class Given { nothing, told, heard, answered } up = Given::nothing;  // the bulk lane

    std::string key() const {
        std::string text = said;
        const auto put = [&text](uint64_t value) { text += static_cast<char>('0' + value); };  // all are small
        put(next_call), put(next_part), put(static_cast<uint64_t>(cuts)), put(effects.size());
        put(static_cast<uint64_t>(up));
        for (const uint64_t parts : written) put(parts);
        for (const ModelLane& lane : lanes) {
            put(lane.sender.attached()), put(lane.sender.acknowledged()), put(lane.sender.highest_sent());
            put(lane.sender.unsent_bytes()), put(lane.sender.unacknowledged_bytes()), put(lane.receiver.received());
            put(lane.told), put(lane.in_place);
            for (const auto& [number, frame] : lane.arriving) put(number), put(frame.call), put(frame.part);
            for (const uint64_t number : lane.acknowledgements) put(number);
            text += '|';
        }
        return text;
    }
};

class LanesExplorer final : public WorldExplorer<LanesWorld> {
public:
    /// @param waiting_bytes  of frames that wait, beyond which no more are taken from the command lane
    LanesExplorer(Story story, int cuts, uint64_t waiting_bytes) : m_story(std::move(story)), m_cuts(cuts) {
        m_start.order = ArrivalOrder<ModelFrame>({.waiting_bytes = waiting_bytes, .payloads = 65536});
    }

    void explore() {
        LanesWorld start = m_start;
        start.written.resize(m_story.size());
        WorldExplorer::explore(std::move(start));
    }
    size_t waits() const { return m_waits; }
    size_t waits_for_hands() const { return m_waits_for_hands; }
    size_t moved() const { return m_moved; }

private:
    void step(const LanesWorld& world) override {
        if (world.next_call < m_story.size()) say(world);
        if (world.up == LanesWorld::Given::nothing) reach(world, [this](LanesWorld& w) { give_up(w); });
        if (world.up == LanesWorld::Given::told) reach(world, [this](LanesWorld& w) { hear_given_up(w); });
        for (uint16_t i = 0; i < k_lanes; ++i) {
            const ModelLane& lane = world.lanes[i];
            if (i == k_bulk && world.up != LanesWorld::Given::nothing) {
                // The server has not noticed, and speaks to nobody.
                if (lane.sender.can_take())
                    reach(world, [](LanesWorld& w) { static_cast<void>(w.lanes[k_bulk].sender.take()); });
                continue;
            }
            if (lane.sender.can_take()) reach(world, [i](LanesWorld& w) { send(w.lanes[i]); });
            const bool held_up = i == k_command_lane && world.order.full();
            if (!lane.arriving.empty() && !held_up) reach(world, [this, i](LanesWorld& w) { receive(w, i); });
            if (lane.sender.attached() && lane.receiver.received() > lane.told)
                reach(world, [i](LanesWorld& w) {
                    w.lanes[i].told = w.lanes[i].receiver.received();
                    w.lanes[i].acknowledgements.push_back(w.lanes[i].told);
                });
            if (!lane.acknowledgements.empty()) reach(world, [i](LanesWorld& w) { hear(w.lanes[i]); });
            if (lane.sender.attached() && world.cuts < m_cuts) reach(world, [this, i](LanesWorld& w) { cut(w, i); });
            if (!lane.sender.attached())
                reach(world, [i](LanesWorld& w) {
                    ModelLane& back = w.lanes[i];
                    EXPECT_TRUE(back.sender.attach(back.receiver.received(), [](ModelFrame) {}).ok());
                });
        }
    }

    /// The server queues a part on either lane, or, after all parts, what it tells of the call on the command lane.
    void say(const LanesWorld& world) {
        const uint64_t call = world.next_call + 1;
        const ToldCall& told = m_story[world.next_call];
        if (world.next_part <= told.parts) {
            const bool has_bulk_lane = world.up < LanesWorld::Given::heard;
            for (uint16_t i = 0; i < (has_bulk_lane ? k_lanes : k_bulk); ++i)
                reach(world, [=](LanesWorld& w) {
                    w.lanes[i].sender.push({call, w.next_part++}, k_frame_bytes);
                    w.said += i == k_command_lane ? 'c' : 'b';
                });
            return;
        }
        reach(world, [=](LanesWorld& w) {
            w.lanes[k_command_lane].sender.push({call, 0}, k_frame_bytes);
            ++w.next_call, w.next_part = 1;
        });
    }

    static void send(ModelLane& lane) {
        const auto next = lane.sender.take();
        lane.arriving.emplace_back(next.number, *next.item);
    }
    static void hear(ModelLane& lane) {
        EXPECT_TRUE(lane.sender.acknowledge(lane.acknowledgements.front(), [](ModelFrame) {}).ok());
        lane.acknowledgements.pop_front();
    }

    auto taker(LanesWorld& world) {
        return [this, &world](ModelFrame& told) { return take(world, told); };
    }
    /// The client does without the bulk lane: nothing comes over it any more, whatever the server thinks.
    void give_up(LanesWorld& world) {
        ModelLane& lane = world.lanes[k_bulk];
        world.up = LanesWorld::Given::told;
        lane.arriving.clear();
        lane.acknowledgements.clear();
        lane.in_place = false;
        EXPECT_TRUE(world.order.lane_ended(k_bulk, taker(world)).ok());
        world.order.lane_given_up();
    }
    void hear_given_up(LanesWorld& world) {
        world.up = LanesWorld::Given::heard;
        ItemSender<ModelFrame>& command = world.lanes[k_command_lane].sender;
        const auto moves = [&](ModelFrame frame) {
            ++m_moved;
            command.push(frame, k_frame_bytes);
        };
        EXPECT_TRUE(world.lanes[k_bulk]
                        .sender
                        .give_up(
                            world.lanes[k_bulk].receiver.received(), [](ModelFrame) {}, moves)
                        .ok());
        command.push({0, 0}, k_frame_bytes);
    }

    bool is_told(const LanesWorld& world, uint64_t call) const { return world.effects.size() >= call; }

    /// The first frame on the connection: one that is received in place needs two steps, and the connection may end between.
    void receive(LanesWorld& world, uint16_t i) {
        ModelLane& lane = world.lanes[i];
        const auto [number, frame] = lane.arriving.front();
        const bool placed = frame.part != 0 && number > lane.receiver.received() && !is_told(world, frame.call);
        if (placed && !lane.in_place) {
            lane.in_place = true;
            world.order.part_begins(i, frame.call);
            return;
        }
        const bool was_in_place = std::exchange(lane.in_place, false);
        lane.arriving.pop_front();
        const auto verdict = lane.receiver.accept(header_of(FrameKind::bulk, number));
        ASSERT_TRUE(verdict.ok()) << verdict.error().what;
        if (*verdict == ReceiveState::Verdict::duplicate) return;
        if (frame.part == 0) {
            EXPECT_TRUE(world.order.arrived(frame, k_frame_bytes, taker(world)).ok());
            return;
        }
        if (was_in_place) {
            EXPECT_FALSE(is_told(world, frame.call)) << "memory is written to after the program was told: " << world.key();
            ++world.written[frame.call - 1];
            EXPECT_LE(world.written[frame.call - 1], m_story[frame.call - 1].parts) << "a part came twice: " << world.key();
        }
        EXPECT_TRUE(world.order.part_arrived(i, frame.call, 1, taker(world)).ok());
    }

    Result<bool> take(LanesWorld& world, ModelFrame& told) {
        if (told.call == 0) {
            EXPECT_EQ(world.up, LanesWorld::Given::heard);
            world.up = LanesWorld::Given::answered;
            world.order.parts_moved();
            return true;
        }
        const ToldCall& call = m_story[told.call - 1];
        if (call.fails ? world.order.is_in_hand(told.call) : !world.order.has_arrived(told.call, call.parts)) {
            ++(call.fails ? m_waits_for_hands : m_waits);
            return false;
        }
        world.order.forget(told.call);
        EXPECT_EQ(told.call, world.effects.size() + 1) << "in order, once";
        if (!call.fails) {
            EXPECT_EQ(world.written[told.call - 1], call.parts) << "told before its bytes are there: " << world.key();
        }
        world.effects.push_back(told.call);
        return true;
    }

    void cut(LanesWorld& world, uint16_t i) {
        ModelLane& lane = world.lanes[i];
        ++world.cuts;
        lane.sender.detach();
        lane.arriving.clear();
        lane.acknowledgements.clear();
        lane.told = 0;  // nobody knows what of it arrived
        lane.in_place = false;
        EXPECT_TRUE(world.order.lane_ended(i, taker(world)).ok());
    }

    void expect_finished(const LanesWorld& world) override {
        EXPECT_EQ(world.effects.size(), m_story.size()) << "stuck: " << world.key();
        EXPECT_NE(world.up, LanesWorld::Given::heard) << "stuck: " << world.key();
        EXPECT_TRUE(world.order.empty()) << "stuck: " << world.key();
        for (size_t i = 0; i < m_story.size(); ++i)
            EXPECT_TRUE(m_story[i].fails || world.written[i] == m_story[i].parts) << world.key();
        for (const ModelLane& lane : world.lanes)
            EXPECT_EQ(lane.sender.unacknowledged_bytes() + lane.sender.unsent_bytes(), 0u) << "stuck: " << world.key();
    }

    const Story m_story;
    const int m_cuts;
    LanesWorld m_start;
    size_t m_waits = 0, m_waits_for_hands = 0, m_moved = 0;
};

TEST(LanesModel, EffectsComeInOrderAndNotBeforeTheirBytes_B3_C2) {
    for (const Story& story : {Story{{2, false}, {1, false}}, Story{{0, false}, {2, false}, {0, false}}}) {
        LanesExplorer explorer(story, 1, k_frame_bytes / 2);
        explorer.explore();
        EXPECT_GT(explorer.worlds(), 1000u);
        EXPECT_GT(explorer.ends(), 0u);
        EXPECT_GT(explorer.waits(), 0u) << "nothing ever came before its parts: the model is too tame";
        EXPECT_GT(explorer.moved(), 0u);
        std::printf("%zu worlds, %zu ends, %zu waits\n", explorer.worlds(), explorer.ends(), explorer.waits());
    }
}

TEST(LanesModel, WhoHearsOfAFailureFindsNoByteWrittenLater_B3_C2) {
    LanesExplorer explorer({{2, true}, {0, false}}, 1, 10 * k_frame_bytes);
    explorer.explore();
    EXPECT_GT(explorer.ends(), 0u);
    EXPECT_GT(explorer.waits_for_hands(), 0u) << "nobody was ever told while a part was being received: the model is too tame";
    std::printf("%zu worlds, %zu ends, %zu waits\n", explorer.worlds(), explorer.ends(), explorer.waits_for_hands());
}

TEST(ArrivalOrder, WhatWaitsIsBounded_F3) {
    ArrivalOrder<int> order({.waiting_bytes = 30, .payloads = 2});
    const auto never = [](int&) -> Result<bool> { return false; };
    EXPECT_TRUE(order.arrived(1, 10, never).ok());
    EXPECT_TRUE(order.arrived(2, 20, never).ok());
    EXPECT_FALSE(order.full());
    EXPECT_TRUE(order.arrived(3, 1, never).ok());
    EXPECT_TRUE(order.full());
    order.lane_given_up();
    EXPECT_FALSE(order.full()) << "parts may be behind what waits for them";
    EXPECT_TRUE(order.arrived(4, 89, never).ok());
    EXPECT_EQ(order.arrived(5, 1, never).error().code, Code::quota);
    order.parts_moved();
    EXPECT_TRUE(order.full());
    const auto always = [](int&) -> Result<bool> { return true; };
    EXPECT_TRUE(order.lane_ended(1, always).ok());
    EXPECT_FALSE(order.full());
    EXPECT_TRUE(order.part_arrived(k_command_lane, 7, 5, never).ok());
    EXPECT_TRUE(order.part_arrived(1, 8, 5, never).ok());
    EXPECT_EQ(order.part_arrived(1, 9, 5, never).error().code, Code::quota);
}

}  // namespace
}  // namespace warpline::protocol
