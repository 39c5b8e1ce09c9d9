// Bit fields, bytes put together, dot products and sums with carries (A6), with all lanes and with some of them. The references
// are the pseudo code of the PTX ISA.
#include <algorithm>
#include <limits>
#include <random>
#include <type_traits>

#include "tests/unit/softgpu_isa/operation.h"

namespace warpline::softgpu::exec::test {
namespace {

/// The last warp is not full, so that lanes at rest are met too.
constexpr size_t k_count = 32 * 40 + 13;

class Bits : public testing::Test {
protected:
    template <typename T>
    std::vector<T> values() {
        std::vector<T> out(k_count);
        for (size_t i = 0; i < out.size(); ++i) {
            const auto random = T(m_random());
            const T chosen[] = {random, T(random >> (i % (sizeof(T) * 8))), T(~T(0)),
                                T(0),   T(T(1) << (sizeof(T) * 8 - 1)),     T(-2)};
            out[i] = i % 3 == 0 ? chosen[i / 3 % std::size(chosen)] : random;
        }
        return out;
    }
    /// Positions and lengths: mostly within 64, some beyond a byte.
    std::vector<uint32_t> positions() {
        std::vector<uint32_t> out(k_count);
        for (size_t i = 0; i < out.size(); ++i) out[i] = uint32_t(m_random()) % (i % 7 == 0 ? 1000 : 70);
        return out;
    }
    std::mt19937_64 m_random{5};
};

template <typename T>
T extract_field(T a, uint32_t b, uint32_t c) {
    const uint32_t msb = sizeof(T) * 8 - 1, position = b & 0xff, length = c & 0xff;
    bool sign = false;
    if (std::is_signed_v<T> && length != 0) sign = (a >> std::min(position + length - 1, msb) & 1) != 0;
    std::make_unsigned_t<T> d = 0;
    for (uint32_t i = 0; i <= msb; ++i) {
        const bool bit = i < length && position + i <= msb ? (a >> (position + i) & 1) != 0 : sign;
        d |= std::make_unsigned_t<T>(bit) << i;
    }
    return T(d);
}
template <typename T>
T insert_field(T a, T b, uint32_t c, uint32_t d) {
    const uint32_t msb = sizeof(T) * 8 - 1, position = c & 0xff, length = d & 0xff;
    T f = b;
    for (uint32_t i = 0; i < length && position + i <= msb; ++i)
        f = T((f & T(~(T(1) << (position + i)))) | T((a >> i & 1) << (position + i)));
    return f;
}
template <typename T>
uint32_t find_bit(T a, bool shift_amount) {
    const uint32_t msb = sizeof(T) * 8 - 1;
    if (std::is_signed_v<T> && a < 0) a = T(~a);
    for (int i = int(msb); i >= 0; --i) {
        if ((a >> i & 1) != 0) return shift_amount ? msb - uint32_t(i) : uint32_t(i);
    }
    return 0xffffffffu;
}
uint32_t pick_bytes(uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t bytes = uint64_t{b} << 32 | a;
    uint32_t d = 0;
    for (uint32_t n = 0; n < 4; ++n) {
        const uint32_t choice = c >> (4 * n) & 0xf, byte = uint32_t(bytes >> (choice % 8 * 8)) & 0xff;
        d |= (choice < 8 ? byte : byte >= 0x80 ? 0xffu : 0u) << (8 * n);
    }
    return d;
}

TEST_F(Bits, ExtractsFields) {
    OperationModule module({{"bfe.u32 d, a, b, c;", 4, 4, 4, 4},
                            {"bfe.s32 d, a, b, c;", 4, 4, 4, 4},
                            {"bfe.u64 d, a, b, c;", 8, 8, 4, 4},
                            {"bfe.s64 d, a, b, c;", 8, 8, 4, 4}});
    auto a = values<uint32_t>(), b = positions(), c = positions();
    auto wide = values<uint64_t>();
    auto u32 = module.run<uint32_t>(0, a, b, c), s32 = module.run<uint32_t>(1, a, b, c);
    auto u64 = module.run<uint64_t>(2, wide, b, c), s64 = module.run<uint64_t>(3, wide, b, c);
    for (size_t i = 0; i < k_count; ++i) {
        ASSERT_EQ(u32[i], extract_field<uint32_t>(a[i], b[i], c[i])) << a[i] << " " << b[i] << " " << c[i];
        ASSERT_EQ(int32_t(s32[i]), extract_field<int32_t>(int32_t(a[i]), b[i], c[i])) << a[i] << " " << b[i] << " " << c[i];
        ASSERT_EQ(u64[i], extract_field<uint64_t>(wide[i], b[i], c[i])) << wide[i] << " " << b[i] << " " << c[i];
        ASSERT_EQ(int64_t(s64[i]), extract_field<int64_t>(int64_t(wide[i]), b[i], c[i]))
            << wide[i] << " " << b[i] << " " << c[i];
    }
}

TEST_F(Bits, InsertsFields) {
    // b is the position too, and c the length: four sources are one more than there are arrays.
    OperationModule module(
        {{"bfi.b32 d, a, b, b, c;", 4, 4, 4, 4}, {"cvt.u32.u64 u0, b; bfi.b64 d, a, b, u0, c;", 8, 8, 8, 4}});
    auto a = values<uint32_t>(), b = positions(), c = positions();
    auto wide = values<uint64_t>(), into = values<uint64_t>();
    for (size_t i = 0; i < k_count; i += 2) into[i] = (into[i] & ~uint64_t{0xff}) | b[i] % 70;
    auto narrow = module.run<uint32_t>(0, a, b, c);
    auto result = module.run<uint64_t>(1, wide, into, c);
    for (size_t i = 0; i < k_count; ++i) {
        ASSERT_EQ(narrow[i], insert_field<uint32_t>(a[i], b[i], b[i], c[i])) << a[i] << " " << b[i] << " " << c[i];
        ASSERT_EQ(result[i], insert_field<uint64_t>(wide[i], into[i], uint32_t(into[i]), c[i])) << into[i] << " " << c[i];
    }
}

TEST_F(Bits, FindsTheHighestBit) {
    OperationModule module({{"bfind.u32 d, a;", 4, 4},
                            {"bfind.s32 d, a;", 4, 4},
                            {"bfind.shiftamt.s32 d, a;", 4, 4},
                            {"bfind.u64 d, a;", 4, 8},
                            {"bfind.shiftamt.u64 d, a;", 4, 8},
                            {"bfind.s64 d, a;", 4, 8}});
    auto a = values<uint32_t>();
    auto wide = values<uint64_t>();
    auto r0 = module.run<uint32_t>(0, a), r1 = module.run<uint32_t>(1, a), r2 = module.run<uint32_t>(2, a);
    auto r3 = module.run<uint32_t>(3, wide), r4 = module.run<uint32_t>(4, wide), r5 = module.run<uint32_t>(5, wide);
    for (size_t i = 0; i < k_count; ++i) {
        ASSERT_EQ(r0[i], find_bit<uint32_t>(a[i], false)) << a[i];
        ASSERT_EQ(r1[i], find_bit<int32_t>(int32_t(a[i]), false)) << a[i];
        ASSERT_EQ(r2[i], find_bit<int32_t>(int32_t(a[i]), true)) << a[i];
        ASSERT_EQ(r3[i], find_bit<uint64_t>(wide[i], false)) << wide[i];
        ASSERT_EQ(r4[i], find_bit<uint64_t>(wide[i], true)) << wide[i];
        ASSERT_EQ(r5[i], find_bit<int64_t>(int64_t(wide[i]), false)) << wide[i];
    }
}

TEST_F(Bits, PicksBytes) {
    std::vector<Operation> operations = {{"prmt.b32 d, a, b, c;", 4, 4, 4, 4}};
    const uint32_t constants[] = {0x3210, 0x7654, 0x0123, 0x5410, 0x7632, 0x3340, 0x9180, 0xfedc, 0x4440, 0x7f3b};
    for (uint32_t constant : constants) operations.push_back({"prmt.b32 d, a, b, " + std::to_string(constant) + ";", 4, 4, 4});
    OperationModule module(operations);
    auto a = values<uint32_t>(), b = values<uint32_t>(), c = values<uint32_t>();
    auto varying = module.run<uint32_t>(0, a, b, c);
    for (size_t i = 0; i < k_count; ++i) ASSERT_EQ(varying[i], pick_bytes(a[i], b[i], c[i])) << std::hex << c[i];
    for (size_t n = 0; n < std::size(constants); ++n) {
        auto same = module.run<uint32_t>(n + 1, a, b);
        for (size_t i = 0; i < k_count; ++i)
            ASSERT_EQ(same[i], pick_bytes(a[i], b[i], constants[n])) << std::hex << constants[n];
    }
}

template <typename A, typename B>
uint32_t dot4(uint32_t a, uint32_t b, uint32_t c) {
    for (uint32_t n = 0; n < 4; ++n) c += uint32_t(int64_t(A(a >> (8 * n))) * int64_t(B(b >> (8 * n))));
    return c;
}
template <typename A, typename B>
uint32_t dot2(uint32_t a, uint32_t b, uint32_t c, uint32_t from) {
    for (uint32_t n = 0; n < 2; ++n) c += uint32_t(int64_t(A(a >> (16 * n))) * int64_t(B(b >> (8 * (n + from)))));
    return c;
}

TEST_F(Bits, DotProducts) {
    OperationModule module({{"dp4a.u32.u32 d, a, b, c;", 4, 4, 4, 4},
                            {"dp4a.s32.u32 d, a, b, c;", 4, 4, 4, 4},
                            {"dp4a.s32.s32 d, a, b, c;", 4, 4, 4, 4},
                            {"dp2a.lo.u32.s32 d, a, b, c;", 4, 4, 4, 4},
                            {"dp2a.hi.s32.u32 d, a, b, c;", 4, 4, 4, 4},
                            {"dp2a.hi.u32.u32 d, a, b, c;", 4, 4, 4, 4}});
    auto a = values<uint32_t>(), b = values<uint32_t>(), c = values<uint32_t>();
    std::vector<std::vector<uint32_t>> got;
    for (size_t n = 0; n < module.size(); ++n) got.push_back(module.run<uint32_t>(n, a, b, c));
    for (size_t i = 0; i < k_count; ++i) {
        ASSERT_EQ(got[0][i], (dot4<uint8_t, uint8_t>(a[i], b[i], c[i])));
        ASSERT_EQ(got[1][i], (dot4<int8_t, uint8_t>(a[i], b[i], c[i])));
        ASSERT_EQ(got[2][i], (dot4<int8_t, int8_t>(a[i], b[i], c[i])));
        ASSERT_EQ(got[3][i], (dot2<uint16_t, int8_t>(a[i], b[i], c[i], 0)));
        ASSERT_EQ(got[4][i], (dot2<int16_t, uint8_t>(a[i], b[i], c[i], 2)));
        ASSERT_EQ(got[5][i], (dot2<uint16_t, uint8_t>(a[i], b[i], c[i], 2)));
    }
}

TEST_F(Bits, Pairs) {
    std::vector<Operation> operations;
    for (const char* name : {"add.u16x2", "add.s16x2", "min.u16x2", "min.s16x2", "max.u16x2", "max.s16x2"})
        operations.push_back({std::string(name) + " d, a, b;", 4, 4, 4});
    OperationModule module(operations, "sm_90");
    auto a = values<uint32_t>(), b = values<uint32_t>();
    std::vector<std::vector<uint32_t>> got;
    for (size_t n = 0; n < module.size(); ++n) got.push_back(module.run<uint32_t>(n, a, b));
    for (size_t i = 0; i < k_count; ++i) {
        for (uint32_t shift : {0u, 16u}) {
            const auto x = uint16_t(a[i] >> shift), y = uint16_t(b[i] >> shift);
            const auto low = std::min(int16_t(x), int16_t(y)), high = std::max(int16_t(x), int16_t(y));
            const uint16_t expected[] = {uint16_t(x + y), uint16_t(x + y), std::min(x, y),
                                         uint16_t(low),   std::max(x, y),  uint16_t(high)};
            for (size_t n = 0; n < module.size(); ++n)
                ASSERT_EQ(uint16_t(got[n][i] >> shift), expected[n]) << operations[n].text;
        }
    }
}

/// a + b and a - b in twice as many bits as a register has, from their halves; a and b are 64 or 128 bits wide.
TEST_F(Bits, SumsOfTwoWords) {
    OperationModule module(
        {{"mov.b64 {u0, u1}, a; mov.b64 {u2, u3}, b; add.cc.u32 u0, u0, u2; addc.u32 u1, u1, u3; mov.b64 d, {u0, u1};", 8, 8,
          8},
         {"mov.b64 {u0, u1}, a; mov.b64 {u2, u3}, b; sub.cc.u32 u0, u0, u2; subc.u32 u1, u1, u3; mov.b64 d, {u0, u1};", 8, 8,
          8},
         // What is carried out of 128 bits: of (a, b) + (b, a).
         {"add.cc.u64 v0, a, b; addc.cc.u64 v1, b, a; mov.u64 v2, 0; addc.u64 d, v2, v2;", 8, 8, 8},
         // What is borrowed: of (a, b) - (b, a).
         {"sub.cc.u64 v0, a, b; subc.cc.u64 v1, b, a; mov.u64 v2, 0; subc.u64 d, v2, v2;", 8, 8, 8},
         // Lanes whose lowest bit of a is 0 keep their carry.
         {"cvt.u32.u64 u0, a; and.b32 u0, u0, 1; setp.ne.u32 p, u0, 0; mov.u64 v2, -1; add.cc.u64 v0, b, b; @p add.cc.u64 v1, "
          "v2, a;"
          " mov.u64 v3, 0; addc.u64 d, v3, v3;",
          8, 8, 8}});
    auto a = values<uint64_t>(), b = values<uint64_t>();
    std::vector<std::vector<uint64_t>> got;
    for (size_t n = 0; n < module.size(); ++n) got.push_back(module.run<uint64_t>(n, a, b));
    using u128 = unsigned __int128;
    for (size_t i = 0; i < k_count; ++i) {
        const u128 x = u128{b[i]} << 64 | a[i], y = u128{a[i]} << 64 | b[i];
        ASSERT_EQ(got[0][i], a[i] + b[i]);
        ASSERT_EQ(got[1][i], a[i] - b[i]);
        ASSERT_EQ(got[2][i], uint64_t(x + y < x)) << a[i] << " " << b[i];
        ASSERT_EQ(got[3][i], x < y ? ~uint64_t{0} : 0) << a[i] << " " << b[i];
        ASSERT_EQ(got[4][i], (a[i] & 1) != 0 ? 1 : b[i] >> 63) << a[i] << " " << b[i];
    }
}

/// (a * b + c) in twice as many bits.
TEST_F(Bits, ProductsWithCarries) {
    OperationModule module(
        {{"mov.u32 u2, 0; mad.lo.cc.u32 u0, a, b, c; madc.hi.u32 u1, a, b, u2; mov.b64 d, {u0, u1};", 8, 4, 4, 4},
         {"mov.u32 u2, 0; mad.lo.cc.s32 u0, a, b, c; madc.hi.s32 u1, a, b, u2; mov.b64 d, {u0, u1};", 8, 4, 4, 4},
         {"mov.u64 v2, 0; mad.lo.cc.u64 v0, a, b, c; madc.hi.u64 d, a, b, v2;", 8, 8, 8, 8},
         {"mov.u64 v2, 0; mad.lo.cc.s64 v0, a, b, c; madc.hi.s64 d, a, b, v2;", 8, 8, 8, 8},
         {"mov.u64 v2, 0; mad.hi.cc.u64 v0, a, b, c; madc.lo.cc.u64 v1, a, b, c; addc.u64 d, v2, v2;", 8, 8, 8, 8}});
    auto a = values<uint32_t>(), b = values<uint32_t>(), c = values<uint32_t>();
    auto x = values<uint64_t>(), y = values<uint64_t>(), z = values<uint64_t>();
    auto r0 = module.run<uint64_t>(0, a, b, c), r1 = module.run<uint64_t>(1, a, b, c);
    auto r2 = module.run<uint64_t>(2, x, y, z), r3 = module.run<uint64_t>(3, x, y, z), r4 = module.run<uint64_t>(4, x, y, z);
    using u128 = unsigned __int128;
    using s128 = __int128;
    for (size_t i = 0; i < k_count; ++i) {
        ASSERT_EQ(r0[i], uint64_t{a[i]} * b[i] + c[i]);
        ASSERT_EQ(r1[i], uint64_t(int64_t{int32_t(a[i])} * int32_t(b[i])) + c[i]);
        const u128 product = u128{x[i]} * y[i];
        ASSERT_EQ(r2[i], uint64_t((product + z[i]) >> 64));
        ASSERT_EQ(r3[i], uint64_t((u128(s128{int64_t(x[i])} * int64_t(y[i])) + z[i]) >> 64));
        const bool high = (u128{uint64_t(product >> 64)} + z[i]) >> 64 != 0;
        ASSERT_EQ(r4[i], uint64_t((u128{uint64_t(product)} + z[i] + high) >> 64)) << x[i] << " " << y[i] << " " << z[i];
    }
}

}  // namespace
}  // namespace warpline::softgpu::exec::test
