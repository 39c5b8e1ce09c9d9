// wmma.load, wmma.mma and wmma.store of all shapes, types and layouts; what fragments look like is not asked (A6).
#include "tests/unit/softgpu_isa/matrix_values.h"
#include "tests/unit/softgpu_isa/operation.h"

namespace warpline::softgpu::exec::test {
namespace {

struct Case {
    int m, n, k;
    std::string a, c, d;  ///< types; b's is a's
    int a_regs, b_regs, c_regs, d_regs;
    std::string words;      ///< types as the mma writes them
    std::string operation;  ///< ".xor.popc"
};

std::vector<Case> cases() {
    std::vector<Case> out;
    const int shapes[][3] = {{16, 16, 16}, {32, 8, 16}, {8, 32, 16}};
    for (const auto& s : shapes) {
        for (std::string c : {"f16", "f32"})
            for (std::string d : {"f16", "f32"})
                out.push_back({s[0], s[1], s[2], "f16", c, d, 8, 8, c == "f16" ? 4 : 8, d == "f16" ? 4 : 8, d + "." + c, ""});
        for (std::string type : {"s8", "u8"})
            out.push_back(
                {s[0], s[1], s[2], type, "s32", "s32", s[0] / 8, s[1] / 8, 8, 8, "s32." + type + "." + type + ".s32", ""});
        out.push_back({s[0], s[1], s[2], "bf16", "f32", "f32", s[0] / 4, s[1] / 4, 8, 8, "f32.bf16.bf16.f32", ""});
    }
    out.push_back({16, 16, 8, "tf32", "f32", "f32", 4, 4, 8, 8, "f32.tf32.tf32.f32", ""});
    out.push_back({8, 8, 4, "f64", "f64", "f64", 1, 1, 2, 2, "f64.f64.f64.f64.rn", ""});
    for (std::string type : {"s4", "u4"})
        out.push_back({8, 8, 32, type, "s32", "s32", 1, 1, 2, 2, "s32." + type + "." + type + ".s32", ""});
    for (std::string op : {".xor.popc", ".and.popc"})
        out.push_back({8, 8, 128, "b1", "s32", "s32", 1, 1, 2, 2, "s32.b1.b1.s32", op});
    return out;
}

std::string list(char name, int count) {
    std::string text = "{";
    for (int i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + std::string("%") + name + std::to_string(i);
    return text + "}";
}

struct Layouts {
    bool a_row = true, b_row = false, c_row = true, d_row = true;
    std::string space;  ///< of the loads and stores: "" or ".global"
};
const char* word(bool row) { return row ? "row" : "col"; }

/// Loads, multiplies, then doubles each element of D by adding the fragment's registers to themselves where that is meaningful,
/// and stores.
std::string kernel(const std::string& name, const Case& c, const Layouts& l) {
    std::string shape = "m" + std::to_string(c.m) + "n" + std::to_string(c.n) + "k" + std::to_string(c.k);
    auto reg = [&](char r, int count, const std::string& type) {
        return "  .reg " + std::string(type == "f64" ? ".b64" : ".b32") + " %" + r + "<" + std::to_string(count) + ">;\n";
    };
    std::string text = ".visible .entry " + name +
                       "(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd, .param .u32 sa, .param .u32 sb, "
                       ".param .u32 sc, .param .u32 sd) {\n"
                       "  .reg .b64 %rd<5>;\n  .reg .b32 %s<5>;\n" +
                       reg('a', c.a_regs, c.a) + reg('b', c.b_regs, c.a) + reg('c', c.c_regs, c.c) + reg('d', c.d_regs, c.d);
    const char* names = "abcd";
    for (int i = 0; i < 4; ++i) {
        text += "  ld.param.u64 %rd" + std::to_string(i) + ", [p" + names[i] + "];\n  ld.param.u32 %s" + std::to_string(i) +
                ", [s" + names[i] + "];\n";
        if (!l.space.empty()) text += "  cvta.to.global.u64 %rd" + std::to_string(i) + ", %rd" + std::to_string(i) + ";\n";
    }
    text += "  wmma.load.a.sync.aligned." + std::string(word(l.a_row)) + "." + shape + l.space + "." + c.a + " " +
            list('a', c.a_regs) + ", [%rd0], %s0;\n";
    text += "  wmma.load.b.sync.aligned." + std::string(word(l.b_row)) + "." + shape + l.space + "." + c.a + " " +
            list('b', c.b_regs) + ", [%rd1], %s1;\n";
    text += "  wmma.load.c.sync.aligned." + std::string(word(l.c_row)) + "." + shape + l.space + "." + c.c + " " +
            list('c', c.c_regs) + ", [%rd2], %s2;\n";
    text += "  wmma.mma" + c.operation + ".sync.aligned." + word(l.a_row) + "." + word(l.b_row) + "." + shape + "." + c.words +
            " " + list('d', c.d_regs) + ", " + list('a', c.a_regs) + ", " + list('b', c.b_regs) + ", " + list('c', c.c_regs) +
            ";\n";
    for (int i = 0; i < c.d_regs; ++i) {
        std::string r = "%d" + std::to_string(i), add = c.d == "f16"   ? "add.f16x2 "
                                                        : c.d == "f32" ? "add.f32 "
                                                        : c.d == "f64" ? "add.f64 "
                                                                       : "add.s32 ";
        text += "  " + add + r + ", " + r + ", " + r + ";\n";
    }
    text += "  wmma.store.d.sync.aligned." + std::string(word(l.d_row)) + "." + shape + l.space + "." + c.d + " [%rd3], " +
            list('d', c.d_regs) + ", %s3;\n  ret;\n}\n";
    return text;
}

/// A matrix in memory: rows or columns, `pitch` elements apart.
struct Stored {
    std::vector<uint8_t> bytes;
    int pitch;
};
Stored store(const std::string& type, const std::vector<double>& matrix, int rows, int columns, bool by_row) {
    int bits = bits_of(type), lines = by_row ? rows : columns, length = by_row ? columns : rows;
    int padding = bits < 8 ? 128 : 16;
    Stored out{{}, length + padding};
    out.bytes.assign(size_t((out.pitch * (lines - 1) + length) * bits / 8), 0xee);
    for (int line = 0; line < lines; ++line) {
        for (int i = 0; i < length; ++i) {
            uint64_t value =
                encode_value(type, by_row ? matrix[size_t(line * columns + i)] : matrix[size_t(i * columns + line)]);
            for (int bit = 0; bit < bits; ++bit) {
                int at = (line * out.pitch + i) * bits + bit;
                auto mask = uint8_t(1u << (at % 8));
                uint8_t& byte = out.bytes[size_t(at / 8)];
                byte = (value >> bit & 1) != 0 ? uint8_t(byte | mask) : uint8_t(byte & ~mask);
            }
        }
    }
    return out;
}

void check(Device& device, Module& module, const std::string& name, const Case& c, const Layouts& l, const std::string& what) {
    std::mt19937 random(uint32_t(std::hash<std::string>{}(what)));
    auto fill = [&](const std::string& type, int size) {
        std::vector<double> matrix;
        // Halves as sums hold whole numbers up to 2048 only; the result is doubled.
        for (int i = 0; i < size; ++i)
            matrix.push_back(c.d == "f16" || c.c == "f16" ? double(int(random() % 9) - 4) : random_value(type, random));
        return matrix;
    };
    auto a = fill(c.a, c.m * c.k), b = fill(c.a, c.k * c.n), sums = fill(c.c, c.m * c.n);
    Stored sa = store(c.a, a, c.m, c.k, l.a_row), sb = store(c.a, b, c.k, c.n, l.b_row),
           sc = store(c.c, sums, c.m, c.n, l.c_row);
    Stored sd = store(c.d, std::vector<double>(size_t(c.m * c.n), 1), c.m, c.n, l.d_row);
    uint64_t da = device.upload(sa.bytes), db = device.upload(sb.bytes), dc = device.upload(sc.bytes),
             dd = device.upload(sd.bytes);
    EXPECT_RUNS(device.launch(module, name, {.block = {32}}, da, db, dc, dd, sa.pitch, sb.pitch, sc.pitch, sd.pitch));
    std::vector<double> expected;
    for (int row = 0; row < c.m; ++row) {
        for (int column = 0; column < c.n; ++column) {
            double sum = sums[size_t(row * c.n + column)];
            for (int k = 0; k < c.k; ++k) {
                double x = a[size_t(row * c.k + k)], y = b[size_t(k * c.n + column)];
                sum += c.operation == ".xor.popc" ? double(x != y) : x * y;
            }
            expected.push_back(2 * sum);
        }
    }
    // Everything but the matrix itself keeps what was there.
    EXPECT_EQ(device.download<uint8_t>(dd, sd.bytes.size()), store(c.d, expected, c.m, c.n, l.d_row).bytes) << what;
}

TEST(SoftgpuMatrix, WmmaOfAllShapesTypesAndLayouts) {
    std::vector<std::tuple<std::string, Case, Layouts, std::string>> kernels;
    std::string ptx = ".version 8.0\n.target sm_80\n.address_size 64\n", messages;
    for (const Case& c : cases()) {
        bool fixed = bits_of(c.a) < 8;
        for (int bits = 0; bits < 16; ++bits) {
            Layouts l{(bits & 1) == 0, (bits & 2) != 0, (bits & 4) == 0, (bits & 8) == 0, bits % 3 == 0 ? ".global" : ""};
            if (fixed && (bits & 3) != 0) continue;
            if (bits > 3 && bits % 5 != 0 && !fixed) continue;  // a and b in all ways, the others in some
            std::string name = "k" + std::to_string(kernels.size());
            ptx += kernel(name, c, l);
            std::string what = "m" + std::to_string(c.m) + "n" + std::to_string(c.n) + "k" + std::to_string(c.k) + " " +
                               c.words + c.operation + " " + word(l.a_row) + " " + word(l.b_row) + " " + word(l.c_row) + " " +
                               word(l.d_row) + l.space;
            kernels.emplace_back(name, c, l, what);
        }
    }
    EXPECT_TRUE(ptxas_accepts(ptx, "sm_80", messages)) << messages;
    Device device;
    auto module = device.load(ptx);
    ASSERT_NE(module, nullptr);
    for (const auto& [name, c, l, what] : kernels) check(device, *module, name, c, l, what);
}

/// A matrix that reaches beyond its allocation is an illegal address, not a crash.
TEST(SoftgpuMatrix, WmmaBeyondMemoryFaults) {
    Case c{16, 16, 16, "f16", "f32", "f32", 8, 8, 8, 8, "f32.f32", ""};
    Device device;
    auto module = device.load(".version 8.0\n.target sm_80\n.address_size 64\n" + kernel("k", c, {}));
    ASSERT_NE(module, nullptr);
    uint64_t small = device.allocate(16 * 16 * 2 - 2), large = device.allocate(4096);
    Fault fault = device.launch(*module, "k", {.block = {32}}, small, large, large, large, 16, 16, 16, 16);
    EXPECT_EQ(fault.cu_result, 700) << fault.text;
}

constexpr const char* k_ldmatrix = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {
  .reg .b64 %rd<4>; .reg .b32 %r<32>; .shared .align 16 .b8 tile[512]; .shared .align 16 .b8 copy[512];
  ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x;
  // Each lane puts one row of 16 bytes into shared memory.
  shl.b32 %r2, %r1, 4;
  cvt.u64.u32 %rd3, %r2;
  add.s64 %rd3, %rd1, %rd3;
  ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%rd3];
  mov.u32 %r7, tile;
  add.u32 %r7, %r7, %r2;
  st.shared.v4.u32 [%r7], {%r3, %r4, %r5, %r6};
  bar.warp.sync -1;
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r7];
  ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r14, %r15, %r16, %r17}, [%r7];
  ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r18}, [%r7+128];
  ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r19, %r20}, [%r7];
  movmatrix.sync.aligned.m8n8.trans.b16 %r21, %r10;
  mov.u32 %r8, copy;
  add.u32 %r8, %r8, %r2;
  stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r8], {%r10, %r11, %r12, %r13};
  bar.warp.sync -1;
  ld.shared.v4.u32 {%r22, %r23, %r24, %r25}, [%r8];
  stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%r8], {%r14, %r15};
  bar.warp.sync -1;
  ld.shared.v4.u32 {%r26, %r27, %r28, %r29}, [%r8];
  mad.lo.u32 %r2, %r1, 80, 0;
  cvt.u64.u32 %rd3, %r2;
  add.s64 %rd3, %rd2, %rd3;
  st.global.v4.u32 [%rd3], {%r10, %r11, %r12, %r13};
  st.global.v4.u32 [%rd3+16], {%r14, %r15, %r16, %r17};
  st.global.v4.u32 [%rd3+32], {%r18, %r19, %r20, %r21};
  st.global.v4.u32 [%rd3+48], {%r22, %r23, %r24, %r25};
  st.global.v4.u32 [%rd3+64], {%r26, %r27, %r28, %r29};
  ret;
}
)";

