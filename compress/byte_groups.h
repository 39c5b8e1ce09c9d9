// Numbers, taken apart so that what is alike in neighbours lies together.
#pragma once

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace warpline::compress {

/// Bytes of a block before packing: small enough that a block and its packed form stay in the second-level cache.
inline constexpr size_t k_group_block_bytes = 256 * 1024;

/// Turns each element left by one bit, so that a floating-point number's sign leaves its exponent, and puts the lowest bytes of
/// all elements first, then all second bytes, …; a tail of less than an element stays at the end as it is. Exponents of
/// neighbouring numbers are alike, so that the last of these *planes* compress where the plain bytes do not.
void group_bytes_of(unsigned element_bytes, BytesView raw, std::byte* out);
void ungroup_bytes_of(unsigned element_bytes, BytesView grouped, std::byte* out);

/// Packed form: per block of k_group_block_bytes, and per plane of it, a 32-bit little-endian number (bytes that follow; the
/// highest bit set: the plane as it is, else a Zstandard frame) and those bytes; then the tail.
size_t grouped_bound(size_t raw_bytes);
/// @param level  zstd's, for planes that repeat themselves; of others each byte is coded by how often it occurs
Result<size_t> compress_grouped(unsigned element_bytes, int level, BytesView raw, MutableBytesView out);
Result<void> decompress_grouped(unsigned element_bytes, BytesView packed, MutableBytesView out);

}  // namespace warpline::compress
