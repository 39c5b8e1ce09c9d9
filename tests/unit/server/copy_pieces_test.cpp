// Cutting copies with rows and layers: every byte once, in order, in pieces that are neither too large nor tiny (B3).
#include "server/hooks/copy_pieces.h"

#include <gtest/gtest.h>

#include <vector>

namespace warpline::server {
namespace {

TEST(CopyPieces, B3_CoverACopyOnceAndInOrder) {
    for (const uint64_t row_bytes : {1, 7, 16, 40}) {
        for (const uint64_t rows : {1, 2, 5, 9}) {
            for (const uint64_t layers : {1, 3}) {
                for (const uint64_t most : {16, 32, 64, 4096}) {
                    SCOPED_TRACE(testing::Message() << row_bytes << "x" << rows << "x" << layers << " by " << most);
                    const Extent all{row_bytes, rows, layers};
                    uint64_t offset = 0;
                    while (offset < all.total_bytes()) {
                        const Piece piece = piece_at(all, offset, most);
                        // The first byte is where it says, and the others follow it when it is packed by itself.
                        ASSERT_EQ(piece.offset, offset);
                        ASSERT_EQ((piece.layer * rows + piece.row) * row_bytes + piece.x_bytes, offset);
                        ASSERT_TRUE(piece.extent.row_bytes == row_bytes ||
                                    (piece.extent.rows == 1 && piece.extent.layers == 1));
                        ASSERT_TRUE(piece.extent.rows == rows || piece.extent.layers == 1);
                        // Within the copy.
                        ASSERT_LE(piece.x_bytes + piece.extent.row_bytes, row_bytes);
                        ASSERT_LE(piece.row + piece.extent.rows, rows);
                        ASSERT_LE(piece.layer + piece.extent.layers, layers);
                        ASSERT_GT(piece.bytes(), 0u);
                        ASSERT_LE(piece.bytes(), most);
                        offset += piece.bytes();
                    }
                    EXPECT_EQ(offset, all.total_bytes());
                }
            }
        }
    }
}

TEST(CopyPieces, B3_ManyShortRowsGoTogether) {
    constexpr uint64_t k_most = 1 << 20;
    const Extent all{4, 64 << 20, 1};
    EXPECT_EQ(piece_at(all, 0, k_most).extent.rows, k_most / 4);
    const Extent layers{4, 4, 16 << 20};
    EXPECT_EQ(piece_at(layers, 0, k_most).extent.layers, k_most / 16);
}

TEST(CopyPieces, A2_RowsOfBlocksStayTogether) {
    constexpr uint64_t k_most = 1 << 20;
    const Extent all{100'000, 1000, 1};
    for (uint64_t offset = 0; offset < all.total_bytes();) {
        const Piece piece = piece_at(all, offset, k_most);
        EXPECT_EQ(piece.row % 4, 0u);
        offset += piece.bytes();
    }
}

TEST(CopyPieces, NothingIsOnePiece) {
    EXPECT_EQ(piece_at({0, 5, 1}, 0, 16).bytes(), 0u);
    EXPECT_EQ(piece_at({16, 0, 1}, 0, 16).bytes(), 0u);
}

}  // namespace
}  // namespace warpline::server
