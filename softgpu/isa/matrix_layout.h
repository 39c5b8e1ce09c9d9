// How the matrices of mma and wmma are spread over the registers of a warp.
// PTX ISA: "Matrix Fragments for mma.m8n8k4" and the sections after it. For wmma PTX leaves the layout open; ours is the one
// of mma, extended to its larger shapes, so that accumulators lie where programs that look inside them expect it on real
// devices.
#pragma once

#include <cstdint>
#include <string_view>

#include "softgpu/isa/matrix_spec.h"

namespace warpline::softgpu::isa {

struct MatrixShape {
    uint32_t m = 0, n = 0, k = 0;
};
/// "m16n8k16". False if it is no shape.
bool parse_shape(std::string_view word, MatrixShape& shape);

/// f16 … b1, e4m3, e5m2, s32. False for other words.
bool parse_matrix_kind(std::string_view word, MatrixKind& kind);
uint32_t bits_of(MatrixKind kind);
bool is_float(MatrixKind kind);
bool is_integer(MatrixKind kind);

/// Who holds what, for all shapes but m8n8k4 of f16: four neighbouring lanes hold a line of the matrix (a row of A, C and D, a
/// column of B), eight such groups hold eight lines; `run` elements that follow each other are with one lane. The next register
/// has the next eight lines, and after the last ones the following elements of the first.
struct FragmentShape {
    uint32_t lines = 0, length = 0;  ///< of the matrix, in elements
    uint32_t run = 1;
    uint32_t line_stride = 0, element_stride = 0;  ///< of the index that the table gives
};
/// A table of that shape with `per_lane` elements in a lane's register. Lives as long as the process. @thread any
FragmentTable fragment_table(const FragmentShape& shape, uint32_t per_lane);

/// The fragments of mma.m8n8k4 with f16: four products, each by lanes 4 q … 4 q + 3 and the ones 16 above.
enum class QuadPair { a_row, a_column, b_row, b_column, c_f16, c_f32 };
FragmentTable quad_pair_table(QuadPair which);

}  // namespace warpline::softgpu::isa
