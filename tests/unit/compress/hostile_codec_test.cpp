#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "compress/codec.h"
#include "test_data.h"

// Packed bytes come from a peer: whatever they are, unpacking gives exactly the announced size or an error. Blocks have exactly
// their size, so that the address sanitizer sees a step outside.
namespace warpline::compress {
namespace {

class HostileCodec : public testing::TestWithParam<Codec> {
protected:
    bool unpack(BytesView packed, size_t raw_bytes) {
        auto in = std::make_unique<std::byte[]>(packed.size());
        auto out = std::make_unique<std::byte[]>(raw_bytes);
        std::copy(packed.begin(), packed.end(), in.get());
        auto done = decompress(GetParam(), {in.get(), packed.size()}, {out.get(), raw_bytes});
        EXPECT_TRUE(done.ok() || done.error().code == Code::malformed);
        return done.ok();
    }
    Bytes packed_sample(size_t raw_bytes) {
        const Bytes& raw = make_data("smooth_f32", raw_bytes);
        Bytes packed(max_packed_bytes(GetParam(), raw_bytes));
        packed.resize(compress(GetParam(), 1, raw, packed).value());
        return packed;
    }
};

TEST_P(HostileCodec, EveryPrefixIsRefused) {
    Bytes packed = packed_sample(5000);
    ASSERT_TRUE(unpack(packed, 5000));
    for (size_t size = 0; size < packed.size(); size++) EXPECT_FALSE(unpack(BytesView(packed).first(size), 5000)) << size;
}

TEST_P(HostileCodec, AnotherSizeThanAnnouncedIsRefused) {
    Bytes packed = packed_sample(5000);
    for (size_t size : {0u, 1u, 4999u, 5001u, 100000u}) EXPECT_FALSE(unpack(packed, size)) << size;
    packed.push_back(std::byte{0});
    EXPECT_FALSE(unpack(packed, 5000));
}

TEST_P(HostileCodec, FlippedBytesDoNoHarm) {
    std::mt19937 random(99);
    for (size_t raw_bytes : {5000u, 300'000u}) {
        Bytes packed = packed_sample(raw_bytes);
        for (int round = 0; round < 800; round++) {
            Bytes damaged = packed;
            for (unsigned flips = 1 + random() % 4; flips > 0; flips--) {
                size_t range = random() % 2 ? damaged.size() : std::min<size_t>(64, damaged.size());
                damaged[random() % range] = static_cast<std::byte>(random());
            }
            unpack(damaged, raw_bytes);
        }
    }
}

TEST_P(HostileCodec, RandomBytesDoNoHarm) {
    std::mt19937 random(7);
    for (int round = 0; round < 2000; round++) {
        Bytes noise(random() % 300);
        for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
        unpack(noise, random() % 2000);
    }
}

INSTANTIATE_TEST_SUITE_P(Codecs, HostileCodec,
                         testing::Values(Codec::none, Codec::lz4, Codec::zstd, Codec::group2, Codec::group4, Codec::group8),
                         [](const auto& info) { return to_string(info.param); });

}  // namespace
}  // namespace warpline::compress
