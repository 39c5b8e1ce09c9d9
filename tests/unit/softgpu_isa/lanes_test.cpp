// Instructions in which lanes meet: shfl, vote, match, redux with all kinds of operands and with some of the lanes, and atomics
// of a whole warp on one word (A6). The references are the pseudo code of the PTX ISA, lane by lane.
#include <array>
#include <cmath>
#include <functional>
#include <random>

#include "tests/unit/softgpu_exec/harness.h"

namespace warpline::softgpu::exec::test {
namespace {

using Words = std::array<uint32_t, 32>;

/// in: rows of a, b, c; out: d, and p as a word; the lanes in `active` execute `instruction` (on d, p, a, b, c, members).
std::string kernel(const std::string& name, const std::string& instruction) {
    return ".visible .entry " + name + R"((.param .u64 in, .param .u64 out, .param .u32 active) {
  .reg .b64 %rd<3>; .reg .b32 %r<4>; .reg .b32 a, b, c, d, members; .reg .pred p, on;
  ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; ld.param.u32 members, [active];
  mov.u32 %r1, %tid.x; mul.wide.u32 %rd0, %r1, 4; add.s64 %rd1, %rd1, %rd0; add.s64 %rd2, %rd2, %rd0;
  ld.global.u32 a, [%rd1]; ld.global.u32 b, [%rd1+128]; ld.global.u32 c, [%rd1+256];
  shr.u32 %r2, members, %r1; and.b32 %r2, %r2, 1; setp.ne.u32 on, %r2, 0; mov.u32 d, 0x5a5a5a5a; setp.ne.u32 p, %r1, %r1;
  )" + instruction +
           R"(
  selp.u32 %r3, 1, 0, p; st.global.u32 [%rd2], d; st.global.u32 [%rd2+128], %r3;
  ret;
}
)";
}

struct Outcome {
    Words d, p;
    friend bool operator==(const Outcome&, const Outcome&) = default;
};

class Lanes : public testing::Test {
protected:
    void load(const std::string& instruction) { m_module = m_device.load(with_head(kernel("k", instruction))); }
    Outcome run(const Words& a, const Words& b, const Words& c, uint32_t active) {
        std::vector<uint32_t> in;
        for (const Words* row : {&a, &b, &c}) in.insert(in.end(), row->begin(), row->end());
        uint64_t from = m_device.upload(in), to = m_device.upload(std::vector<uint32_t>(64, 0));
        EXPECT_RUNS(m_device.launch(*m_module, "k", {.block = {32}}, from, to, active));
        auto words = m_device.download<uint32_t>(to, 64);
        m_device.free_all();
        Outcome out;
        std::copy_n(words.begin(), 32, out.d.begin());
        std::copy_n(words.begin() + 32, 32, out.p.begin());
        return out;
    }
    /// What the lanes in `active` get from `lane`, the others keep.
    static Outcome expected(uint32_t active, const std::function<void(uint32_t, uint32_t&, uint32_t&)>& lane) {
        Outcome out;
        out.d.fill(0x5a5a5a5a);
        out.p.fill(0);
        for (uint32_t l = 0; l < 32; ++l) {
            if ((active >> l & 1) != 0) lane(l, out.d[l], out.p[l]);
        }
        return out;
    }
    Words words(uint32_t mask) {
        Words out;
        for (uint32_t& word : out) word = uint32_t(m_random()) & mask;
        return out;
    }

    std::mt19937 m_random{11};
    static constexpr uint32_t k_active[] = {0xffffffffu, 0x0000ffffu, 0xfffffffeu, 0x80000001u, 0x5a5a1234u, 0x00000100u};

private:
    Device m_device;
    std::shared_ptr<Module> m_module;
};