TEST(SoftgpuMatrix, LdmatrixStmatrixMovmatrix) {
    std::string messages;
    ASSERT_TRUE(ptxas_accepts(k_ldmatrix, "sm_90", messages)) << messages;
    Device device;
    auto module = device.load(k_ldmatrix);
    ASSERT_NE(module, nullptr);
    std::vector<uint16_t> in(256);
    for (size_t i = 0; i < in.size(); ++i) in[i] = uint16_t(i * 97 + 3);
    uint64_t di = device.upload(in), dout = device.allocate(32 * 80);
    EXPECT_RUNS(device.launch(*module, "k", {.block = {32}}, di, dout));
    auto out = device.download<uint32_t>(dout, 32 * 20);
    auto element = [&](int matrix, int row, int column) { return uint32_t{in[size_t(matrix * 64 + row * 8 + column)]}; };
    auto pair = [&](int matrix, int row, int column, bool trans) {
        return trans ? element(matrix, column, row) | element(matrix, column + 1, row) << 16
                     : element(matrix, row, column) | element(matrix, row, column + 1) << 16;
    };
    for (int lane = 0; lane < 32; ++lane) {
        const uint32_t* got = &out[size_t(lane) * 20];
        int row = lane / 4, column = lane % 4 * 2;
        for (int m = 0; m < 4; ++m) {
            EXPECT_EQ(got[m], pair(m, row, column, false)) << lane;
            EXPECT_EQ(got[4 + m], pair(m, row, column, true)) << lane;
            EXPECT_EQ(got[12 + m], element(lane / 8, lane % 8, 2 * m) | element(lane / 8, lane % 8, 2 * m + 1) << 16)
                << lane;  // stored as it was
            // Transposed while loading and again while storing: the first two matrices as they were.
            int matrix = lane / 8;
            EXPECT_EQ(got[16 + m], element(matrix, lane % 8, 2 * m) | element(matrix, lane % 8, 2 * m + 1) << 16) << lane;
        }
        EXPECT_EQ(got[8], pair(1, row, column, false)) << lane;
        EXPECT_EQ(got[9], pair(0, row, column, true)) << lane;
        EXPECT_EQ(got[10], pair(1, row, column, true)) << lane;
        EXPECT_EQ(got[11], pair(0, row, column, true)) << lane;
    }
}

}  // namespace
}  // namespace warpline::softgpu::exec::test
