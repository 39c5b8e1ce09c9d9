// mma.sync of all shapes and types, with fragments laid out by the formulas of the PTX ISA (A6).
#include <set>

#include "tests/unit/softgpu_isa/matrix_layouts.h"
#include "tests/unit/softgpu_isa/matrix_values.h"
#include "tests/unit/softgpu_isa/operation.h"

namespace warpline::softgpu::exec::test {
namespace {

/// Bytes of a lane's registers for a fragment, and how they are written in PTX.
struct Registers {
    int count = 0, bytes = 4;
    Registers(const std::string& type, int elements) {
        bytes = type == "f64" ? 8 : 4;
        count = elements * bits_of(type) / (8 * bytes);
    }
    std::string list(char name) const {
        std::string text = "{";
        for (int i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + std::string("%") + name + std::to_string(i);
        return text + "}";
    }
    std::string declare(char name) const {
        return "  .reg .b" + std::to_string(8 * bytes) + " %" + std::string(1, name) + "<" + std::to_string(count) + ">;\n";
    }
    std::string move(char name, bool load) const {
        std::string text = "  ld.param.u64 %rd1, [p" + std::string(1, name) + "];\n  mad.wide.u32 %rd1, %t, " +
                           std::to_string(count * bytes) + ", %rd1;\n";
        for (int i = 0; i < count; ++i) {
            std::string reg = "%" + std::string(1, name) + std::to_string(i), at = "[%rd1+" + std::to_string(i * bytes) + "]",
                        type = ".b" + std::to_string(8 * bytes);
            text += load ? "  ld.global" + type + " " + reg + ", " + at + ";\n"
                         : "  st.global" + type + " " + at + ", " + reg + ";\n";
        }
        return text;
    }
};

std::string kernel(const std::string& name, const std::string& instruction, Registers d, Registers a, Registers b,
                   Registers c) {
    return ".visible .entry " + name +
           "(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd) {\n  .reg .b64 %rd<2>;\n  .reg .b32 %t;\n" +
           d.declare('d') + a.declare('a') + b.declare('b') + c.declare('c') + "  mov.u32 %t, %tid.x;\n" + a.move('a', true) +
           b.move('b', true) + c.move('c', true) + "  " + instruction + " " + d.list('d') + ", " + a.list('a') + ", " +
           b.list('b') + ", " + c.list('c') + ";\n" + d.move('d', false) + "  ret;\n}\n";
}

/// A matrix for each product, spread over the lanes' registers. Returns the registers' bytes, lane by lane.
std::vector<uint8_t> spread(const std::string& type, const Layout& layout, int elements, int columns,
                            const std::vector<std::vector<double>>& matrices) {
    int bits = bits_of(type), lane_bytes = elements * bits / 8;
    std::vector<uint8_t> out(size_t(32 * lane_bytes), 0);
    for (int lane = 0; lane < 32; ++lane) {
        const auto& matrix = matrices[matrices.size() == 1 ? 0 : size_t(lane % 16 / 4)];
        for (int i = 0; i < elements; ++i) {
            Place p = layout(lane, i);
            uint64_t value = encode_value(type, matrix.at(size_t(p.row * columns + p.column)));
            for (int bit = 0; bit < bits; ++bit) {
                if ((value >> bit & 1) != 0)
                    out[size_t(lane * lane_bytes + (i * bits + bit) / 8)] |= uint8_t(1u << ((i * bits + bit) % 8));
            }
        }
    }
    return out;
}

double expected_element(const MmaCase& c, const std::vector<double>& a, const std::vector<double>& b,
                        const std::vector<double>& sum, int row, int column) {
    double out = sum[size_t(row * c.n + column)];
    for (int k = 0; k < c.k; ++k) {
        double x = a[size_t(row * c.k + k)], y = b[size_t(k * c.n + column)];
        if (c.suffix == ".xor.popc")
            out += x != y;
        else if (c.suffix == ".and.popc")
            out += x != 0 && y != 0;
        else
            out += x * y;
    }
    return out;
}

void check(Device& device, Module& module, const std::string& name, const MmaCase& c, const std::string& what) {
    std::mt19937 random(uint32_t(std::hash<std::string>{}(what)));
    std::vector<std::vector<double>> a, b, sums;
    for (int p = 0; p < c.products; ++p) {
        auto fill = [&](const std::string& type, int size) {
            std::vector<double> matrix;
            for (int i = 0; i < size; ++i) matrix.push_back(random_value(type, random));
            return matrix;
        };
        a.push_back(fill(c.a_type, c.m * c.k));
        b.push_back(fill(c.b_type, c.k * c.n));
        sums.push_back(fill(c.c_type, c.m * c.n));
    }
    int per_lane_c = c.products * c.m * c.n / 32;
    uint64_t da = device.upload(spread(c.a_type, c.a, c.products * c.m * c.k / 32, c.k, a)),
             db = device.upload(spread(c.b_type, c.b, c.products * c.k * c.n / 32, c.n, b));
    uint64_t dc = device.upload(spread(c.c_type, c.c, per_lane_c, c.n, sums));
    size_t lane_bytes = size_t(per_lane_c * bits_of(c.d_type) / 8);
    uint64_t dd = device.allocate(32 * lane_bytes);
    EXPECT_RUNS(device.launch(module, name, {.block = {32}}, da, db, dc, dd));
    auto got = device.download<uint8_t>(dd, 32 * lane_bytes);
    std::set<std::tuple<int, int, int>> seen;
    for (int lane = 0; lane < 32; ++lane) {
        for (int i = 0; i < per_lane_c; ++i) {
            Place p = c.d(lane, i);
            int product = c.products == 1 ? 0 : lane % 16 / 4;
            seen.insert({product, p.row, p.column});
            uint64_t bits = 0;
            std::memcpy(&bits, &got[size_t(lane) * lane_bytes + size_t(i * bits_of(c.d_type) / 8)],
                        size_t(bits_of(c.d_type) / 8));
            double expected =
                expected_element(c, a[size_t(product)], b[size_t(product)], sums[size_t(product)], p.row, p.column);
            ASSERT_EQ(decode_value(c.d_type, bits), expected) << what << " row " << p.row << " column " << p.column;
        }
    }
    EXPECT_EQ(int(seen.size()), c.products * c.m * c.n) << what;
}

TEST(SoftgpuMatrix, MmaOfAllShapesAndTypes) {
    std::vector<MmaCase> cases = mma_cases();
    std::set<std::string> archs;
    for (const auto& c : cases) archs.insert(c.arch);
    for (const std::string& arch : archs) {
        std::string ptx = ".version 8.7\n.target " + arch + "\n.address_size 64\n", messages;
        std::vector<std::pair<std::string, MmaCase>> here;
        for (size_t i = 0; i < cases.size(); ++i) {
            const MmaCase& c = cases[i];
            if (c.arch != arch) continue;
            std::string name = "k" + std::to_string(i);
            std::string instruction = "mma.sync.aligned." + c.shape + c.layouts + "." + c.d_type + "." + c.a_type + "." +
                                      c.b_type + "." + c.c_type + c.suffix;
            ptx += kernel(name, instruction, {c.d_type, c.products * c.m * c.n / 32}, {c.a_type, c.products * c.m * c.k / 32},
                          {c.b_type, c.products * c.k * c.n / 32}, {c.c_type, c.products * c.m * c.n / 32});
            here.emplace_back(name + " " + instruction, c);
        }
        EXPECT_TRUE(ptxas_accepts(ptx, arch, messages)) << messages;
        Device device;
        auto module = device.load(ptx);
        ASSERT_NE(module, nullptr);
        for (const auto& [what, c] : here) check(device, *module, what.substr(0, what.find(' ')), c, what);
    }
}

TEST(SoftgpuMatrix, SaturatesOnlyIfAsked) {
    std::string ptx = ".version 8.0\n.target sm_80\n.address_size 64\n", messages;
    for (std::string sat : {"", ".satfinite"}) {
        ptx += kernel(sat.empty() ? "wraps" : "saturates", "mma.sync.aligned.m8n8k16.row.col" + sat + ".s32.s8.s8.s32",
                      {"s32", 2}, {"s8", 4}, {"s8", 4}, {"s32", 2});
    }
    EXPECT_TRUE(ptxas_accepts(ptx, "sm_80", messages)) << messages;
    Device device;
    auto module = device.load(ptx);
    ASSERT_NE(module, nullptr);
    std::vector<int8_t> a(128, 1), b(128, 1), minus(128, -1);
    std::vector<int32_t> high(64, INT32_MAX - 3), low(64, INT32_MIN + 5);
    uint64_t da = device.upload(a), db = device.upload(b), dm = device.upload(minus), dh = device.upload(high),
             dl = device.upload(low), dd = device.allocate(256);
    EXPECT_RUNS(device.launch(*module, "wraps", {.block = {32}}, da, db, dh, dd));
    EXPECT_EQ(device.download<int32_t>(dd, 64), std::vector<int32_t>(64, INT32_MIN + 12));
    EXPECT_RUNS(device.launch(*module, "saturates", {.block = {32}}, da, db, dh, dd));
    EXPECT_EQ(device.download<int32_t>(dd, 64), std::vector<int32_t>(64, INT32_MAX));
    EXPECT_RUNS(device.launch(*module, "saturates", {.block = {32}}, da, dm, dl, dd));
    EXPECT_EQ(device.download<int32_t>(dd, 64), std::vector<int32_t>(64, INT32_MIN));
}

/// tf32 has ten bits after the point: what a float has beyond them is not looked at.
TEST(SoftgpuMatrix, Tf32CutsItsFactors) {
    std::string ptx =
        ".version 8.0\n.target sm_80\n.address_size 64\n" +
        kernel("k", "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", {"f32", 4}, {"tf32", 2}, {"tf32", 1}, {"f32", 4});
    Device device;
    auto module = device.load(ptx);
    ASSERT_NE(module, nullptr);
    std::vector<uint32_t> a(64, 0x3f801fffu), b(32, 0x40000000u);
    std::vector<float> c(128, 0.5f);
    uint64_t da = device.upload(a), db = device.upload(b), dc = device.upload(c), dd = device.allocate(512);
    EXPECT_RUNS(device.launch(*module, "k", {.block = {32}}, da, db, dc, dd));
    EXPECT_EQ(device.download<float>(dd, 128), std::vector<float>(128, 8.5f));
}

/// Infinities and NaNs go the way of IEEE arithmetic; a NaN is the canonical one.
TEST(SoftgpuMatrix, SpecialValues) {
    std::string ptx =
        ".version 8.0\n.target sm_80\n.address_size 64\n" +
        kernel("k", "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", {"f32", 4}, {"f16", 4}, {"f16", 2}, {"f32", 4}) +
        kernel("h", "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16", {"f16", 4}, {"f16", 4}, {"f16", 2}, {"f16", 4});
    Device device;
    auto module = device.load(ptx);
    ASSERT_NE(module, nullptr);
    std::vector<uint16_t> a(128, 0x3c00), b(64, 0x3c00);
    a[0] = 0x7c00;   // lane 0, row 0: infinity
    a[4] = 0x7e01;   // lane 1, row 0: NaN
    a[16] = 0xfc00;  // lane 4, row 1
    a[2] = 0x7bff;   // lane 0, row 8
    std::vector<float> c(128, 0.0f);
    uint64_t da = device.upload(a), db = device.upload(b), dc = device.upload(c), dd = device.allocate(512);
    EXPECT_RUNS(device.launch(*module, "k", {.block = {32}}, da, db, dc, dd));
    auto d = device.download<uint32_t>(dd, 128);
    EXPECT_EQ(d[0], 0x7fffffffu);
    EXPECT_EQ(d[16], 0xff800000u);
    EXPECT_EQ(d[2], encode_value("f32", 65511));
    EXPECT_RUNS(device.launch(*module, "h", {.block = {32}}, da, db, dc, dd));
    auto h = device.download<uint16_t>(dd, 128);
    EXPECT_EQ(h[0], 0x7fffu);
    EXPECT_EQ(h[2], 0x7bffu);
    EXPECT_EQ(h[32], 0x4800u);  // row 2: eight ones
}

/// What has no meaning, or needs a device with a letter in its name, is refused by name.
TEST(SoftgpuMatrix, RefusesByName) {
    const std::vector<std::string> instructions{
        "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1}, {%r2,%r3}, {%f0,%f1,%f2,%f3}, %r0, "
        "0x0;",
        "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r0,%r1}, [%rd0];",
        "wgmma.fence.sync.aligned;",
    };
    for (const auto& instruction : instructions) {
        Device device;
        auto module = device.load(
            ".version 8.7\n.target sm_90\n.address_size 64\n.visible .entry k() {\n .reg .f32 %f<4>; .reg .b32 %r<4>; .reg "
            ".b64 %rd<1>;\n " +
            instruction + "\n ret;\n}\n");
        ASSERT_NE(module, nullptr) << instruction;
        ModuleError error = module->function("k")->ensure_ready();
        EXPECT_EQ(error.cu_result, 801) << instruction << error.log;
        EXPECT_NE(error.log.find(instruction.substr(0, instruction.find('.'))), std::string::npos) << error.log;
    }
}

}  // namespace
}  // namespace warpline::softgpu::exec::test
