// Entries of fatbins that are compressed: LZ4 and zstd.
#include <lz4.h>
#include <zstd.h>

#include <new>

#include "cuda/image/image.h"

namespace warpline::cuda::image {

namespace {

// The most that a compressed byte can stand for, so that a small forged entry cannot make us reserve a gigabyte: an LZ4 length
// byte stands for 255 bytes, a 4-byte zstd block for 128 KiB.
constexpr uint64_t k_lz4_max_ratio = 255;
constexpr uint64_t k_zstd_max_ratio = 32768;
constexpr uint64_t k_ratio_slack_bytes = 128 * 1024;

Result<void> unpack(const Entry& entry, Bytes& out) {
    if (entry.compression == Compression::zstd) {
        size_t got = ZSTD_decompress(out.data(), out.size(), entry.stored.data(), entry.stored.size());
        if (ZSTD_isError(got) || got != out.size()) return Error{Code::malformed, "zstd code in a fatbin is damaged"};
        return {};
    }
    int got = LZ4_decompress_safe(reinterpret_cast<const char*>(entry.stored.data()), reinterpret_cast<char*>(out.data()),
                                  static_cast<int>(entry.stored.size()), static_cast<int>(out.size()));
    if (got < 0 || static_cast<size_t>(got) != out.size()) return Error{Code::malformed, "LZ4 code in a fatbin is damaged"};
    return {};
}

}  // namespace

Result<Payload> decompress(const Entry& entry) {
    if (entry.compression == Compression::none) return Payload(entry.stored);
    if (entry.raw_bytes > k_max_image_bytes) return Error{Code::quota, "code larger than we accept"};
    uint64_t ratio = entry.compression == Compression::zstd ? k_zstd_max_ratio : k_lz4_max_ratio;
    if (entry.raw_bytes > entry.stored.size() * ratio + k_ratio_slack_bytes)
        return Error{Code::malformed, "fatbin entry claims an impossible size"};
    try {
        Bytes out(entry.raw_bytes);
        WL_TRY(unpack(entry, out));
        return Payload(std::move(out));
    } catch (const std::bad_alloc&) {
        return Error{Code::alloc_failed, "no memory to decompress code"};
    }
}

}  // namespace warpline::cuda::image
