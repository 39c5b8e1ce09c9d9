// setp, set and selp on halves (A6).
#include <functional>

#include "tests/unit/softgpu_isa/half_reference.h"
#include "tests/unit/softgpu_isa/operation.h"

namespace warpline::softgpu::exec::test {
namespace {

struct Compare {
    std::string name;
    std::function<bool(double, double)> holds;
};

bool unordered(double a, double b) { return std::isnan(a) || std::isnan(b); }

const std::vector<Compare>& compares() {
    static const std::vector<Compare> k{
        {"eq", [](double a, double b) { return a == b; }},
        {"ne", [](double a, double b) { return !unordered(a, b) && a != b; }},
        {"lt", [](double a, double b) { return a < b; }},
        {"le", [](double a, double b) { return a <= b; }},
        {"gt", [](double a, double b) { return a > b; }},
        {"ge", [](double a, double b) { return a >= b; }},
        {"equ", [](double a, double b) { return unordered(a, b) || a == b; }},
        {"neu", [](double a, double b) { return unordered(a, b) || a != b; }},
        {"ltu", [](double a, double b) { return unordered(a, b) || a < b; }},
        {"leu", [](double a, double b) { return unordered(a, b) || a <= b; }},
        {"gtu", [](double a, double b) { return unordered(a, b) || a > b; }},
        {"geu", [](double a, double b) { return unordered(a, b) || a >= b; }},
        {"num", [](double a, double b) { return !unordered(a, b); }},
        {"nan", [](double a, double b) { return unordered(a, b); }},
    };
    return k;
}

void operands(const Format& f, std::vector<uint16_t>& a, std::vector<uint16_t>& b) {
    auto codes = edge_codes(f, 20);
    for (uint16_t x : codes)
        for (uint16_t y : codes) a.push_back(x), b.push_back(y);
}

/// Two 16-bit rows as one of pairs: {b's neighbour, value}.
std::vector<uint32_t> pairs(const std::vector<uint16_t>& values, size_t shift) {
    std::vector<uint32_t> out;
    for (size_t i = 0; i < values.size(); ++i) out.push_back(uint32_t{values[(i + shift) % values.size()]} << 16 | values[i]);
    return out;
}

TEST(SoftgpuHalf, SetpOfOne) {
    for (const Format* f : {&f16(), &bf16()}) {
        std::vector<uint16_t> a, b;
        operands(*f, a, b);
        std::vector<Operation> operations;
        for (const auto& c : compares()) {
            operations.push_back({"setp." + c.name + "." + f->name + " p, a, b; selp.u32 d, 1, 0, p;", 4, 2, 2});
            operations.push_back(
                {"setp.ne.u16 r, a, 0x3c00; setp." + c.name + ".or." + f->name + " p, a, b, !r; selp.u32 d, 1, 0, p;", 4, 2,
                 2});
        }
        OperationModule module(operations, "sm_90");
        for (size_t c = 0; c < compares().size(); ++c) {
            auto plain = module.run<uint32_t>(2 * c, a, b), combined = module.run<uint32_t>(2 * c + 1, a, b);
            for (size_t i = 0; i < a.size(); ++i) {
                bool holds = compares()[c].holds(f->value(a[i]), f->value(b[i])), third = a[i] == 0x3c00;
                ASSERT_EQ(plain[i], uint32_t{holds}) << operations[2 * c].text << a[i] << " " << b[i];
                ASSERT_EQ(combined[i], uint32_t{holds || third}) << operations[2 * c + 1].text << a[i] << " " << b[i];
            }
        }
    }
}

TEST(SoftgpuHalf, SetpFlushesDenormals) {
    OperationModule module(
        {{"setp.eq.ftz.f16 p, a, b; selp.u32 d, 1, 0, p;", 4, 2, 2}, {"setp.eq.f16 p, a, b; selp.u32 d, 1, 0, p;", 4, 2, 2}});
    std::vector<uint16_t> a{0x0001, 0x83ff, 0x0400}, b{0x0000, 0x0003, 0x0000};
    EXPECT_EQ(module.run<uint32_t>(0, a, b), (std::vector<uint32_t>{1, 1, 0}));
    EXPECT_EQ(module.run<uint32_t>(1, a, b), (std::vector<uint32_t>{0, 0, 0}));
}

TEST(SoftgpuHalf, SetpOfPairsGivesAPredicateForEach) {
    for (const Format* f : {&f16(), &bf16()}) {
        std::vector<uint16_t> a, b;
        operands(*f, a, b);
        auto pa = pairs(a, 5), pb = pairs(b, 3);
        std::vector<Operation> operations;
        for (const auto& c : compares()) {
            operations.push_back(
                {"setp." + c.name + "." + f->name + "x2 p|q, a, b; selp.u32 d, 1, 0, p; selp.u32 u0, 2, 0, q; or.b32 d, d, u0;",
                 4, 4, 4});
            operations.push_back({"setp.ne.u32 r, c, 0; setp." + c.name + ".xor." + f->name +
                                      "x2 p|q, a, b, r; selp.u32 d, 1, 0, p; selp.u32 u0, 2, 0, q; or.b32 d, d, u0;",
                                  4, 4, 4, 4});
        }
        OperationModule module(operations, "sm_90");
        std::vector<uint32_t> third;
        for (size_t i = 0; i < pa.size(); ++i) third.push_back(i % 3 == 0);
        for (size_t c = 0; c < compares().size(); ++c) {
            auto plain = module.run<uint32_t>(2 * c, pa, pb), combined = module.run<uint32_t>(2 * c + 1, pa, pb, third);
            for (size_t i = 0; i < pa.size(); ++i) {
                bool low = compares()[c].holds(f->value(pa[i] & 0xffff), f->value(pb[i] & 0xffff));
                bool high = compares()[c].holds(f->value(pa[i] >> 16), f->value(pb[i] >> 16)), t = third[i] != 0;
                ASSERT_EQ(plain[i], uint32_t{low} | uint32_t{high} << 1) << operations[2 * c].text;
                ASSERT_EQ(combined[i], uint32_t{low != t} | uint32_t{high != t} << 1) << operations[2 * c + 1].text;
            }
        }
    }
}

TEST(SoftgpuHalf, SetWritesOnesAndMasks) {
    struct Case {
        std::string into, from;
        uint8_t bytes, source_bytes;
        uint32_t yes;
    };
    const std::vector<Case> cases{
        {"f16", "f16", 2, 2, 0x3c00},         {"bf16", "bf16", 2, 2, 0x3f80},         {"u16", "f16", 2, 2, 0xffff},
        {"u32", "f16", 4, 2, 0xffffffff},     {"s32", "bf16", 4, 2, 0xffffffff},      {"f16", "s16", 2, 2, 0x3c00},
        {"f16x2", "f16x2", 4, 4, 0x3c003c00}, {"bf16x2", "bf16x2", 4, 4, 0x3f803f80}, {"u32", "f16x2", 4, 4, 0xffffffff}};
    std::vector<Operation> operations;
    for (const auto& c : cases)
        operations.push_back({"set.lt." + c.into + "." + c.from + " d, a, b;", c.bytes, c.source_bytes, c.source_bytes});
    OperationModule module(operations, "sm_90");
    for (size_t n = 0; n < cases.size(); ++n) {
        const Case& c = cases[n];
        const Format& f = c.from.starts_with("bf") ? bf16() : f16();
        std::vector<uint16_t> a, b;
        operands(f, a, b);
        auto holds = [&](uint32_t x, uint32_t y) {
            return c.from == "s16" ? int16_t(x) < int16_t(y) : f.value(x & 0xffff) < f.value(y & 0xffff);
        };
        if (c.source_bytes == 2) {
            std::vector<uint32_t> got;
            if (c.bytes == 2)
                for (uint16_t v : module.run<uint16_t>(n, a, b)) got.push_back(v);
            else
                got = module.run<uint32_t>(n, a, b);
            for (size_t i = 0; i < a.size(); ++i)
                ASSERT_EQ(got[i], holds(a[i], b[i]) ? c.yes : 0) << operations[n].text << a[i] << " " << b[i];
        } else {
            auto pa = pairs(a, 5), pb = pairs(b, 3);
            auto got = module.run<uint32_t>(n, pa, pb);
            for (size_t i = 0; i < pa.size(); ++i) {
                uint32_t expected =
                    (holds(pa[i], pb[i]) ? c.yes & 0xffffu : 0) | (holds(pa[i] >> 16, pb[i] >> 16) ? c.yes & 0xffff0000u : 0);
                ASSERT_EQ(got[i], expected) << operations[n].text;
            }
        }
    }
}

}  // namespace
}  // namespace warpline::softgpu::exec::test
