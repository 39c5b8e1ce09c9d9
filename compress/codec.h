// How bytes are packed, and unpacked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/bytes.h"
#include "common/base/result.h"

/// Codecs behind one interface. No threads, no allocation that the peer controls: the size after decompression is told by the
/// caller, who has checked it against its own bound.
namespace warpline::compress {

/// How bytes are packed. The numbers travel in frame headers: append only.
enum class Codec : uint8_t {
    none = 0,
    lz4 = 1,     ///< LZ4 block
    zstd = 2,    ///< Zstandard frame
    group2 = 3,  ///< bytes of 2-byte elements (half, bfloat16) grouped by position, then Zstandard (byte_groups.h)
    group4 = 4,  ///< likewise 4-byte elements (float, int)
    group8 = 5,  ///< likewise 8-byte elements (double, int64)
};
inline constexpr uint8_t k_codec_count = 6;

/// A set of codecs: bit n for number n. Travels in the handshake.
using CodecSet = uint32_t;
constexpr CodecSet bit(Codec codec) { return CodecSet{1} << static_cast<unsigned>(codec); }
inline constexpr CodecSet k_all_codecs = (CodecSet{1} << k_codec_count) - 1 - bit(Codec::none);

/// The largest chunk that a codec takes, so that sizes fit LZ4's int.
inline constexpr size_t k_max_chunk_bytes = size_t{1} << 30;

/// The codec of a number that came from outside.
///
/// @errors  unsupported (no such codec)
Result<Codec> codec_from_wire(uint8_t number);
const char* to_string(Codec codec);

inline constexpr int k_highest_level = 19;

/// Room that compress() may need for this much input; 0 if the input is larger than k_max_chunk_bytes.
size_t max_packed_bytes(Codec codec, size_t raw_bytes);

/// Packs `raw` into `out`, which has at least max_packed_bytes().
///
/// @param level  zstd, and where byte grouping uses it to find repetitions: 1 … 19 (0: the default, 3 and 1). LZ4: 0 or 1
///               normal, above that faster and weaker (its acceleration)
/// @return       bytes written to `out`
/// @errors       bad_argument (too large a chunk, too small an `out`, no such level), alloc_failed, internal
/// @thread       any
Result<size_t> compress(Codec codec, int level, BytesView raw, MutableBytesView out);

/// Unpacks `packed` to exactly out.size() bytes. `packed` may be hostile: nothing outside of the two is read or written, and
/// the memory needed besides has a fixed bound (byte grouping: one block; zstd: pooled contexts of some 150 KiB).
///
/// @errors  malformed (not what the codec writes, or of another size), bad_argument (larger than k_max_chunk_bytes),
/// alloc_failed
/// @thread  any
Result<void> decompress(Codec codec, BytesView packed, MutableBytesView out);

}  // namespace warpline::compress