TEST_F(Lanes, Shuffles) {
    for (const std::string mode : {"up", "down", "bfly", "idx"}) {
        load("@on shfl.sync." + mode + ".b32 d|p, a, b, c, members;");
        for (uint32_t active : k_active) {
            for (int round = 0; round < 40; ++round) {
                Words a = words(~0u), b = words(round % 2 != 0 ? 0x3f : 0x7), c = words(0x1f1f);
                if (round % 4 == 0) c.fill(mode == "up" ? 0 : 31);
                if (round % 4 == 1) c.fill(mode == "up" ? 0x1800 : 0x181f);
                auto lane = [&](uint32_t l, uint32_t& d, uint32_t& p) {
                    const uint32_t bval = b[l] & 31, cval = c[l] & 31, segment = c[l] >> 8 & 31;
                    const uint32_t highest = (l & segment) | (cval & ~segment), lowest = l & segment;
                    int j = mode == "up"     ? int(l) - int(bval)
                            : mode == "down" ? int(l + bval)
                            : mode == "bfly" ? int(l ^ bval)
                                             : int(lowest | (bval & ~segment));
                    p = mode == "up" ? j >= int(highest) : j <= int(highest);
                    if (p == 0) j = int(l);
                    d = (active >> j & 1) != 0 ? a[size_t(j)] : 0;  // 0: of a lane that takes no part
                };
                ASSERT_EQ(run(a, b, c, active), expected(active, lane)) << mode << " " << std::hex << active << " " << round;
            }
        }
    }
}

TEST_F(Lanes, Votes) {
    for (const std::string mode : {"all", "any", "uni", "ballot"}) {
        const std::string vote =
            mode == "ballot" ? "vote.sync.ballot.b32 d, p, members;" : "vote.sync." + mode + ".pred p, p, members;";
        load("setp.ne.u32 p, a, 0; @on " + vote);
        for (uint32_t active : k_active) {
            for (uint32_t density : {0u, 1u, 3u, ~0u}) {
                Words a = words(density);
                uint32_t yes = 0;
                for (uint32_t l = 0; l < 32; ++l) yes |= uint32_t{a[l] != 0} << l;
                Outcome got = run(a, a, a, active);
                for (uint32_t l = 0; l < 32; ++l) {
                    const bool on = (active >> l & 1) != 0;
                    const uint32_t here = yes & active;
                    const bool holds = mode == "all" ? here == active : mode == "any" ? here != 0 : here == 0 || here == active;
                    if (mode == "ballot")
                        ASSERT_EQ(got.d[l], on ? here : 0x5a5a5a5au) << std::hex << active;
                    else
                        ASSERT_EQ(got.p[l] != 0, on ? holds : (yes >> l & 1) != 0) << mode << std::hex << active;
                }
            }
        }
    }
}

TEST_F(Lanes, Matches) {
    for (bool all : {false, true}) {
        for (bool wide : {false, true}) {
            const std::string type = wide ? "b64" : "b32", d = all ? "d|p" : "d";
            const std::string value =
                wide ? "{ .reg .b64 v; mov.b64 v, {b, a}; @on match." : "{ .reg .b32 v; mov.b32 v, a; @on match.";
            load(value + (all ? "all" : "any") + ".sync." + type + " " + d + ", v, members; }");
            for (uint32_t active : k_active) {
                for (uint32_t mask : {0u, 1u, 7u, ~0u}) {
                    Words a = words(mask), b{};
                    auto lane = [&](uint32_t l, uint32_t& result, uint32_t& p) {
                        uint32_t same = 0;
                        for (uint32_t other = 0; other < 32; ++other)
                            same |= uint32_t{(active >> other & 1) != 0 && a[other] == a[l]} << other;
                        result = !all ? same : same == active ? active : 0;
                        p = all && same == active;
                    };
                    ASSERT_EQ(run(a, b, b, active), expected(active, lane)) << all << wide << std::hex << active << " " << mask;
                }
            }
        }
    }
}

TEST_F(Lanes, Reductions) {
    using Fold = std::function<uint32_t(uint32_t, uint32_t)>;
    const std::pair<const char*, Fold> operations[] = {
        {"add.u32", [](uint32_t x, uint32_t y) { return x + y; }},
        {"min.s32", [](uint32_t x, uint32_t y) { return int32_t(x) < int32_t(y) ? x : y; }},
        {"max.s32", [](uint32_t x, uint32_t y) { return int32_t(x) > int32_t(y) ? x : y; }},
        {"min.u32", [](uint32_t x, uint32_t y) { return std::min(x, y); }},
        {"max.u32", [](uint32_t x, uint32_t y) { return std::max(x, y); }},
        {"and.b32", [](uint32_t x, uint32_t y) { return x & y; }},
        {"or.b32", [](uint32_t x, uint32_t y) { return x | y; }},
        {"xor.b32", [](uint32_t x, uint32_t y) { return x ^ y; }},
    };
    for (const auto& [name, fold] : operations) {
        load(std::string("@on redux.sync.") + name + " d, a, members;");
        for (uint32_t active : k_active) {
            Words a = words(~0u);
            uint32_t total = a[size_t(__builtin_ctz(active))];
            for (uint32_t l = uint32_t(__builtin_ctz(active)) + 1; l < 32; ++l) {
                if ((active >> l & 1) != 0) total = fold(total, a[l]);
            }
            auto lane = [&](uint32_t, uint32_t& d, uint32_t&) { d = total; };
            ASSERT_EQ(run(a, a, a, active), expected(active, lane)) << name << std::hex << active;
        }
    }
}

