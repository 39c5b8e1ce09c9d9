// How copies with rows and layers are cut, so that they go through a little memory.
#pragma once

#include <algorithm>
#include <cstdint>

namespace warpline::server {

/// What a copy moves: layers of rows of bytes, packed on the wire. A linear copy is one row.
struct Extent {
    uint64_t row_bytes = 0;
    uint64_t rows = 1;
    uint64_t layers = 1;

    constexpr uint64_t layer_bytes() const { return row_bytes * rows; }
    constexpr uint64_t total_bytes() const { return layer_bytes() * layers; }
};

/// A box of it whose bytes lie together when it is packed.
struct Piece {
    uint64_t offset = 0;  ///< of the packed bytes
    uint64_t x_bytes = 0, row = 0, layer = 0;
    Extent extent;

    constexpr uint64_t bytes() const { return extent.total_bytes(); }
};

/// The piece that begins at `offset`, where the one before it ended: whole layers; if one is too large, whole rows; if one is
/// too large, a part of it.
///
/// @param most_bytes  of a piece; a multiple of the elements' size, which is a power of two and 16 at most
constexpr Piece piece_at(const Extent& all, uint64_t offset, uint64_t most_bytes) {
    /// Formats that are compressed in blocks have four rows in each.
    constexpr uint64_t k_rows_together = 4;
    if (all.total_bytes() == 0) return {.extent = all};
    Piece piece{offset, offset % all.row_bytes, offset % all.layer_bytes() / all.row_bytes, offset / all.layer_bytes(), {}};
    if (piece.x_bytes != 0 || all.row_bytes > most_bytes) {
        piece.extent = {std::min(most_bytes, all.row_bytes - piece.x_bytes), 1, 1};
    } else if (piece.row != 0 || all.layer_bytes() > most_bytes) {
        uint64_t rows = most_bytes / all.row_bytes;
        if (rows > k_rows_together) rows -= rows % k_rows_together;
        piece.extent = {all.row_bytes, std::min(rows, all.rows - piece.row), 1};
    } else {
        piece.extent = {all.row_bytes, all.rows, std::min(most_bytes / all.layer_bytes(), all.layers - piece.layer)};
    }
    return piece;
}

}  // namespace warpline::server
