// Layouts of matrix fragments as PTX's figures have them, to compare with.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

/// Where the elements of mma's fragments lie, written down from the tables of the PTX ISA (sections "Matrix Fragments for
/// mma.…"), one formula for each shape. g = lane / 4, t = lane % 4; i counts the elements of a lane from the lowest bits of its
/// first register.
namespace warpline::softgpu::exec::test {

struct Place {
    int row, column;
};
using Layout = std::function<Place(int lane, int i)>;

struct MmaCase {
    std::string shape, layouts, a_type, b_type, c_type, d_type, suffix;  ///< suffix: after the types, as ".xor.popc"
    int m, n, k, products;
    Layout a, b, c, d;
    std::string arch;
};

inline int group(int lane) { return lane / 4; }
inline int member(int lane) { return lane % 4; }

// --- 16-bit factors
inline Place a_16x8_16bit(int lane, int i) { return {group(lane) + (i < 2 ? 0 : 8), member(lane) * 2 + (i & 1)}; }
inline Place b_8x8_16bit(int lane, int i) { return {member(lane) * 2 + i, group(lane)}; }
inline Place a_16x16_16bit(int lane, int i) {
    return {(i < 2 || (i >= 4 && i < 6)) ? group(lane) : group(lane) + 8, member(lane) * 2 + (i & 1) + (i < 4 ? 0 : 8)};
}
inline Place b_16x8_16bit(int lane, int i) { return {member(lane) * 2 + (i & 1) + (i < 2 ? 0 : 8), group(lane)}; }
// --- tf32
inline Place a_16x4_tf32(int lane, int i) { return {i == 0 ? group(lane) : group(lane) + 8, member(lane)}; }
inline Place b_4x8_tf32(int lane, int) { return {member(lane), group(lane)}; }
inline Place a_16x8_tf32(int lane, int i) {
    return {i == 0 || i == 2 ? group(lane) : group(lane) + 8, i < 2 ? member(lane) : member(lane) + 4};
}
inline Place b_8x8_tf32(int lane, int i) { return {i == 0 ? member(lane) : member(lane) + 4, group(lane)}; }
// --- f64
inline Place a_8x4_f64(int lane, int) { return {group(lane), member(lane)}; }
inline Place b_4x8_f64(int lane, int) { return {member(lane), group(lane)}; }
inline Place a_16x4_f64(int lane, int i) { return {i == 0 ? group(lane) : group(lane) + 8, member(lane)}; }
inline Place a_16x8_f64(int lane, int i) {
    return {i == 0 || i == 2 ? group(lane) : group(lane) + 8, i < 2 ? member(lane) : member(lane) + 4};
}
inline Place b_8x8_f64(int lane, int i) { return {i == 0 ? member(lane) : member(lane) + 4, group(lane)}; }
inline Place a_16x16_f64(int lane, int i) {
    return {i % 2 == 0 ? group(lane) : group(lane) + 8, i % 2 == 0 ? i * 2 + member(lane) : i * 2 - 2 + member(lane)};
}
inline Place b_16x8_f64(int lane, int i) { return {member(lane) + i * 4, group(lane)}; }
// --- bytes
inline Place a_8x16_8bit(int lane, int i) { return {group(lane), member(lane) * 4 + i}; }
inline Place b_16x8_8bit(int lane, int i) { return {member(lane) * 4 + i, group(lane)}; }
inline Place a_16x16_8bit(int lane, int i) { return {i < 4 ? group(lane) : group(lane) + 8, member(lane) * 4 + (i & 3)}; }
inline Place a_16x32_8bit(int lane, int i) {
    return {(i < 4 || (i >= 8 && i < 12)) ? group(lane) : group(lane) + 8, member(lane) * 4 + (i & 3) + (i < 8 ? 0 : 16)};
}
inline Place b_32x8_8bit(int lane, int i) { return {member(lane) * 4 + (i & 3) + (i < 4 ? 0 : 16), group(lane)}; }
// --- four bits
inline Place a_8x32_4bit(int lane, int i) { return {group(lane), member(lane) * 8 + i}; }
inline Place b_32x8_4bit(int lane, int i) { return {member(lane) * 8 + i, group(lane)}; }
inline Place a_16x32_4bit(int lane, int i) { return {i < 8 ? group(lane) : group(lane) + 8, member(lane) * 8 + (i & 7)}; }
inline Place a_16x64_4bit(int lane, int i) {
    return {(i < 8 || (i >= 16 && i < 24)) ? group(lane) : group(lane) + 8, member(lane) * 8 + (i & 7) + (i < 16 ? 0 : 32)};
}
inline Place b_64x8_4bit(int lane, int i) { return {member(lane) * 8 + (i & 7) + (i < 8 ? 0 : 32), group(lane)}; }
// --- bits
inline Place a_8x128_1bit(int lane, int i) { return {group(lane), member(lane) * 32 + i}; }
inline Place b_128x8_1bit(int lane, int i) { return {member(lane) * 32 + i, group(lane)}; }
inline Place a_16x128_1bit(int lane, int i) { return {i < 32 ? group(lane) : group(lane) + 8, member(lane) * 32 + (i & 31)}; }
inline Place a_16x256_1bit(int lane, int i) {
    return {(i < 32 || (i >= 64 && i < 96)) ? group(lane) : group(lane) + 8, member(lane) * 32 + (i & 31) + (i < 64 ? 0 : 128)};
}
inline Place b_256x8_1bit(int lane, int i) { return {member(lane) * 32 + (i & 31) + (i < 32 ? 0 : 128), group(lane)}; }
// --- sums
inline Place c_8x8(int lane, int i) { return {group(lane), member(lane) * 2 + i}; }
inline Place c_16x8(int lane, int i) { return {i < 2 ? group(lane) : group(lane) + 8, member(lane) * 2 + (i & 1)}; }
// --- m8n8k4 of f16: rows and columns within the product of the lane's quad pair
inline Place quad_a_row(int lane, int i) { return {lane < 16 ? lane % 4 : lane % 4 + 4, i}; }
inline Place quad_a_col(int lane, int i) { return {lane < 16 ? i % 4 : i % 4 + 4, lane % 4}; }
inline Place quad_b_row(int lane, int i) { return {lane % 4, lane < 16 ? i : i + 4}; }
inline Place quad_b_col(int lane, int i) { return {i, lane < 16 ? lane % 4 : lane % 4 + 4}; }
inline Place quad_c_f16(int lane, int i) { return {lane < 16 ? lane % 4 : lane % 4 + 4, i}; }
inline Place quad_c_f32(int lane, int i) {
    return {(lane & 1) + (i & 2) + (lane < 16 ? 0 : 4), (i & 4) + (lane & 2) + (i & 1)};
}

inline std::vector<MmaCase> mma_cases() {
    std::vector<MmaCase> cases;
    auto add = [&](std::string shape, std::string a, std::string b, std::string c, std::string d, int m, int n, int k,
                   Layout la, Layout lb, Layout lc, std::string arch = "sm_80", std::string suffix = "") {
        cases.push_back({shape, ".row.col", a, b, c, d, suffix, m, n, k, 1, la, lb, lc, lc, arch});
    };
    for (std::string c : {"f16", "f32"}) {
        for (std::string d : {"f16", "f32"}) {
            if (c == d) {
                add("m16n8k8", "f16", "f16", c, d, 16, 8, 8, a_16x8_16bit, b_8x8_16bit, c_16x8);
                add("m16n8k16", "f16", "f16", c, d, 16, 8, 16, a_16x16_16bit, b_16x8_16bit, c_16x8);
            }
            for (std::string la : {"row", "col"})
                for (std::string lb : {"row", "col"}) {
                    if (c == "f32" && d == "f16") continue;
                    cases.push_back({"m8n8k4", "." + la + "." + lb, "f16", "f16", c, d, "", 8, 8, 4, 4,
                                     la == "row" ? quad_a_row : quad_a_col, lb == "row" ? quad_b_row : quad_b_col,
                                     c == "f16" ? quad_c_f16 : quad_c_f32, d == "f16" ? quad_c_f16 : quad_c_f32, "sm_80"});
                }
        }
    }
    add("m16n8k8", "bf16", "bf16", "f32", "f32", 16, 8, 8, a_16x8_16bit, b_8x8_16bit, c_16x8);
    add("m16n8k16", "bf16", "bf16", "f32", "f32", 16, 8, 16, a_16x16_16bit, b_16x8_16bit, c_16x8);
    add("m16n8k4", "tf32", "tf32", "f32", "f32", 16, 8, 4, a_16x4_tf32, b_4x8_tf32, c_16x8);
    add("m16n8k8", "tf32", "tf32", "f32", "f32", 16, 8, 8, a_16x8_tf32, b_8x8_tf32, c_16x8);
    add("m8n8k4", "f64", "f64", "f64", "f64", 8, 8, 4, a_8x4_f64, b_4x8_f64, c_8x8);
    add("m16n8k4", "f64", "f64", "f64", "f64", 16, 8, 4, a_16x4_f64, b_4x8_f64, c_16x8, "sm_90");
    add("m16n8k8", "f64", "f64", "f64", "f64", 16, 8, 8, a_16x8_f64, b_8x8_f64, c_16x8, "sm_90");
    add("m16n8k16", "f64", "f64", "f64", "f64", 16, 8, 16, a_16x16_f64, b_16x8_f64, c_16x8, "sm_90");
    for (std::string a : {"s8", "u8"})
        for (std::string b : {"s8", "u8"}) {
            add("m8n8k16", a, b, "s32", "s32", 8, 8, 16, a_8x16_8bit, b_16x8_8bit, c_8x8);
            add("m16n8k16", a, b, "s32", "s32", 16, 8, 16, a_16x16_8bit, b_16x8_8bit, c_16x8);
            add("m16n8k32", a, b, "s32", "s32", 16, 8, 32, a_16x32_8bit, b_32x8_8bit, c_16x8);
        }
    for (std::string a : {"s4", "u4"})
        for (std::string b : {"s4", "u4"}) {
            add("m8n8k32", a, b, "s32", "s32", 8, 8, 32, a_8x32_4bit, b_32x8_4bit, c_8x8);
            add("m16n8k32", a, b, "s32", "s32", 16, 8, 32, a_16x32_4bit, b_32x8_4bit, c_16x8);
            add("m16n8k64", a, b, "s32", "s32", 16, 8, 64, a_16x64_4bit, b_64x8_4bit, c_16x8);
        }
    for (std::string op : {".xor.popc", ".and.popc"}) {
        add("m8n8k128", "b1", "b1", "s32", "s32", 8, 8, 128, a_8x128_1bit, b_128x8_1bit, c_8x8, "sm_80", op);
        add("m16n8k128", "b1", "b1", "s32", "s32", 16, 8, 128, a_16x128_1bit, b_128x8_1bit, c_16x8, "sm_80", op);
        add("m16n8k256", "b1", "b1", "s32", "s32", 16, 8, 256, a_16x256_1bit, b_256x8_1bit, c_16x8, "sm_80", op);
    }
    for (std::string a : {"e4m3", "e5m2"})
        for (std::string b : {"e4m3", "e5m2"}) {
            add("m16n8k32", a, b, "f32", "f32", 16, 8, 32, a_16x32_8bit, b_32x8_8bit, c_16x8, "sm_89");
            add("m16n8k16", a, b, "f16", "f16", 16, 8, 16, a_16x16_8bit, b_16x8_8bit, c_16x8, "sm_89");
        }
    return cases;
}

}  // namespace warpline::softgpu::exec::test
