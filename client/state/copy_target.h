// Where a copy's rows lie in the program's memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/bytes.h"

namespace warpline::client {

/// Where bytes that come from the server go in the program's memory: rows of equal length, evenly spaced, in evenly spaced
/// slices. A plain copy is one row.
struct CopyTarget {
    std::byte* base = nullptr;
    uint64_t row_bytes = 0;
    uint64_t rows = 1;
    uint64_t pitch_bytes = 0;
    uint64_t slices = 1;
    uint64_t slice_pitch_bytes = 0;
    Bytes* collect = nullptr;  ///< instead of all that: bytes of which nobody knows how many come

    static constexpr uint64_t k_max_collect_bytes = 1ull << 30;
    static CopyTarget into(Bytes& bytes) {
        CopyTarget target;
        target.collect = &bytes;
        return target;
    }
    static CopyTarget linear(void* destination, uint64_t size_bytes) {
        return {static_cast<std::byte*>(destination), size_bytes, 1, size_bytes, 1, size_bytes};
    }
    uint64_t total_bytes() const { return row_bytes * rows * slices; }
    /// From the first byte to the last, with what lies between the rows.
    uint64_t span_bytes() const {
        return total_bytes() == 0 ? 0 : (slices - 1) * slice_pitch_bytes + (rows - 1) * pitch_bytes + row_bytes;
    }
    /// From a layer's first row to the next layer's, in rows; as many as are copied where there is one layer.
    uint64_t layer_rows() const { return slices > 1 && pitch_bytes > 0 ? slice_pitch_bytes / pitch_bytes : rows; }
    bool is_linear() const { return !collect && rows_are_packed(); }
    bool rows_are_packed() const {
        return rows * slices <= 1 || (pitch_bytes == row_bytes && (slices == 1 || slice_pitch_bytes == row_bytes * rows));
    }

    /// Where bytes that belong at `offset` of the packed rows lie together; empty if they do not.
    MutableBytesView together(uint64_t offset, uint64_t bytes) const;
    /// Writes bytes that belong at `offset` of the packed rows. False if they do not fit.
    bool write(uint64_t offset, BytesView bytes) const;
    /// Reads all rows, packed, as the source of a copy to the device. `out` has total_bytes() bytes.
    void gather(std::byte* out) const;
    /// True if the address range that the rows span meets [address, address + size).
    bool spans(uint64_t address, uint64_t size_bytes) const;
};

}  // namespace warpline::client
