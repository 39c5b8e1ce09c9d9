// Chunks of what clients upload, as processes of the server hand them to one another.
#pragma once

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace warpline::server {

/// What payloads are cut into, from their beginning; the last chunk has what is left.
constexpr uint64_t k_chunk_file_bytes = 1u << 20;

/// Bytes in a memfd that is sealed: it can be read, and neither changed nor cut. @errors io (no memory, no descriptor; detail
/// errno)
Result<int> make_chunk_file(BytesView bytes);
/// Reads as many bytes from the beginning of one. False if it has less.
bool read_chunk_file(int fd, MutableBytesView bytes);

}  // namespace warpline::server
