// What a matrix instruction does, decoded. Read by handlers that are compiled once per CPU level: plain data, no C++ library.
#pragma once

#include <cstdint>

namespace warpline::softgpu::isa {

enum class MatrixKind : uint8_t { f16, bf16, tf32, f32, f64, e4m3, e5m2, s8, u8, s4, u4, b1, s32 };

/// How the values of one register lie in the matrix, lanes in their order.
enum class Arrangement : uint8_t {
    scattered,  ///< as the table says
    lines,      ///< those of four lanes follow each other
    columns,    ///< eight lines of them, turned: value e of line l is `pitch` * e + l after the first
    pairs,      ///< one value a lane: those of four lanes take turns with those of the next register
};

/// Where the values of a fragment lie. `at` has for each register, in it for each lane, and there for each value, its index in
/// the matrix.
struct FragmentTable {
    const uint16_t* at = nullptr;
    uint32_t registers = 0;  ///< that hold the matrix once
    uint32_t per_lane = 1;   ///< values in one register of a lane
    Arrangement arrangement = Arrangement::scattered;
    uint32_t pitch = 0;
};

struct MatrixOperand {
    MatrixKind kind = MatrixKind::f16;
    FragmentTable table;
    uint32_t count = 0;  ///< registers written in the PTX; those beyond table.registers repeat the first ones
    int32_t slots[16] = {};
};

constexpr uint32_t k_matrix_elements = 2048;      ///< most elements of a multiplicand
constexpr uint32_t k_accumulator_elements = 256;  ///< most elements of C and D

/// D = A * B + C. A is indexed row * k + column, B row * n + column (but column * k + row for integers, bits and f64),
/// C and D row * n + column. Several products (`batch`) lie one after the other.
struct MatrixSpec {
    MatrixOperand a, b, c, d;
    uint32_t m = 0, n = 0, k = 0, batch = 1;
    bool saturate = false;  ///< .satfinite
    bool bits_and = false;  ///< b1: and instead of xor
};

}  // namespace warpline::softgpu::isa
