#pragma once

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace warpline::compress {

/// Bytes of a block before packing: small enough that a block and its packed form stay in the second-level cache.
inline constexpr size_t k_group_block_bytes = 256 * 1024;

/// Puts the first bytes of all elements first, then all second bytes, …; a tail of less than an element stays at the end.
/// Exponents of neighbouring numbers are alike, so that the grouped bytes compress where the plain ones do not.
void group_bytes_of(unsigned element_bytes, BytesView raw, std::byte* out);
void ungroup_bytes_of(unsigned element_bytes, BytesView grouped, std::byte* out);

/// Packed form: per block of k_group_block_bytes a 32-bit little-endian number (bytes that follow; the highest bit set: the
/// grouped bytes as they are, else an LZ4 block) and those bytes.
size_t grouped_bound(size_t raw_bytes);
Result<size_t> compress_grouped(unsigned element_bytes, int level, BytesView raw, MutableBytesView out);
Result<void> decompress_grouped(unsigned element_bytes, BytesView packed, MutableBytesView out);

}  // namespace warpline::compress
