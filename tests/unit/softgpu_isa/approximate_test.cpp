// ex2, lg2, sin, cos and tanh .approx of .f32 against the host's double functions (A6).
#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>
#include <random>

#include "tests/unit/softgpu_isa/operation.h"

namespace warpline::softgpu::exec::test {
namespace {

float flush(float value) { return std::fabs(value) < FLT_MIN ? std::copysign(0.0f, value) : value; }

/// Any bits, values of everyday size, integers and powers of two, and the ends of the range.
std::vector<float> arguments() {
    constexpr float k_infinity = std::numeric_limits<float>::infinity();
    std::vector<float> values{0.0f,     -0.0f,     k_infinity, -k_infinity, std::nanf(""), FLT_MAX,  -FLT_MAX,
                              FLT_MIN,  -FLT_MIN,  0x1p-149f,  -0x1p-149f,  127.99999f,    -148.99f, -149.5f,
                              -150.01f, 0.999999f, 1.000001f,  0.70710677f, 0.7071068f,    1.41421f};
    for (int i = -170; i <= 140; ++i) {
        values.push_back(float(i));
        values.push_back(std::ldexp(1.0f, i));
    }
    std::mt19937 random(20261);
    std::uniform_real_distribution<float> everyday(-160.0f, 140.0f);
    for (int i = 0; i < 200000; ++i) {
        values.push_back(std::bit_cast<float>(uint32_t(random())));
        values.push_back(everyday(random));
    }
    return values;
}

int64_t place(float value) {
    auto bits = int64_t(std::bit_cast<uint32_t>(value) & 0x7fffffff);
    return std::signbit(value) ? -bits : bits;
}

/// What has got an argument is said in words only if it is wrong: there are millions of them.
void expect_near(float got, double exact, bool ftz, const Operation& operation, float argument) {
    float expected = ftz ? flush(float(exact)) : float(exact);
    if (std::isnan(expected)) {
        ASSERT_EQ(std::bit_cast<uint32_t>(got), 0x7fffffffu) << operation.text << " " << argument;
    } else if (constexpr double k_border = 1.000001 * double(FLT_MIN); ftz && std::fabs(exact) < k_border) {
        ASSERT_LE(std::fabs(got), k_border)
            << operation.text << " " << argument;  // on which side of the border is a matter of the last place
    } else {
        ASSERT_LE(std::abs(place(got) - place(expected)), 1)
            << operation.text << " " << argument << ": " << got << " for " << expected;
    }
}

TEST(SoftgpuApproximate, PowersAndLogarithmsOfTwo) {
    OperationModule module({{"ex2.approx.f32 d, a;", 4, 4},
                            {"ex2.approx.ftz.f32 d, a;", 4, 4},
                            {"lg2.approx.f32 d, a;", 4, 4},
                            {"lg2.approx.ftz.f32 d, a;", 4, 4}});
    const std::vector<float> a = arguments();
    for (size_t op = 0; op < module.size(); ++op) {
        const bool ftz = op % 2 == 1;
        const std::vector<float> got = module.run<float>(op, a);
        for (size_t i = 0; i < a.size(); ++i) {
            const double in = ftz ? flush(a[i]) : a[i];
            expect_near(got[i], op < 2 ? std::exp2(in) : std::log2(in), ftz, module[op], a[i]);
        }
    }
}

TEST(SoftgpuApproximate, SinesAndTangents) {
    OperationModule module({{"sin.approx.f32 d, a;", 4, 4},
                            {"sin.approx.ftz.f32 d, a;", 4, 4},
                            {"cos.approx.f32 d, a;", 4, 4},
                            {"cos.approx.ftz.f32 d, a;", 4, 4},
                            {"tanh.approx.f32 d, a;", 4, 4}});
    std::vector<float> a = arguments();
    for (int quarter = -4000; quarter < 4000; ++quarter) a.push_back(float(quarter * M_PI_2));  // where sines vanish
    for (float x : {0x1p20f, -0x1p20f, 1048575.9f, 0.02f, 0.0199f, 20.1f, -20.1f}) a.push_back(x);
    for (size_t op = 0; op < module.size(); ++op) {
        const bool ftz = op == 1 || op == 3;
        const std::vector<float> got = module.run<float>(op, a);
        for (size_t i = 0; i < a.size(); ++i) {
            const double in = ftz ? flush(a[i]) : a[i];
            expect_near(got[i], op < 2 ? std::sin(in) : op < 4 ? std::cos(in) : std::tanh(in), ftz, module[op], a[i]);
            if (in == 0 && op != 2 && op != 3) {
                ASSERT_EQ(std::signbit(got[i]), std::signbit(a[i])) << module[op].text << " " << a[i];
            }
        }
    }
}

TEST(SoftgpuApproximate, AreExactWhereTheResultIs) {
    OperationModule module({{"ex2.approx.f32 d, a;", 4, 4}, {"lg2.approx.f32 d, a;", 4, 4}});
    std::vector<float> whole, power;
    for (int i = -149; i < 128; ++i) {
        whole.push_back(float(i));
        power.push_back(std::ldexp(1.0f, i));
    }
    EXPECT_EQ(module.run<float>(0, whole), power);
    EXPECT_EQ(module.run<float>(1, power), whole);
}

}  // namespace
}  // namespace warpline::softgpu::exec::test
