// add, sub, mul, fma, min, max, neg, abs, ex2, tanh on .f16, .bf16 and pairs of them, against exact arithmetic (A6).
#include "tests/unit/softgpu_isa/half_reference.h"
#include "tests/unit/softgpu_isa/operation.h"

namespace warpline::softgpu::exec::test {
namespace {

/// Result of a + b, a - b, a * b or a * b + c on values, infinities and NaNs included.
uint16_t arithmetic(const Format& f, const std::string& op, double a, double b, double c) {
    double plain = op == "add" ? a + b : op == "sub" ? a - b : op == "mul" ? a * b : a * b + c;
    if (!std::isfinite(a) || !std::isfinite(b) || !std::isfinite(c)) return uint16_t(round_double(f, plain));
    Exact exact = op == "add"   ? Exact::sum(a, b)
                  : op == "sub" ? Exact::sum(a, -b)
                  : op == "mul" ? Exact(Wide(a) * Wide(b))
                                : Exact::sum(Wide(a) * Wide(b), c);
    // The sign of an exact zero is that of ordinary arithmetic; doubles do not underflow on these operands.
    return uint16_t(round_to(f, exact, Round::nearest, false, std::signbit(plain)));
}

struct Modifiers {
    bool ftz = false, sat = false, relu = false;
    std::string words() const { return std::string(ftz ? ".ftz" : "") + (sat ? ".sat" : "") + (relu ? ".relu" : ""); }
    uint16_t finish(const Format& f, uint16_t code) const {
        if (ftz) code = flush(f, code);
        double v = f.value(code);
        if (sat) return std::isnan(v) || v <= 0 ? 0 : v > 1 ? uint16_t(f.bias << f.mantissa_bits) : code;
        if (relu && (v < 0 || code == 0x8000)) return 0;
        return code;
    }
};

void expect_same(const Format& f, uint16_t got, uint16_t expected, const std::string& what,
                 std::initializer_list<uint16_t> operands) {
    if (got == expected) return;
    std::string text;
    char hex[8];
    for (uint16_t operand : operands) {
        std::snprintf(hex, sizeof hex, " %04x", operand);
        text += hex;
    }
    ADD_FAILURE() << what << text << ": " << std::hex << got << " instead of " << expected << " (" << f.value(got) << ", "
                  << f.value(expected) << ")";
}

/// Which operand is in the upper half of pair i; in the lower one it is operand i.
size_t upper_of(size_t i, size_t count) { return (i + 7) % count; }

/// Pairs: the operands one after another in both halves.
std::vector<uint32_t> pairs(const std::vector<uint16_t>& values) {
    std::vector<uint32_t> out;
    for (size_t i = 0; i < values.size(); ++i) out.push_back(uint32_t{values[upper_of(i, values.size())]} << 16 | values[i]);
    return out;
}

void check_binary(const Format& f, const std::string& op, const Modifiers& modifiers, const std::string& round) {
    std::string name = op + round + modifiers.words() + "." + f.name;
    OperationModule module({{name + " d, a, b;", 2, 2, 2}, {name + "x2 d, a, b;", 4, 4, 4}}, "sm_90");
    auto codes = edge_codes(f, 60);
    std::vector<uint16_t> a, b;
    for (uint16_t x : codes)
        for (uint16_t y : codes) a.push_back(x), b.push_back(y);
    auto reference = [&](uint16_t x, uint16_t y) {
        if (modifiers.ftz) x = flush(f, x), y = flush(f, y);
        return modifiers.finish(f, arithmetic(f, op, f.value(x), f.value(y), 0));
    };
    std::vector<uint16_t> expected;
    for (size_t i = 0; i < a.size(); ++i) expected.push_back(reference(a[i], b[i]));
    auto got = module.run<uint16_t>(0, a, b);
    for (size_t i = 0; i < a.size(); ++i) expect_same(f, got[i], expected[i], name, {a[i], b[i]});
    auto packed = module.run<uint32_t>(1, pairs(a), pairs(b));
    const std::string low = name + "x2 low", high = name + "x2 high";
    for (size_t i = 0; i < a.size(); ++i) {
        const size_t upper = upper_of(i, a.size());
        expect_same(f, uint16_t(packed[i]), expected[i], low, {a[i], b[i]});
        expect_same(f, uint16_t(packed[i] >> 16), expected[upper], high, {a[upper], b[upper]});
    }
}

TEST(SoftgpuHalf, SumsAndProductsF16) {
    for (std::string op : {"add", "sub", "mul"}) {
        check_binary(f16(), op, {}, "");
        check_binary(f16(), op, {.ftz = true}, ".rn");
        check_binary(f16(), op, {.sat = true}, "");
        check_binary(f16(), op, {.ftz = true, .sat = true}, ".rn");
    }
}
TEST(SoftgpuHalf, SumsAndProductsBf16) {
    for (std::string op : {"add", "sub", "mul"}) check_binary(bf16(), op, {}, ".rn");
}

void check_fma(const Format& f, const Modifiers& modifiers) {
    std::string name = "fma.rn" + modifiers.words() + "." + f.name;
    OperationModule module({{name + " d, a, b, c;", 2, 2, 2, 2}, {name + "x2 d, a, b, c;", 4, 4, 4, 4}}, "sm_90");
    auto codes = edge_codes(f, 2);
    std::vector<uint16_t> a, b, c;
    for (uint16_t x : codes)
        for (uint16_t y : codes)
            for (uint16_t z : codes) a.push_back(x), b.push_back(y), c.push_back(z);
    std::mt19937 random(5);
    for (int i = 0; i < 20000; ++i)
        a.push_back(uint16_t(random())), b.push_back(uint16_t(random())), c.push_back(uint16_t(random()));
    auto reference = [&](uint16_t x, uint16_t y, uint16_t z) {
        if (modifiers.ftz) x = flush(f, x), y = flush(f, y), z = flush(f, z);
        return modifiers.finish(f, arithmetic(f, "fma", f.value(x), f.value(y), f.value(z)));
    };
    std::vector<uint16_t> expected;
    for (size_t i = 0; i < a.size(); ++i) expected.push_back(reference(a[i], b[i], c[i]));
    auto got = module.run<uint16_t>(0, a, b, c);
    for (size_t i = 0; i < a.size(); ++i) expect_same(f, got[i], expected[i], name, {a[i], b[i], c[i]});
    auto packed = module.run<uint32_t>(1, pairs(a), pairs(b), pairs(c));
    const std::string low = name + "x2 low", high = name + "x2 high";
    for (size_t i = 0; i < a.size(); ++i) {
        const size_t upper = upper_of(i, a.size());
        expect_same(f, uint16_t(packed[i]), expected[i], low, {a[i], b[i], c[i]});
        expect_same(f, uint16_t(packed[i] >> 16), expected[upper], high, {a[upper], b[upper], c[upper]});
    }
}

TEST(SoftgpuHalf, FusedMultiplyAdd) {
    check_fma(f16(), {});
    check_fma(f16(), {.ftz = true});
    check_fma(f16(), {.sat = true});
    check_fma(f16(), {.relu = true});
    check_fma(f16(), {.ftz = true, .relu = true});
    check_fma(bf16(), {});
    check_fma(bf16(), {.relu = true});
}

/// bfloat16's exponents are as wide as float's: a product can be a tie that only a tiny addend decides.
TEST(SoftgpuHalf, FusedMultiplyAddDecidesTiesByTinyAddends) {
    OperationModule module({{"fma.rn.bf16 d, a, b, c;", 2, 2, 2, 2}}, "sm_80");
    // 1.0078125 * 1.5 = 1.51171875, half way between 1.5078125 and 1.515625.
    std::vector<uint16_t> a(4, 0x3f81), b(4, 0x3fc0), c{0x0001, 0x8001, 0x0000, 0x1000};
    auto got = module.run<uint16_t>(0, a, b, c);
    EXPECT_EQ(got[0], 0x3fc2);
    EXPECT_EQ(got[1], 0x3fc1);
    EXPECT_EQ(got[2], 0x3fc2);
    EXPECT_EQ(got[3], 0x3fc2);
}

uint16_t min_max(const Format& f, bool max, bool nan, bool xorsign, uint16_t a, uint16_t b) {
    uint16_t sign = (a ^ b) & 0x8000u;
    bool nan_a = f.is_nan(a), nan_b = f.is_nan(b);
    if ((nan_a && nan_b) || (nan && (nan_a || nan_b))) return uint16_t(f.nan_code);
    if (xorsign) a &= 0x7fff, b &= 0x7fff;
    uint16_t out;
    if (nan_a) {
        out = b;
    } else if (nan_b) {
        out = a;
    } else {
        // Signed magnitude to an order: -0 before +0.
        auto order = [](uint16_t x) { return (x & 0x8000u) != 0 ? -int(x & 0x7fffu) - 1 : int(x); };
        out = (order(a) < order(b)) != max ? a : b;
    }
    return xorsign ? uint16_t((out & 0x7fffu) | sign) : out;
}

TEST(SoftgpuHalf, MinimumAndMaximum) {
    for (const Format* f : {&f16(), &bf16()}) {
        auto codes = edge_codes(*f, 40);
        std::vector<uint16_t> a, b;
        for (uint16_t x : codes)
            for (uint16_t y : codes) a.push_back(x), b.push_back(y);
        auto pa = pairs(a), pb = pairs(b);
        for (int bits = 0; bits < 16; ++bits) {
            bool max = (bits & 1) != 0, nan = (bits & 2) != 0, xorsign = (bits & 4) != 0, ftz = (bits & 8) != 0;
            if (ftz && f == &bf16()) continue;
            std::string name = std::string(max ? "max" : "min") + (ftz ? ".ftz" : "") + (nan ? ".NaN" : "") +
                               (xorsign ? ".xorsign.abs" : "") + "." + f->name;
            OperationModule module({{name + " d, a, b;", 2, 2, 2}, {name + "x2 d, a, b;", 4, 4, 4}}, "sm_86");
            auto reference = [&](uint16_t x, uint16_t y) {
                if (ftz) x = flush(*f, x), y = flush(*f, y);
                return min_max(*f, max, nan, xorsign, x, y);
            };
            std::vector<uint16_t> expected;
            for (size_t i = 0; i < a.size(); ++i) expected.push_back(reference(a[i], b[i]));
            auto got = module.run<uint16_t>(0, a, b);
            auto packed = module.run<uint32_t>(1, pa, pb);
            const std::string high = name + "x2";
            for (size_t i = 0; i < a.size(); ++i) {
                const size_t upper = upper_of(i, a.size());
                expect_same(*f, got[i], expected[i], name, {a[i], b[i]});
                expect_same(*f, uint16_t(packed[i] >> 16), expected[upper], high, {a[upper], b[upper]});
            }
        }
    }
}

TEST(SoftgpuHalf, SignsOfAllCodes) {
    OperationModule module({{"neg.f16 d, a;", 2, 2},
                            {"abs.f16 d, a;", 2, 2},
                            {"neg.ftz.f16 d, a;", 2, 2},
                            {"abs.ftz.f16 d, a;", 2, 2},
                            {"neg.bf16 d, a;", 2, 2},
                            {"abs.bf16 d, a;", 2, 2},
                            {"neg.f16x2 d, a;", 4, 4},
                            {"abs.bf16x2 d, a;", 4, 4}});
    std::vector<uint16_t> a;
    for (uint32_t code = 0; code < 0x10000; ++code) a.push_back(uint16_t(code));
    for (size_t op : {0u, 1u, 2u, 3u, 4u, 5u}) {
        auto got = module.run<uint16_t>(op, a);
        for (uint32_t code = 0; code < 0x10000; ++code) {
            if (f16().is_nan(code) || (op >= 4 && bf16().is_nan(code))) continue;  // which NaN is not specified
            uint16_t in = op == 2 || op == 3 ? flush(f16(), uint16_t(code)) : uint16_t(code);
            ASSERT_EQ(got[code], op % 2 == 0 ? in ^ 0x8000u : in & 0x7fffu) << module[op].text << code;
        }
    }
    std::vector<uint32_t> pair{0x3c00bc00u, 0x80000000u, 0x7c00fc00u};
    EXPECT_EQ(module.run<uint32_t>(6, pair), (std::vector<uint32_t>{0xbc003c00u, 0x00008000u, 0xfc007c00u}));
    EXPECT_EQ(module.run<uint32_t>(7, pair), (std::vector<uint32_t>{0x3c003c00u, 0x00000000u, 0x7c007c00u}));
}

/// .approx: within a last place of the true value; exact where PTX says so.
TEST(SoftgpuHalf, ApproximateFunctions) {
    OperationModule module({{"ex2.approx.f16 d, a;", 2, 2},
                            {"tanh.approx.f16 d, a;", 2, 2},
                            {"ex2.approx.ftz.bf16 d, a;", 2, 2},
                            {"tanh.approx.bf16 d, a;", 2, 2},
                            {"ex2.approx.f16x2 d, a;", 4, 4},
                            {"tanh.approx.bf16x2 d, a;", 4, 4}},
                           "sm_90");
    std::vector<uint16_t> a;
    for (uint32_t code = 0; code < 0x10000; ++code) a.push_back(uint16_t(code));
    for (size_t op = 0; op < 4; ++op) {
        const Format& f = op < 2 ? f16() : bf16();
        auto got = module.run<uint16_t>(op, a);
        for (uint32_t code = 0; code < 0x10000; ++code) {
            double x = f.value(op == 2 ? flush(f, uint16_t(code)) : code), y = op % 2 == 0 ? std::exp2(x) : std::tanh(x);
            auto expected = uint16_t(round_double(f, y));
            if (op == 2) expected = flush(f, expected);
            int distance = std::abs(int(got[code] & 0x7fff) - int(expected & 0x7fff));
            ASSERT_LE(distance, 1) << module[op].text << code;
            ASSERT_EQ(got[code] & 0x8000, expected & 0x8000) << module[op].text << code;
            if (std::isnan(x)) {
                ASSERT_EQ(got[code], 0x7fff);
            }
        }
    }
    EXPECT_EQ(module.run<uint32_t>(4, std::vector<uint32_t>{0xbc004000u}), (std::vector<uint32_t>{0x38004400u}));
    EXPECT_EQ(module.run<uint32_t>(5, std::vector<uint32_t>{0x7f80ff80u}), (std::vector<uint32_t>{0x3f80bf80u}));
}

TEST(SoftgpuHalf, MixedWithFloat) {
    std::vector<Operation> operations;
    std::vector<std::string> rounds{"rn", "rz", "rm", "rp"};
    for (const auto& round : rounds) {
        operations.push_back({"add." + round + ".f32.f16 d, a, c;", 4, 2, 0, 4});
        operations.push_back({"sub." + round + ".f32.bf16 d, a, c;", 4, 2, 0, 4});
        operations.push_back({"fma." + round + ".f32.f16 d, a, b, c;", 4, 2, 2, 4});
        operations.push_back({"add." + round + ".sat.f32.bf16 d, a, c;", 4, 2, 0, 4});
    }
    OperationModule module(operations, "sm_100", "8.8");
    auto codes = edge_codes(f16(), 60);
    std::vector<uint16_t> a, b;
    std::vector<float> c;
    std::mt19937 random(3);
    for (uint16_t x : codes) {
        for (int i = 0; i < 40; ++i) {
            a.push_back(x), b.push_back(codes[random() % codes.size()]);
            c.push_back(std::ldexp(float(random()) / 4e9f - 0.5f, int(random() % 60) - 30));
        }
    }
    for (size_t r = 0; r < 4; ++r) {
        for (size_t kind = 0; kind < 4; ++kind) {
            auto got = module.run<float>(4 * r + kind, a, b, c);
            const Format& f = kind % 2 == 1 ? bf16() : f16();
            for (size_t i = 0; i < a.size(); ++i) {
                Wide x = f.value(a[i]), y = kind == 2 ? f.value(b[i]) : 1.0;
                if (!std::isfinite(f.value(a[i])) || (kind == 2 && !std::isfinite(f.value(b[i])))) continue;
                Exact exact = kind == 1 ? Exact::sum(x, -Wide(c[i])) : Exact::sum(x * y, c[i]);
                // The neighbours of the nearest float decide the directed modes.
                float near = float(exact.high), out = near;
                int side = exact.compare(near);
                if (r == 1 && side * (exact.compare(0) < 0 ? -1 : 1) < 0) out = std::nextafter(near, 0.0f);
                if (r == 2 && side < 0) out = std::nextafter(near, -HUGE_VALF);
                if (r == 3 && side > 0) out = std::nextafter(near, HUGE_VALF);
                if (r == 0 && exact.low != 0) continue;  // float128 itself has rounded: not a reference for ties
                if (kind == 3) out = out > 0 ? std::fmin(out, 1.0f) : 0.0f;
                ASSERT_EQ(got[i], out) << module[4 * r + kind].text << " " << f.value(a[i]) << " " << c[i];
            }
        }
    }
}

}  // namespace
}  // namespace warpline::softgpu::exec::test
