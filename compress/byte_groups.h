// Numbers, taken apart so that what is alike in neighbours lies together.
#pragma once

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace warpline::compress {

/// Bytes of a block before packing: small enough that a block and its packed form stay in the second-level cache.
inline constexpr size_t k_group_block_bytes = 256 * 1024;

/// The 32 exponents that (nearly) all numbers of a block have. `lowest` may be any number: what is not in the window is only
/// packed less well.
struct ExponentWindow {
    bool is_used = false;  ///< false: the exponents are not those of random numbers of one size
    uint16_t lowest = 0;   ///< as in the number, of bfloat16, float or double
};
/// What a sample of these numbers shows: a microsecond or two.
ExponentWindow exponent_window(unsigned element_bytes, BytesView raw);

/// Turns each element left by some bits, and puts the lowest bytes of all elements first, then all second bytes, …; a tail of
/// less than an element stays at the end as it is. Exponents of neighbouring numbers are alike, so that some of these *planes*
/// compress where the plain bytes do not.
///
/// Without a window it is one bit, so that a floating-point number's sign leaves its exponent. With one, `lowest` is subtracted
/// from the exponent (as from an integer), and the last plane has its five lowest bits and three of the fraction, which depend
/// on each other: coded together random numbers come closer to what their entropy allows (by 0.4 % for floats).
void group_bytes_of(unsigned element_bytes, ExponentWindow window, BytesView raw, std::byte* out);
void ungroup_bytes_of(unsigned element_bytes, ExponentWindow window, BytesView grouped, std::byte* out);

/// Packed form: per block of k_group_block_bytes a 16-bit little-endian number (0: without a window, else its lowest exponent
/// and one); per plane of it a 32-bit one (bytes that follow; the highest bit set: the plane as it is, else a Zstandard frame)
/// and those bytes; then the tail.
size_t grouped_bound(size_t raw_bytes);
/// @param level  zstd's, for planes that repeat themselves; of others each byte is coded by how often it occurs
Result<size_t> compress_grouped(unsigned element_bytes, int level, BytesView raw, MutableBytesView out);
Result<void> decompress_grouped(unsigned element_bytes, BytesView packed, MutableBytesView out);

}  // namespace warpline::compress
