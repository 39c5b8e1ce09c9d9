// Every way in which two sides of a session, their connection and its losses can go, for small bounds: the classes explored are
// those that production runs (C2). What must hold at each moment: items are handed on exactly once and in order, no more is
// kept than is allowed, and when the losses end, everything arrives and is acknowledged.
#include <deque>
#include <string>

#include "protocol/codec/session_state.h"
#include "protocol/session/item_sender.h"
#include "tests/unit/protocol/explorer.h"
#include "tests/unit/protocol/frames.h"

namespace warpline::protocol {
namespace {

using namespace test;

constexpr uint64_t k_item_bytes = 10;
constexpr uint64_t k_retain_bytes = 20;  // two items

struct ModelBounds {
    uint64_t items[2];  // that each side sends
    int cuts;
};

/// What travels: an item, or an acknowledgement only (item 0).
struct ModelPacket {
    uint64_t item;
    uint64_t acknowledgement;
};

struct ModelSide {
    ItemSender<uint64_t> sender{k_retain_bytes};
    ReceiveState receiver;
    uint64_t pushed = 0;
    uint64_t handed_on = 0;            // items that the other side's sender gave, in order
    uint64_t told = 0;                 // the highest acknowledgement that has left
    std::deque<ModelPacket> arriving;  // on the connection, not yet read
};

enum class Handshake { none, asked, answered };

/// ModelSide 0 is the client, which connects again; side 1 is the server.
struct ModelWorld {
    ModelSide sides[2];
    bool carries = true;  // the connection brings across what is sent
    Handshake resume = Handshake::none;
    uint64_t claim = 0;  // what the Resume or its answer says was received
    int cuts = 0;

    std::string key() const {
        std::string text = carries ? "+" : "-";
        const auto put = [&text](uint64_t value) { text += std::to_string(value), text += ','; };
        put(static_cast<uint64_t>(resume)), put(claim), put(static_cast<uint64_t>(cuts));
        for (const ModelSide& side : sides) {
            put(side.pushed), put(side.handed_on), put(side.told);
            put(side.sender.acknowledged()), put(side.sender.highest_sent()), put(side.sender.unsent_bytes());
            put(side.sender.unacknowledged_bytes()), put(side.sender.attached());
            for (const ModelPacket& packet : side.arriving) put(packet.item), put(packet.acknowledgement);
            text += '|';
        }
        return text;
    }
};

class Explorer final : public WorldExplorer<ModelWorld> {
public:
    explicit Explorer(ModelBounds bounds) : m_bounds(bounds) {}

    uint64_t most_sent_again() const { return m_most_sent_again; }

private:
    /// All that can happen next.
    void step(const ModelWorld& world) override {
        for (int i = 0; i < 2; ++i) {
            if (world.sides[i].pushed < m_bounds.items[i]) reach(world, [&](ModelWorld& w) { push(w.sides[i]); });
            if (world.sides[i].sender.can_take()) reach(world, [&](ModelWorld& w) { send(w, i); });
            if (world.sides[i].sender.attached() && world.sides[i].receiver.received() > world.sides[i].told)
                reach(world, [&](ModelWorld& w) { acknowledge(w, i); });
            if (world.sides[i].sender.attached() && !world.sides[i].arriving.empty())
                reach(world, [&](ModelWorld& w) { receive(w.sides[i]); });
            if (!world.carries && world.sides[i].sender.attached() && world.resume == Handshake::none)
                reach(world, [&](ModelWorld& w) { lose(w.sides[i]); });
        }
        if (world.carries && world.resume == Handshake::none && world.cuts < m_bounds.cuts)
            reach(world, [](ModelWorld& w) { w.carries = false, ++w.cuts; });
        step_resume(world);
    }

