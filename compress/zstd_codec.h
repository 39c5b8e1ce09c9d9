#pragma once

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace warpline::compress {

size_t zstd_bound(size_t raw_bytes);
Result<size_t> compress_zstd(int level, BytesView raw, MutableBytesView out);
Result<void> decompress_zstd(BytesView packed, MutableBytesView out);

}  // namespace warpline::compress
