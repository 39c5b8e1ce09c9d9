// Tests of the first bytes of a connection.
#include "protocol/codec/preamble.h"

#include <gtest/gtest.h>

namespace warpline::protocol {
namespace {

Preamble joining() {
    Preamble preamble;
    preamble.kind = Preamble::Kind::lane;
    preamble.session.fill(std::byte{0xA5});
    preamble.lane = k_death_lane;
    preamble.epoch = 0x01020304;
    return preamble;
}

TEST(Preamble, ComesBackAsItWasWritten_B1) {
    auto wire = encode_preamble(joining());
    EXPECT_EQ(as_text(wire).substr(0, 4), "WLRP");
    auto back = decode_preamble(wire);
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(back->kind, Preamble::Kind::lane);
    EXPECT_EQ(back->session, joining().session);
    EXPECT_EQ(back->lane, k_death_lane);
    EXPECT_EQ(back->epoch, 0x01020304u);
    EXPECT_EQ(decode_preamble(encode_preamble({}))->kind, Preamble::Kind::door);
    EXPECT_FALSE(back->plain);
    Preamble plain = joining();
    plain.plain = true;
    EXPECT_TRUE(decode_preamble(encode_preamble(plain))->plain);
    EXPECT_TRUE(decode_preamble(encode_preamble({.plain = true}))->plain);
}

TEST(Preamble, RefusesWhatItDoesNotKnow_F3) {
    auto good = encode_preamble(joining());
    for (size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(decode_preamble(BytesView(good).first(size)).ok());
    auto with = [&](size_t at, uint8_t value) {
        auto wire = good;
        wire[at] = std::byte{value};
        return decode_preamble(wire).error().code;
    };
    EXPECT_EQ(with(0, 'X'), Code::malformed);
    EXPECT_EQ(with(4, 1), Code::version_mismatch);
    EXPECT_EQ(with(6, 0), Code::malformed);
    EXPECT_EQ(with(6, 3), Code::malformed);
    EXPECT_EQ(with(6, 1), Code::malformed) << "the door has no session";
    EXPECT_EQ(with(26, 2), Code::malformed);
    for (const Preamble& door : {Preamble{Preamble::Kind::door, {}, 1, 0}, Preamble{Preamble::Kind::door, {}, 0, 1}})
        EXPECT_EQ(decode_preamble(encode_preamble(door)).error().code, Code::malformed) << "nor a lane";
    Preamble nameless = joining();
    nameless.session.fill(std::byte{0});
    EXPECT_EQ(decode_preamble(encode_preamble(nameless)).error().code, Code::malformed);
}

}  // namespace
}  // namespace warpline::protocol