    void step_resume(const ModelWorld& world) {
        // The client asks when it has noticed; the server may still believe in the connection before.
        if (world.resume == Handshake::none && !world.carries && !world.sides[0].sender.attached())
            reach(world, [](ModelWorld& w) { w.resume = Handshake::asked, w.claim = w.sides[0].receiver.received(); });
        if (world.resume == Handshake::asked) {
            reach(world, [](ModelWorld& w) {
                lose(w.sides[1]);  // the connection before is superseded
                const uint64_t received = w.sides[1].receiver.received();
                w.carries = true;
                attach(w.sides[1], w.claim);
                w.resume = Handshake::answered, w.claim = received;
            });
            if (world.cuts < m_bounds.cuts) reach(world, [](ModelWorld& w) { w.resume = Handshake::none, ++w.cuts; });
        }
        if (world.resume == Handshake::answered) {
            reach(world, [](ModelWorld& w) { attach(w.sides[0], w.claim), w.resume = Handshake::none; });
            if (world.cuts < m_bounds.cuts)  // the answer does not arrive, and what the server sent after it neither
                reach(world, [](ModelWorld& w) {
                    w.resume = Handshake::none, w.carries = false, ++w.cuts;
                    w.sides[0].arriving.clear();
                });
        }
    }

    template <typename Change>
    void reach(const ModelWorld& from, Change&& change) {
        const ModelWorld world = WorldExplorer::reach(from, change);
        for (const ModelSide& side : world.sides) {
            EXPECT_LE(side.sender.unacknowledged_bytes(), k_retain_bytes) << world.key();
            m_most_sent_again = std::max(m_most_sent_again, side.sender.sent_again());
        }
    }

    static void push(ModelSide& side) {
        ++side.pushed;
        EXPECT_EQ(side.sender.push(side.pushed, k_item_bytes), side.pushed);
    }
    static void send(ModelWorld& world, int i) {
        ModelSide& side = world.sides[i];
        const auto next = side.sender.take();
        EXPECT_EQ(*next.item, next.number) << "the item has gone";
        deliver(world, i, {next.number, side.receiver.received()});
    }
    static void acknowledge(ModelWorld& world, int i) { deliver(world, i, {0, world.sides[i].receiver.received()}); }
    static void deliver(ModelWorld& world, int from, ModelPacket packet) {
        world.sides[from].told = packet.acknowledgement;
        if (world.carries) world.sides[1 - from].arriving.push_back(packet);
    }
    static void receive(ModelSide& side) {
        const ModelPacket packet = side.arriving.front();
        side.arriving.pop_front();
        EXPECT_TRUE(side.sender.acknowledge(packet.acknowledgement, [](uint64_t) {}).ok());
        if (packet.item == 0) return;
        const auto verdict = side.receiver.accept(header_of(FrameKind::batch, packet.item));
        ASSERT_TRUE(verdict.ok()) << verdict.error().what;
        if (*verdict == ReceiveState::Verdict::duplicate) return;
        EXPECT_EQ(packet.item, ++side.handed_on) << "in order, once";
    }
    static void lose(ModelSide& side) {
        side.sender.detach();
        side.arriving.clear();
        side.told = 0;  // nobody knows what of it arrived
    }
    static void attach(ModelSide& side, uint64_t received) {
        const auto attached = side.sender.attach(received, [](uint64_t) {});
        EXPECT_TRUE(attached.ok()) << attached.error().what;
    }

    void expect_finished(const ModelWorld& world) override {
        for (int i = 0; i < 2; ++i) {
            EXPECT_EQ(world.sides[1 - i].handed_on, m_bounds.items[i]) << "stuck: " << world.key();
            EXPECT_EQ(world.sides[i].sender.acknowledged(), m_bounds.items[i]) << "stuck: " << world.key();
            EXPECT_EQ(world.sides[i].sender.unacknowledged_bytes() + world.sides[i].sender.unsent_bytes(), 0u) << world.key();
        }
    }

    const ModelBounds m_bounds;
    uint64_t m_most_sent_again = 0;
};

TEST(SessionModel, NothingIsLostOrHandedOnTwice_C2) {
    for (const ModelBounds bounds : {ModelBounds{{4, 0}, 3}, ModelBounds{{2, 2}, 2}, ModelBounds{{3, 1}, 2}}) {
        Explorer explorer(bounds);
        explorer.explore({});
        EXPECT_GT(explorer.worlds(), 1000u);
        EXPECT_GT(explorer.ends(), 0u);
        EXPECT_GT(explorer.most_sent_again(), 0u) << "no cut made anything travel twice: the model is too tame";
        RecordProperty("worlds", static_cast<int>(explorer.worlds()));
        std::printf("%zu worlds, %zu ends\n", explorer.worlds(), explorer.ends());
    }
}

}  // namespace
}  // namespace warpline::protocol
