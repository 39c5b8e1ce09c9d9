// cvt with types of 16 bits and fewer (A6).
#include <cstring>
#include <limits>

#include "tests/unit/softgpu_isa/half_reference.h"
#include "tests/unit/softgpu_isa/operation.h"

namespace warpline::softgpu::exec::test {
namespace {

const std::vector<std::pair<std::string, Round>> k_rounds{
    {"rn", Round::nearest}, {"rz", Round::zero}, {"rm", Round::down}, {"rp", Round::up}};

float as_float(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}
uint32_t as_bits(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return bits;
}

/// Floats around everything that the formats can tell apart.
std::vector<float> floats(const Format& f) {
    std::vector<float> out{0.0f, -0.0f, HUGE_VALF, -HUGE_VALF, NAN, 1e-45f, -1e-45f, 1e-38f, 3.4e38f, -3.4e38f};
    std::mt19937 random(11);
    size_t step = std::max<size_t>(1, f.values.size() / 600);
    for (size_t code = 0; code + 1 < f.values.size(); code += step) {
        auto low = float(f.values[code]), high = float(f.values[code + 1]),
             middle = float((f.values[code] + f.values[code + 1]) / 2);
        for (float value : {low, middle, std::nextafter(middle, HUGE_VALF), std::nextafter(middle, 0.0f),
                            std::nextafter(low, HUGE_VALF), high}) {
            out.push_back(value);
            out.push_back(-value);
        }
    }
    auto last = float(f.values.back()), ulp = float(f.values.back() - f.values[f.values.size() - 2]);
    for (float value : {last, last + ulp / 4, last + ulp / 2, last + ulp, last * 2})
        out.push_back(value), out.push_back(-value);
    for (int i = 0; i < 2000; ++i) out.push_back(as_float(uint32_t(random())));
    return out;
}

uint32_t from_float(const Format& f, float value, Round round, bool relu, bool finite) {
    if (relu && !std::isnan(value) && !(value > 0)) value = 0;
    return round_double(f, double(value), round, finite);
}

TEST(SoftgpuHalfConvert, FromFloat) {
    for (const Format* f : {&f16(), &bf16()}) {
        auto in = floats(*f);
        for (size_t r = 0; r < 2; ++r) {
            for (int bits = 0; bits < 4; ++bits) {
                bool relu = (bits & 1) != 0, finite = (bits & 2) != 0;
                if (finite && f == &bf16()) continue;  // ptxas 13.0 wants sm_100 for it; covered below
                std::string name =
                    "cvt." + k_rounds[r].first + (relu ? ".relu" : "") + (finite ? ".satfinite" : "") + "." + f->name;
                OperationModule module({{name + ".f32 d, a;", 2, 4}, {name + "x2.f32 d, a, b;", 4, 4, 4}}, "sm_90", "8.6");
                auto got = module.run<uint16_t>(0, in);
                std::vector<float> other(in.rbegin(), in.rend());
                auto packed = module.run<uint32_t>(1, in, other);
                for (size_t i = 0; i < in.size(); ++i) {
                    uint32_t one = from_float(*f, in[i], k_rounds[r].second, relu, finite);
                    uint32_t two = from_float(*f, other[i], k_rounds[r].second, relu, finite);
                    ASSERT_EQ(got[i], one) << name << " " << in[i];
                    ASSERT_EQ(packed[i], one << 16 | two) << name << "x2 " << in[i] << " " << other[i];
                }
            }
        }
    }
}

TEST(SoftgpuHalfConvert, FromFloatTowardsEitherSide) {
    std::vector<Operation> operations;
    for (const auto& [name, round] : k_rounds) {
        operations.push_back({"cvt." + name + ".f16.f32 d, a;", 2, 4});
        operations.push_back({"cvt." + name + ".sat.f16.f32 d, a;", 2, 4});
        operations.push_back({"cvt." + name + ".f16.f64 cc, a; mov.b16 d, cc;", 2, 8});
        operations.back().text = ".reg .b16 cc; " + operations.back().text;
        operations.push_back({"cvt." + name + ".bf16.f64 d, a;", 2, 8});
    }
    OperationModule module(operations, "sm_90");
    auto in = floats(f16());
    std::vector<double> wide;
    for (float value : in) {
        wide.push_back(value);
        wide.push_back(std::nextafter(double(value), HUGE_VAL));  // decided by bits that a float does not have
        wide.push_back(std::nextafter(double(value), -HUGE_VAL));
    }
    for (size_t r = 0; r < 4; ++r) {
        Round round = k_rounds[r].second;
        auto plain = module.run<uint16_t>(4 * r, in), saturated = module.run<uint16_t>(4 * r + 1, in);
        for (size_t i = 0; i < in.size(); ++i) {
            ASSERT_EQ(plain[i], round_double(f16(), in[i], round)) << operations[4 * r].text << in[i];
            double limited = std::isnan(in[i]) || !(in[i] > 0) ? 0.0 : std::fmin(in[i], 1.0f);
            ASSERT_EQ(saturated[i], round_double(f16(), limited, round)) << operations[4 * r + 1].text << in[i];
        }
        auto halves = module.run<uint16_t>(4 * r + 2, wide), brains = module.run<uint16_t>(4 * r + 3, wide);
        for (size_t i = 0; i < wide.size(); ++i) {
            ASSERT_EQ(halves[i], round_double(f16(), wide[i], round)) << operations[4 * r + 2].text << wide[i];
            ASSERT_EQ(brains[i], round_double(bf16(), wide[i], round)) << operations[4 * r + 3].text << wide[i];
        }
    }
}

TEST(SoftgpuHalfConvert, ToFloatOfAllCodes) {
    OperationModule module({{"cvt.f32.f16 d, a;", 4, 2},
                            {"cvt.f32.bf16 d, a;", 4, 2},
                            {"cvt.f64.f16 d, a;", 8, 2},
                            {"cvt.sat.f32.f16 d, a;", 4, 2},
                            {"cvt.f64.bf16 d, a;", 8, 2},
                            {"cvt.rz.bf16.f16 d, a;", 2, 2},
                            {"cvt.rni.f16.f16 d, a;", 2, 2},
                            {"cvt.rp.f16.bf16 d, a;", 2, 2}},
                           "sm_90");
    std::vector<uint16_t> a;
    for (uint32_t code = 0; code < 0x10000; ++code) a.push_back(uint16_t(code));
    auto f_half = module.run<uint32_t>(0, a), f_brain = module.run<uint32_t>(1, a), f_sat = module.run<uint32_t>(3, a);
    auto d_half = module.run<double>(2, a), d_brain = module.run<double>(4, a);
    auto to_brain = module.run<uint16_t>(5, a), integral = module.run<uint16_t>(6, a), to_half = module.run<uint16_t>(7, a);
    for (uint32_t code = 0; code < 0x10000; ++code) {
        double half = f16().value(code), brain = bf16().value(code);
        ASSERT_EQ(f_half[code], std::isnan(half) ? 0x7fffffffu : as_bits(float(half))) << code;
        ASSERT_EQ(f_brain[code], std::isnan(brain) ? 0x7fffffffu : as_bits(float(brain))) << code;
        ASSERT_EQ(f_sat[code], as_bits(std::isnan(half) || !(half > 0) ? 0.0f : float(std::fmin(half, 1.0)))) << code;
        if (!std::isnan(half)) {
            ASSERT_EQ(d_half[code], half);
        }
        if (!std::isnan(brain)) {
            ASSERT_EQ(d_brain[code], brain);
        }
        ASSERT_EQ(to_brain[code], round_double(bf16(), half, Round::zero)) << code;
        ASSERT_EQ(integral[code], round_double(f16(), std::nearbyint(half))) << code;
        ASSERT_EQ(to_half[code], round_double(f16(), brain, Round::up)) << code;
    }
}

TEST(SoftgpuHalfConvert, ToIntegers) {
    struct Kind {
        std::string name;
        uint8_t bytes;
        int64_t low;
        uint64_t high;
    };
    std::vector<Kind> kinds{{"s8", 4, -128, 127},
                            {"u8", 4, 0, 255},
                            {"s16", 2, -32768, 32767},
                            {"u16", 2, 0, 65535},
                            {"s32", 4, INT32_MIN, INT32_MAX},
                            {"u32", 4, 0, UINT32_MAX},
                            {"s64", 8, INT64_MIN, INT64_MAX},
                            {"u64", 8, 0, UINT64_MAX}};
    std::vector<uint16_t> a;
    for (uint32_t code = 0; code < 0x10000; code += 3) a.push_back(uint16_t(code));
    for (const Format* f : {&f16(), &bf16()}) {
        std::vector<Operation> operations;
        if (f == &bf16()) kinds.erase(kinds.begin(), kinds.begin() + 2);  // ptxas 13.0 takes no register for them
        for (const Kind& kind : kinds)
            for (const char* round : {"rni", "rzi", "rmi", "rpi"})
                operations.push_back({std::string("cvt.") + round + "." + kind.name + "." + f->name + " d, a;", kind.bytes, 2});
        OperationModule module(operations, "sm_90");
        for (size_t n = 0; n < operations.size(); ++n) {
            const Kind& kind = kinds[n / 4];
            std::vector<uint64_t> got;
            if (kind.bytes == 2)
                for (uint16_t v : module.run<uint16_t>(n, a)) got.push_back(v);
            else if (kind.bytes == 4)
                for (uint32_t v : module.run<uint32_t>(n, a)) got.push_back(v);
            else
                got = module.run<uint64_t>(n, a);
            for (size_t i = 0; i < a.size(); ++i) {
                double v = f->value(a[i]);
                v = n % 4 == 0 ? std::nearbyint(v) : n % 4 == 1 ? std::trunc(v) : n % 4 == 2 ? std::floor(v) : std::ceil(v);
                uint64_t expected = std::isnan(v)                                        ? 0
                                    : v < double(kind.low)                               ? uint64_t(kind.low)
                                    : v >= double(kind.high) + (kind.bytes == 8 ? 0 : 1) ? kind.high
                                    : v < 0                                              ? uint64_t(int64_t(v))
                                                                                         : uint64_t(v);
                uint64_t mask = kind.bytes == 8 ? ~0ull : (1ull << (8 * kind.bytes)) - 1;
                ASSERT_EQ(got[i], expected & mask) << operations[n].text << " " << f->value(a[i]);
            }
        }
    }
}

TEST(SoftgpuHalfConvert, FromIntegers) {
    std::vector<uint64_t> in{0,
                             1,
                             2,
                             2047,
                             2048,
                             2049,
                             2051,
                             4097,
                             65503,
                             65519,
                             65520,
                             65535,
                             65536,
                             uint64_t(-1),
                             uint64_t(-2049),
                             uint64_t(-65520)};
    std::mt19937_64 random(2);
    for (int i = 0; i < 1000; ++i) in.push_back(random() >> (random() % 64));
    for (int i = 24; i < 63; ++i)  // ties that 53 bits of a double cannot hold
        in.push_back((1ull << i) + (1ull << (i - 8)) + 1), in.push_back((1ull << i) + (1ull << (i - 8)));
    std::vector<Operation> operations;
    for (const char* format : {"f16", "bf16"})
        for (const auto& [round, mode] : k_rounds)
            for (const char* type : {"s64", "u64", "s32", "u32"}) {
                bool wide = type[1] == '6';
                std::string narrow = wide ? "" : "cvt.u32.u64 u0, a; ";
                operations.push_back(
                    {narrow + "cvt." + round + "." + format + "." + type + (wide ? " d, a;" : " d, u0;"), 2, 8});
            }
    OperationModule module(operations, "sm_90");
    for (size_t n = 0; n < operations.size(); ++n) {
        auto got = module.run<uint16_t>(n, in);
        const Format& f = n < 16 ? f16() : bf16();
        for (size_t i = 0; i < in.size(); ++i) {
            Wide value = n % 4 == 0   ? Wide(int64_t(in[i]))
                         : n % 4 == 1 ? Wide(in[i])
                         : n % 4 == 2 ? Wide(int32_t(in[i]))
                                      : Wide(uint32_t(in[i]));
            ASSERT_EQ(got[i], round_to(f, Exact(value), k_rounds[n / 4 % 4].second)) << operations[n].text << " " << in[i];
        }
    }
}

TEST(SoftgpuHalfConvert, Tf32) {
    OperationModule module({{"cvt.rna.tf32.f32 d, a;"}, {"cvt.rn.tf32.f32 d, a;"}, {"cvt.rz.relu.tf32.f32 d, a;"}}, "sm_90");
    std::vector<uint32_t> in{0x3f800000, 0x3f800fff, 0x3f801000, 0x3f801001, 0x3f802fff, 0x3f803000,
                             0xbf801000, 0xbf803000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
                             0x7fc00001, 0xffffffff, 0x00000001, 0x80001000, 0x00000fff, 0x80000000};
    std::mt19937 random(8);
    for (int i = 0; i < 2000; ++i) in.push_back(uint32_t(random()));
    auto away = module.run<uint32_t>(0, in), even = module.run<uint32_t>(1, in), zero = module.run<uint32_t>(2, in);
    for (size_t i = 0; i < in.size(); ++i) {
        float value = as_float(in[i]);
        if (std::isnan(value)) {
            EXPECT_EQ(away[i], 0x7fffffffu);
            EXPECT_EQ(even[i], 0x7fffffffu);
            EXPECT_EQ(zero[i], 0x7fffffffu);
            continue;
        }
        // A tf32 step is 2^13 float steps: codes of floats are ordered like their values.
        uint32_t magnitude = in[i] & 0x7fffffffu, sign = in[i] & 0x80000000u, base = magnitude / 8192 * 8192,
                 rest = magnitude - base;
        bool infinite = std::isinf(value);
        uint32_t up = infinite ? base : base + 8192;
        EXPECT_EQ(away[i], sign | (rest >= 4096 ? up : base)) << std::hex << in[i];
        EXPECT_EQ(even[i], sign | (rest > 4096 || (rest == 4096 && (base / 8192) % 2 == 1) ? up : base)) << std::hex << in[i];
        EXPECT_EQ(zero[i], sign != 0 ? 0 : base) << std::hex << in[i];
    }
}

struct Narrow {
    const Format& format;
    std::string arch, version;
    int bits;  ///< of one value when packed
};

TEST(SoftgpuHalfConvert, EightSixAndFourBits) {
    const std::vector<Narrow> formats{{e4m3(), "sm_90", "8.6", 8},
                                      {e5m2(), "sm_90", "8.6", 8},
                                      {e3m2(), "sm_100a", "8.6", 8},
                                      {e2m3(), "sm_100a", "8.6", 8},
                                      {e2m1(), "sm_100a", "8.6", 4}};
    for (const Narrow& n : formats) {
        const Format& f = n.format;
        bool byte = n.bits == 4;
        std::string type = f.name + "x2";
        std::vector<Operation> operations;
        for (const char* relu : {"", ".relu"}) {
            std::string pack = std::string("cvt.rn.satfinite") + relu + "." + type + ".f32 ";
            operations.push_back(
                {byte ? "{ .reg .b8 x, z; mov.b16 {z, _}, 0; " + pack + "x, a, b; mov.b16 d, {x, z}; }" : pack + "d, a, b;", 2,
                 4, 4});
            std::string unpack = std::string("cvt.rn") + relu + ".f16x2." + type;
            operations.push_back({byte ? "{ .reg .b8 x; mov.b16 {x, _}, a; " + unpack + " d, x; }" : unpack + " d, a;", 4, 2});
        }
        bool has_half = n.bits == 8 && (f.name == "e4m3" || f.name == "e5m2");
        if (has_half) operations.push_back({"cvt.rn.satfinite." + type + ".f16x2 d, a;", 2, 4});
        // The engine takes targets without a suffix only; ptxas wants one for the narrowest formats.
        std::string target = n.arch == "sm_100a" ? "sm_120" : n.arch;
        OperationModule module(operations, target, n.arch == "sm_100a" ? "9.0" : n.version, n.arch == "sm_100a" ? "a" : "");
        auto a = floats(f);
        std::vector<float> b(a.rbegin(), a.rend());
        for (size_t relu = 0; relu < 2; ++relu) {
            auto got = module.run<uint16_t>(2 * relu, a, b);
            for (size_t i = 0; i < a.size(); ++i) {
                uint32_t high = from_float(f, a[i], Round::nearest, relu != 0, true),
                         low = from_float(f, b[i], Round::nearest, relu != 0, true);
                ASSERT_EQ(got[i], high << n.bits | low) << operations[2 * relu].text << " " << a[i] << " " << b[i];
            }
            std::vector<uint16_t> codes;
            uint32_t limit = 2 * f.sign_bit();
            for (uint32_t x = 0; x < limit; ++x) codes.push_back(uint16_t(x << n.bits | (limit - 1 - x)));
            auto halves = module.run<uint32_t>(2 * relu + 1, codes);
            for (size_t i = 0; i < codes.size(); ++i) {
                for (int part = 0; part < 2; ++part) {
                    double v = f.value(uint32_t(codes[i]) >> (part * n.bits) & (limit - 1));
                    if (relu != 0 && !std::isnan(v) && !(v > 0)) v = 0;
                    ASSERT_EQ(halves[i] >> (16 * part) & 0xffffu, round_double(f16(), v))
                        << operations[2 * relu + 1].text << codes[i];
                }
            }
        }
        if (has_half) {
            std::vector<uint32_t> in;
            for (uint32_t code = 0; code < 0x10000; code += 7) in.push_back(code << 16 | (0xffffu - code));
            auto got = module.run<uint16_t>(4, in);
            for (size_t i = 0; i < in.size(); ++i) {
                uint32_t high = round_double(f, f16().value(in[i] >> 16), Round::nearest, true),
                         low = round_double(f, f16().value(in[i] & 0xffff), Round::nearest, true);
                ASSERT_EQ(got[i], high << 8 | low) << type << in[i];
            }
        }
    }
}

TEST(SoftgpuHalfConvert, ScaleFactors) {
    OperationModule module({{"cvt.rz.ue8m0x2.f32 d, a, b;", 2, 4, 4},
                            {"cvt.rp.satfinite.ue8m0x2.f32 d, a, b;", 2, 4, 4},
                            {"cvt.rn.bf16x2.ue8m0x2 d, a;", 4, 2},
                            {"cvt.rp.ue8m0x2.bf16x2 d, a;", 2, 4}},
                           "sm_120", "9.0", "a");
    std::vector<float> a{1.0f, 1.5f, 2.0f, 0x1p-127f, 0x1p-126f, 0x1.8p-127f, 0.0f, 3.0e38f, HUGE_VALF, NAN, 0x1.000002p0f};
    std::vector<float> one(a.size(), 1.0f);
    auto down = module.run<uint16_t>(0, a, one), up = module.run<uint16_t>(1, a, one);
    const std::vector<uint32_t> expected_down{127, 127, 128, 0, 1, 0, 0, 254, 255, 255, 127},
        expected_up{127, 128, 128, 0, 1, 1, 0, 254, 254, 255, 128};
    for (size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(down[i], expected_down[i] << 8 | 127u) << a[i];
        EXPECT_EQ(up[i], expected_up[i] << 8 | 127u) << a[i];
    }
    std::vector<uint16_t> codes;
    for (uint32_t c = 0; c < 256; ++c) codes.push_back(uint16_t(c << 8 | 127u));
    auto brains = module.run<uint32_t>(2, codes);
    for (uint32_t c = 0; c < 256; ++c)
        EXPECT_EQ(brains[c], round_double(bf16(), c == 255 ? std::nan("") : std::ldexp(1.0, int(c) - 127)) << 16 | 0x3f80u)
            << c;
    auto back = module.run<uint16_t>(3, brains);
    for (uint32_t c = 0; c < 256; ++c) EXPECT_EQ(back[c], c << 8 | 127u);
}

}  // namespace
}  // namespace warpline::softgpu::exec::test
