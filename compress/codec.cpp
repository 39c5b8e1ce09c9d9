// One interface for all codecs.
#include "compress/codec.h"

#include <lz4.h>

#include <algorithm>
#include <cstring>

#include "compress/byte_groups.h"
#include "compress/zstd_codec.h"

namespace warpline::compress {

namespace {

const char* chars(const std::byte* bytes) { return reinterpret_cast<const char*>(bytes); }
char* chars(std::byte* bytes) { return reinterpret_cast<char*>(bytes); }

Result<size_t> compress_lz4(int level, BytesView raw, MutableBytesView out) {
    int packed = LZ4_compress_fast(chars(raw.data()), chars(out.data()), static_cast<int>(raw.size()),
                                   static_cast<int>(std::min(out.size(), size_t{LZ4_MAX_INPUT_SIZE})), std::max(level, 1));
    if (packed <= 0) return Error{Code::internal, "LZ4 did not pack into its own bound"};
    return static_cast<size_t>(packed);
}

Result<void> decompress_lz4(BytesView packed, MutableBytesView out) {
    int raw = LZ4_decompress_safe(chars(packed.data()), chars(out.data()), static_cast<int>(packed.size()),
                                  static_cast<int>(out.size()));
    if (raw < 0 || static_cast<size_t>(raw) != out.size()) return Error{Code::malformed, "LZ4 data is damaged"};
    return {};
}

unsigned group_bytes(Codec codec) {
    switch (codec) {
        case Codec::group2: return 2;
        case Codec::group4: return 4;
        case Codec::group8: return 8;
        default: return 0;
    }
}

}  // namespace

Result<Codec> codec_from_wire(uint8_t number) {
    if (number >= k_codec_count) return Error{Code::unsupported, "unknown codec", number};
    return static_cast<Codec>(number);
}

const char* to_string(Codec codec) {
    switch (codec) {
        case Codec::none: return "none";
        case Codec::lz4: return "lz4";
        case Codec::zstd: return "zstd";
        case Codec::group2: return "group2";
        case Codec::group4: return "group4";
        case Codec::group8: return "group8";
    }
    return "unknown";
}

size_t max_packed_bytes(Codec codec, size_t raw_bytes) {
    if (raw_bytes > k_max_chunk_bytes) return 0;
    switch (codec) {
        case Codec::none: return raw_bytes;
        case Codec::lz4: return static_cast<size_t>(LZ4_compressBound(static_cast<int>(raw_bytes)));
        case Codec::zstd: return zstd_bound(raw_bytes);
        default: return grouped_bound(raw_bytes);
    }
}

Result<size_t> compress(Codec codec, int level, BytesView raw, MutableBytesView out) {
    if (raw.size() > k_max_chunk_bytes) return Error{Code::bad_argument, "chunk too large to pack"};
    if (out.size() < max_packed_bytes(codec, raw.size())) return Error{Code::bad_argument, "too little room to pack"};
    if (raw.empty()) return size_t{0};
    switch (codec) {
        case Codec::none: std::memcpy(out.data(), raw.data(), raw.size()); return raw.size();
        case Codec::lz4: return compress_lz4(level, raw, out);
        case Codec::zstd: return compress_zstd(level, raw, out);
        default: return compress_grouped(group_bytes(codec), level, raw, out);
    }
}

Result<void> decompress(Codec codec, BytesView packed, MutableBytesView out) {
    if (out.size() > k_max_chunk_bytes || packed.size() > 2 * k_max_chunk_bytes - 1)
        return Error{Code::bad_argument, "chunk too large to unpack"};
    if (out.empty()) {
        if (!packed.empty()) return Error{Code::malformed, "packed data where none should be"};
        return {};
    }
    if (packed.empty()) return Error{Code::malformed, "packed data missing"};
    switch (codec) {
        case Codec::none:
            if (packed.size() != out.size()) return Error{Code::malformed, "data of another size than announced"};
            std::memcpy(out.data(), packed.data(), packed.size());
            return {};
        case Codec::lz4: return decompress_lz4(packed, out);
        case Codec::zstd: return decompress_zstd(packed, out);
        default: return decompress_grouped(group_bytes(codec), packed, out);
    }
}

}  // namespace warpline::compress
