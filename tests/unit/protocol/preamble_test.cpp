#include "protocol/codec/preamble.h"

#include <gtest/gtest.h>

namespace warpline::protocol {
namespace {

Preamble joining() {
    Preamble preamble;
    preamble.kind = Preamble::Kind::further_connection;
    preamble.session.fill(std::byte{0xA5});
    return preamble;
}

TEST(Preamble, ComesBackAsItWasWritten_B1) {
    auto wire = encode_preamble(joining());
    EXPECT_EQ(as_text(wire).substr(0, 4), "WLRP");
    auto back = decode_preamble(wire);
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(back->kind, Preamble::Kind::further_connection);
    EXPECT_EQ(back->session, joining().session);
    EXPECT_TRUE(decode_preamble(encode_preamble({})).ok());
    EXPECT_EQ(decode_preamble(encode_preamble({Preamble::Kind::status, {}}))->kind, Preamble::Kind::status);
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
    EXPECT_EQ(with(4, 2), Code::version_mismatch);
    EXPECT_EQ(with(6, 0), Code::malformed);
    EXPECT_EQ(with(6, 4), Code::malformed);
    EXPECT_EQ(with(6, 1), Code::malformed) << "a new session has no id";
    EXPECT_EQ(with(31, 1), Code::malformed);
    Preamble nameless = joining();
    nameless.session.fill(std::byte{0});
    EXPECT_EQ(decode_preamble(encode_preamble(nameless)).error().code, Code::malformed);
}

}  // namespace
}  // namespace warpline::protocol