/// Lanes act on one word in their order, whatever the operation, and each sees what the one before it left.
template <typename T>
void check_atomic(const std::string& operation, T start, const std::vector<T>& values, const std::function<T(T, T)>& act) {
    Device device;
    const std::string size = std::to_string(sizeof(T)), type = "b" + std::to_string(8 * sizeof(T));
    const std::string more = operation.rfind("cas", 0) == 0 ? ", v" : "";  // compares with v, and leaves v: adds nothing
    auto module =
        device.load(with_head(".visible .entry k(.param .u64 word, .param .u64 in, .param .u64 out) {\n"
                              ".reg .b64 %w, %i, %o, %f; .reg .b32 %t; .reg ." +
                              type +
                              " v, d; .reg .pred p;\nld.param.u64 %w, [word]; ld.param.u64 %i, [in]; "
                              "ld.param.u64 %o, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %f, %t, " +
                              size + "; add.s64 %i, %i, %f; add.s64 %o, %o, %f; ld.global." + type + " v, [%i]; mov." + type +
                              " d, v; setp.ne.u32 p, %t, 9;\n@p atom.global." + operation + " d, [%w], v" + more +
                              ";\nst.global." + type + " [%o], d; ret;\n}\n"));
    ASSERT_NE(module, nullptr);
    uint64_t word = device.upload(std::vector<T>{start}), in = device.upload(values), out = device.upload(values);
    EXPECT_RUNS(device.launch(*module, "k", {.block = {32}}, word, in, out));
    std::vector<T> olds = values;
    T now = start;
    for (size_t lane = 0; lane < 32; ++lane) {
        if (lane == 9) continue;
        olds[lane] = now;
        now = act(now, values[lane]);
    }
    EXPECT_EQ(device.download<T>(out, 32), olds) << operation;
    EXPECT_EQ(device.download<T>(word, 1)[0], now) << operation;
}

TEST(LanesOnOneWord, Atomics) {
    std::mt19937 random(5);
    std::vector<uint32_t> words;
    std::vector<int32_t> numbers;
    std::vector<uint64_t> wide;
    std::vector<float> floats;
    std::vector<double> doubles;
    for (int i = 0; i < 32; ++i) {
        words.push_back(uint32_t(random()) % 50);
        numbers.push_back(int32_t(random()));
        wide.push_back(uint64_t{random()} << 20);
        floats.push_back(std::ldexp(float(int32_t(random())), int(random() % 40) - 20));  // rounding shows the order
        doubles.push_back(std::ldexp(double(int32_t(random())), int(random() % 80) - 40));
    }
    using U = uint32_t;
    check_atomic<U>("add.u32", 7, words, [](U a, U b) { return a + b; });
    check_atomic<U>("exch.b32", 7, words, [](U, U b) { return b; });
    check_atomic<U>("inc.u32", 3, words, [](U a, U b) { return a >= b ? 0 : a + 1; });
    check_atomic<U>("dec.u32", 3, words, [](U a, U b) { return a == 0 || a > b ? b : a - 1; });
    check_atomic<U>("xor.b32", 7, words, [](U a, U b) { return a ^ b; });
    check_atomic<U>("cas.b32", words[0], words, [](U a, U) { return a; });
    check_atomic<int32_t>("min.s32", 1 << 30, numbers, [](int32_t a, int32_t b) { return std::min(a, b); });
    check_atomic<uint64_t>("max.u64", 1, wide, [](uint64_t a, uint64_t b) { return std::max(a, b); });
    check_atomic<float>("add.f32", 0.5f, floats, [](float a, float b) { return a + b; });
    check_atomic<double>("add.f64", 0.5, doubles, [](double a, double b) { return a + b; });
}

}  // namespace
}  // namespace warpline::softgpu::exec::test
