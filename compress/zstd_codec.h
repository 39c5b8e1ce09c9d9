// Zstandard: frames as every zstd reads them.
#pragma once

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace warpline::compress {

size_t zstd_bound(size_t raw_bytes);
Result<size_t> compress_zstd(int level, BytesView raw, MutableBytesView out);
/// Without a search for repetitions: each byte is coded by how often it occurs (Huffman's codes), several GB a second.
/// @param raw  at most k_zstd_bytes_limit
Result<size_t> compress_zstd_bytes(BytesView raw, MutableBytesView out);
Result<void> decompress_zstd(BytesView packed, MutableBytesView out);

inline constexpr size_t k_zstd_bytes_limit = size_t{4} << 20;

}  // namespace warpline::compress
