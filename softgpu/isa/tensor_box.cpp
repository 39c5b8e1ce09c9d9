// The geometry of tensor copies. PTX ISA, "Tensors": tiled mode, im2col mode, interleave layout, swizzling modes.
#include "softgpu/isa/tensor_box.h"

#include <algorithm>

namespace warpline::softgpu::isa {

using exec::TensorInterleave;
using exec::TensorMap;
using exec::TensorSwizzle;

namespace {

uint32_t divide_up(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

/// Units of a slice of channels; 0 where there are no slices.
uint32_t slice_units(const TensorMap& map) { return exec::slice_bytes(map.interleave) / exec::unit_bytes(map.type); }

uint32_t slices_in(const TensorMap& map, uint32_t channels) {
    const uint32_t units = slice_units(map);
    return units == 0 ? 1 : divide_up(channels, units);
}

uint32_t steps_in(const TensorMap& map, uint32_t dimension) { return divide_up(map.box[dimension], map.steps[dimension]); }

}  // namespace

TensorLayout tensor_layout(const TensorMap& map, TensorAccess access) {
    TensorLayout layout;
    const bool sliced = map.interleave != TensorInterleave::none;
    layout.row_units = sliced ? slice_units(map) : divide_up(map.box[0], exec::elements_per_unit(map.type));
    layout.row_bytes = layout.row_units * exec::shared_unit_bytes(map.type);
    layout.rows = slices_in(map, map.box[0]);
    switch (access) {
        case TensorAccess::tile:
            for (uint32_t d = 1; d < map.rank; ++d) layout.rows *= steps_in(map, d);
            break;
        case TensorAccess::gather4: layout.rows *= 4; break;
        case TensorAccess::im2col:
        case TensorAccess::im2col_w: layout.rows *= map.box[1]; break;
    }
    // "If the swizzle width exceeds the inner dimension, ensure that the shared memory is allocated to accommodate the full
    // swizzle width" (CUDA C++ Programming Guide, "TMA Swizzle"): a row takes a whole span.
    const uint32_t span = exec::swizzle_span(map.swizzle);
    layout.pitch_bytes = sliced ? layout.row_bytes : std::max(layout.row_bytes, span);
    layout.extent_bytes = (layout.rows - 1) * layout.pitch_bytes + layout.row_bytes;
    if (span != 0) layout.extent_bytes = (layout.extent_bytes + span - 1) / span * span;
    return layout;
}

TensorRows::TensorRows(const TensorMap& map, TensorAccess access, const TensorStart& start)
    : m_map(map), m_access(access), m_start(start), m_layout(tensor_layout(map, access)), m_slice_units(slice_units(map)) {
    const uint32_t batch = map.rank - 1u;
    for (uint32_t d = 0; d < map.rank; ++d) m_first[d] = start.coordinates[d];
    if (access == TensorAccess::im2col || access == TensorAccess::im2col_w) {
        const bool wide = access == TensorAccess::im2col_w;
        for (uint32_t d = 1; d < batch; ++d) {
            // In the wide mode the operands are the halo and the offset in W; H and D stay.
            const int64_t offset = !wide ? start.offsets[d - 1] : d == 1 ? start.offsets[1] : 0;
            m_first[d] += offset;
            m_lower[d] = map.lower[d - 1] + offset;
            m_upper[d] = int64_t{map.last[d]} + map.upper[d - 1] + offset;
        }
    }
    m_at = m_first;
}

TensorRow TensorRows::row() const {
    TensorRow row;
    uint64_t address = m_map.address;
    for (uint32_t d = 1; d < m_map.rank; ++d) {
        if (m_at[d] < 0 || m_at[d] > int64_t{m_map.last[d]}) return row;
        address += uint64_t(m_at[d]) * m_map.strides[d - 1];
    }
    const int64_t per_unit = exec::elements_per_unit(m_map.type);
    const int64_t begin = std::max<int64_t>(m_at[0], 0);
    const int64_t end = std::min<int64_t>(m_at[0] + int64_t{m_layout.row_units} * per_unit, int64_t{m_map.last[0]} + 1);
    if (begin >= end) return row;
    row.first = uint32_t((begin - m_at[0]) / per_unit);
    row.units = uint32_t((end - begin) / per_unit);
    auto unit = uint64_t(begin / per_unit);
    if (m_slice_units != 0) {
        // NC/8HWC8: the slices of an image follow each other. What lies before them is the largest of its dimensions.
        const uint32_t outer = m_map.rank - 2u;
        address += unit / m_slice_units * (m_map.strides[outer - 1] * (uint64_t{m_map.last[outer]} + 1));
        unit %= m_slice_units;
    }
    row.address = address + unit * exec::unit_bytes(m_map.type);
    return row;
}

uint32_t TensorRows::slices() const { return slices_in(m_map, m_map.box[0]); }

bool TensorRows::step(uint32_t dimension, uint32_t count, uint32_t distance) {
    m_at[dimension] += distance;
    if (++m_step[dimension] < count) return false;
    m_step[dimension] = 0;
    m_at[dimension] = m_first[dimension];
    return true;
}

void TensorRows::next_in_box() {
    const uint32_t batch = m_map.rank - 1u;
    for (uint32_t d = 1; d <= batch; ++d) {
        // Slices lie within an image, around its pixels.
        if (d == batch && m_slice_units != 0 && !step(0, slices(), m_slice_units)) return;
        if (!step(d, steps_in(m_map, d), m_map.steps[d])) return;
    }
}

void TensorRows::next_pixel() {
    const uint32_t batch = m_map.rank - 1u;
    if (++m_number == m_map.box[1]) {  // the same pixels of the next slice
        m_number = 0;
        const int64_t channel = m_at[0] + m_slice_units;
        m_at = m_first;
        m_at[0] = channel;
        return;
    }
    const uint32_t moving = m_access == TensorAccess::im2col_w ? 2 : batch;
    for (uint32_t d = 1; d < moving; ++d) {
        m_at[d] += m_map.steps[d];
        if (m_at[d] <= m_upper[d]) return;
        m_at[d] = m_lower[d];
    }
    ++m_at[batch];
}

void TensorRows::next() {
    switch (m_access) {
        case TensorAccess::tile: return next_in_box();
        case TensorAccess::gather4:
            if (++m_number < 4) m_at[1] = m_start.coordinates[1 + m_number];
            return;
        case TensorAccess::im2col:
        case TensorAccess::im2col_w: return next_pixel();
    }
}

uint32_t swizzled(TensorSwizzle mode, uint32_t offset) {
    const uint32_t line = offset >> 7;
    switch (mode) {
        case TensorSwizzle::none: return offset;
        case TensorSwizzle::span_32: return offset ^ (line & 1) << 4;
        case TensorSwizzle::span_64: return offset ^ (line & 3) << 4;
        case TensorSwizzle::span_128: return offset ^ (line & 7) << 4;
        case TensorSwizzle::span_128_atom_32: return offset ^ (line & 3) << 5;
        case TensorSwizzle::span_128_atom_32_flip_8: return offset ^ (line & 3) << 5 ^ (line & 1) << 3;
        case TensorSwizzle::span_128_atom_64: return offset ^ (line & 1) << 6;
    }
    return offset;
}

}  // namespace warpline::softgpu::isa
