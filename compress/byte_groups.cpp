#include "compress/byte_groups.h"

#include <lz4.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

namespace warpline::compress {

namespace {

constexpr uint32_t k_stored = 0x80000000;

// A compile-time element size lets the compiler turn the loops into shuffles.
template <unsigned N>
void group(const std::byte* in, size_t count, std::byte* out) {
    for (size_t i = 0; i < count; i++)
        for (unsigned b = 0; b < N; b++) out[b * count + i] = in[i * N + b];
}
template <unsigned N>
void ungroup(const std::byte* in, size_t count, std::byte* out) {
    for (size_t i = 0; i < count; i++)
        for (unsigned b = 0; b < N; b++) out[i * N + b] = in[b * count + i];
}

size_t block_count(size_t raw_bytes) { return (raw_bytes + k_group_block_bytes - 1) / k_group_block_bytes; }

std::unique_ptr<std::byte[]> make_scratch(size_t raw_bytes) {
    return std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[std::min(raw_bytes, k_group_block_bytes)]);
}

}  // namespace

void group_bytes_of(unsigned element_bytes, BytesView raw, std::byte* out) {
    size_t count = raw.size() / element_bytes;
    if (element_bytes == 2) group<2>(raw.data(), count, out);
    if (element_bytes == 4) group<4>(raw.data(), count, out);
    if (element_bytes == 8) group<8>(raw.data(), count, out);
    std::copy(raw.begin() + static_cast<ptrdiff_t>(count * element_bytes), raw.end(), out + count * element_bytes);
}

void ungroup_bytes_of(unsigned element_bytes, BytesView grouped, std::byte* out) {
    size_t count = grouped.size() / element_bytes;
    if (element_bytes == 2) ungroup<2>(grouped.data(), count, out);
    if (element_bytes == 4) ungroup<4>(grouped.data(), count, out);
    if (element_bytes == 8) ungroup<8>(grouped.data(), count, out);
    std::copy(grouped.begin() + static_cast<ptrdiff_t>(count * element_bytes), grouped.end(), out + count * element_bytes);
}

// A block that LZ4 makes larger is stored, so it is never larger than itself. LZ4 itself is given room for its own bound of the
// last block, which makes it faster.
size_t grouped_bound(size_t raw_bytes) { return raw_bytes + block_count(raw_bytes) * sizeof(uint32_t); }

Result<size_t> compress_grouped(unsigned element_bytes, int level, BytesView raw, MutableBytesView out) {
    auto scratch = make_scratch(raw.size());
    if (scratch == nullptr) return Error{Code::alloc_failed, "no memory for byte grouping"};
    size_t written = 0;
    for (size_t start = 0; start < raw.size(); start += k_group_block_bytes) {
        BytesView block = raw.subspan(start, std::min(k_group_block_bytes, raw.size() - start));
        group_bytes_of(element_bytes, block, scratch.get());
        std::byte* body = out.data() + written + sizeof(uint32_t);
        // One byte less than the block: what does not get smaller is stored.
        int packed = LZ4_compress_fast(reinterpret_cast<const char*>(scratch.get()), reinterpret_cast<char*>(body),
                                       static_cast<int>(block.size()), static_cast<int>(block.size()) - 1, std::max(level, 1));
        uint32_t header = static_cast<uint32_t>(packed);
        if (packed <= 0) {
            std::memcpy(body, scratch.get(), block.size());
            header = static_cast<uint32_t>(block.size()) | k_stored;
        }
        std::memcpy(out.data() + written, &header, sizeof header);
        written += sizeof header + (header & ~k_stored);
    }
    return written;
}

Result<void> decompress_grouped(unsigned element_bytes, BytesView packed, MutableBytesView out) {
    auto scratch = make_scratch(out.size());
    if (scratch == nullptr) return Error{Code::alloc_failed, "no memory for byte grouping"};
    for (size_t start = 0; start < out.size(); start += k_group_block_bytes) {
        size_t block_bytes = std::min(k_group_block_bytes, out.size() - start);
        uint32_t header = 0;
        if (!read_at(packed, 0, header)) return Error{Code::malformed, "grouped data cut short"};
        packed = packed.subspan(sizeof header);
        size_t body_bytes = header & ~k_stored;
        if (body_bytes > packed.size()) return Error{Code::malformed, "grouped data cut short"};
        BytesView body = packed.first(body_bytes);
        packed = packed.subspan(body_bytes);
        if (header & k_stored) {
            if (body_bytes != block_bytes) return Error{Code::malformed, "grouped data is damaged"};
            ungroup_bytes_of(element_bytes, body, out.data() + start);
            continue;
        }
        int raw = LZ4_decompress_safe(reinterpret_cast<const char*>(body.data()), reinterpret_cast<char*>(scratch.get()),
                                      static_cast<int>(body_bytes), static_cast<int>(block_bytes));
        if (raw < 0 || static_cast<size_t>(raw) != block_bytes) return Error{Code::malformed, "grouped data is damaged"};
        ungroup_bytes_of(element_bytes, {scratch.get(), block_bytes}, out.data() + start);
    }
    if (!packed.empty()) return Error{Code::malformed, "grouped data is longer than announced"};
    return {};
}

}  // namespace warpline::compress
