// Which bytes of a tensor an instruction means, and where they lie in shared memory. PTX ISA, "Tensors".
#pragma once

#include <array>

#include "softgpu/exec/tensor_map.h"

namespace warpline::softgpu::isa {

enum class TensorAccess : uint8_t { tile, gather4, im2col, im2col_w };

/// The operands of one thread.
struct TensorStart {
    int32_t coordinates[exec::k_max_tensor_rank] = {};   ///< gather4: column, then four rows
    uint16_t offsets[exec::k_max_tensor_rank - 2] = {};  ///< im2col: offsets in W, H, D; im2col::w: halo, offset in W
};

/// The box in shared memory: rows of units that are next to each other.
struct TensorLayout {
    uint64_t rows = 0;
    uint32_t row_units = 0;
    uint32_t row_bytes = 0;     ///< a multiple of 16
    uint32_t pitch_bytes = 0;   ///< from one row to the next
    uint64_t extent_bytes = 0;  ///< from the first byte to the last, swizzled
    /// What the copy tells its barrier.
    uint64_t bytes() const { return rows * row_bytes; }
};
TensorLayout tensor_layout(const exec::TensorMap& map, TensorAccess access);

/// The part of a row that is inside of the tensor: `units` of them, from number `first` on, at `address`.
struct TensorRow {
    uint64_t address = 0;
    uint32_t first = 0, units = 0;
};

/// Goes through the rows of a box in the order in which they lie in shared memory.
class TensorRows {
public:
    TensorRows(const exec::TensorMap& map, TensorAccess access, const TensorStart& start);
    TensorRow row() const;
    void next();

private:
    using Coordinates = std::array<int64_t, exec::k_max_tensor_rank>;
    uint32_t slices() const;
    void next_in_box();
    void next_pixel();
    /// Whether the row number of a dimension went round.
    bool step(uint32_t dimension, uint32_t count, uint32_t distance);

    const exec::TensorMap& m_map;
    const TensorAccess m_access;
    const TensorStart& m_start;
    const TensorLayout m_layout;
    uint32_t m_slice_units = 0;                     ///< interleaved: units of a slice
    uint32_t m_number = 0;                          ///< gather4: row; im2col: pixel of the column
    Coordinates m_first = {}, m_at = {};            ///< where the box begins, and the row
    Coordinates m_lower = {}, m_upper = {};         ///< im2col: the bounding box, offsets included
    uint32_t m_step[exec::k_max_tensor_rank] = {};  ///< number of the row in each dimension; [0]: of the slice
};

/// Where a byte of the unswizzled box lies: `offset` is one in the block's shared memory.
/// PTX ISA, "Swizzling Modes", and CUDA C++ Programming Guide, "TMA Swizzle": the number of the 128-byte line selects, by
/// exclusive or, the place of each chunk within its span.
uint32_t swizzled(exec::TensorSwizzle mode, uint32_t offset);

}  // namespace warpline::softgpu::isa
