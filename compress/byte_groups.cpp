// Byte grouping, and its packed form.
#include "compress/byte_groups.h"

#include <lz4.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>

#include "compress/zstd_codec.h"

namespace warpline::compress {

namespace {

constexpr uint32_t k_stored = 0x80000000;
constexpr size_t k_most_planes = 8;

// A compile-time element lets the compiler turn the loops into shuffles.
template <typename Element>
void group(const std::byte* in, size_t count, std::byte* __restrict out) {
    constexpr unsigned k_bits = sizeof(Element) * 8;
    for (size_t i = 0; i < count; i++) {
        Element element;
        std::memcpy(&element, in + i * sizeof element, sizeof element);
        element = static_cast<Element>((element << 1) | (element >> (k_bits - 1)));
        for (unsigned b = 0; b < sizeof element; b++) out[b * count + i] = static_cast<std::byte>(element >> (8 * b));
    }
}
template <typename Element>
void ungroup(const std::byte* __restrict in, size_t count, std::byte* __restrict out) {
    constexpr unsigned k_bits = sizeof(Element) * 8;
    for (size_t i = 0; i < count; i++) {
        Element element = 0;
        for (unsigned b = 0; b < sizeof element; b++)
            element = static_cast<Element>(element | static_cast<Element>(static_cast<Element>(in[b * count + i]) << (8 * b)));
        element = static_cast<Element>((element >> 1) | (element << (k_bits - 1)));
        std::memcpy(out + i * sizeof element, &element, sizeof element);
    }
}

size_t block_count(size_t raw_bytes) { return (raw_bytes + k_group_block_bytes - 1) / k_group_block_bytes; }

std::unique_ptr<std::byte[]> make_scratch(size_t raw_bytes) {
    return std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[std::min(raw_bytes, k_group_block_bytes)]);
}

/// True if a search for repetitions finds many: by a sample, as such a search costs ten times what coding single bytes does.
bool repeats_itself(BytesView plane) {
    constexpr size_t k_sample_bytes = 2048;
    const BytesView sample = plane.subspan((plane.size() - std::min(plane.size(), k_sample_bytes)) / 2);
    const int bytes = static_cast<int>(std::min(sample.size(), k_sample_bytes));
    std::array<char, k_sample_bytes / 2> out;
    return LZ4_compress_fast(reinterpret_cast<const char*>(sample.data()), out.data(), bytes, bytes / 2, 1) > 0;
}

/// Writes a plane with its length. @return bytes written @errors those of zstd
Result<size_t> compress_plane(int level, BytesView plane, std::byte* out, size_t room) {
    const MutableBytesView body(out + sizeof(uint32_t), room - sizeof(uint32_t));
    auto header = static_cast<uint32_t>(
        WL_TRY(repeats_itself(plane) ? compress_zstd(level == 0 ? 1 : level, plane, body) : compress_zstd_bytes(plane, body)));
    if (header >= plane.size()) {
        std::memcpy(body.data(), plane.data(), plane.size());
        header = static_cast<uint32_t>(plane.size()) | k_stored;
    }
    std::memcpy(out, &header, sizeof header);
    return sizeof header + (header & ~k_stored);
}

/// Takes a plane from the front of `packed`.
Result<void> decompress_plane(BytesView& packed, MutableBytesView plane) {
    uint32_t header = 0;
    if (!read_at(packed, 0, header)) return Error{Code::malformed, "grouped data cut short"};
    packed = packed.subspan(sizeof header);
    const size_t bytes = header & ~k_stored;
    if (bytes > packed.size()) return Error{Code::malformed, "grouped data cut short"};
    const BytesView body = packed.first(bytes);
    packed = packed.subspan(bytes);
    if ((header & k_stored) == 0) return decompress_zstd(body, plane);
    if (bytes != plane.size()) return Error{Code::malformed, "grouped data is damaged"};
    std::memcpy(plane.data(), body.data(), bytes);
    return {};
}

}  // namespace

void group_bytes_of(unsigned element_bytes, BytesView raw, std::byte* out) {
    const size_t count = raw.size() / element_bytes;
    if (element_bytes == 2) group<uint16_t>(raw.data(), count, out);
    if (element_bytes == 4) group<uint32_t>(raw.data(), count, out);
    if (element_bytes == 8) group<uint64_t>(raw.data(), count, out);
    std::copy(raw.begin() + static_cast<ptrdiff_t>(count * element_bytes), raw.end(), out + count * element_bytes);
}

void ungroup_bytes_of(unsigned element_bytes, BytesView grouped, std::byte* out) {
    const size_t count = grouped.size() / element_bytes;
    if (element_bytes == 2) ungroup<uint16_t>(grouped.data(), count, out);
    if (element_bytes == 4) ungroup<uint32_t>(grouped.data(), count, out);
    if (element_bytes == 8) ungroup<uint64_t>(grouped.data(), count, out);
    std::copy(grouped.begin() + static_cast<ptrdiff_t>(count * element_bytes), grouped.end(), out + count * element_bytes);
}

// A plane that gets larger is stored. While it is packed, it has zstd's own bound, which makes zstd faster.
size_t grouped_bound(size_t raw_bytes) {
    return raw_bytes + block_count(raw_bytes) * k_most_planes * sizeof(uint32_t) + zstd_bound(k_group_block_bytes) -
           k_group_block_bytes + sizeof(uint32_t);
}

Result<size_t> compress_grouped(unsigned element_bytes, int level, BytesView raw, MutableBytesView out) {
    const auto scratch = make_scratch(raw.size());
    if (scratch == nullptr) return Error{Code::alloc_failed, "no memory for byte grouping"};
    size_t written = 0;
    for (size_t start = 0; start < raw.size(); start += k_group_block_bytes) {
        const BytesView block = raw.subspan(start, std::min(k_group_block_bytes, raw.size() - start));
        group_bytes_of(element_bytes, block, scratch.get());
        BytesView grouped(scratch.get(), block.size());
        const size_t plane_bytes = block.size() / element_bytes;
        for (unsigned plane = 0; plane < element_bytes && plane_bytes != 0; ++plane) {
            written += WL_TRY(compress_plane(level, grouped.first(plane_bytes), out.data() + written, out.size() - written));
            grouped = grouped.subspan(plane_bytes);
        }
        std::memcpy(out.data() + written, grouped.data(), grouped.size());
        written += grouped.size();
    }
    return written;
}

Result<void> decompress_grouped(unsigned element_bytes, BytesView packed, MutableBytesView out) {
    const auto scratch = make_scratch(out.size());
    if (scratch == nullptr) return Error{Code::alloc_failed, "no memory for byte grouping"};
    for (size_t start = 0; start < out.size(); start += k_group_block_bytes) {
        const size_t block_bytes = std::min(k_group_block_bytes, out.size() - start);
        const size_t plane_bytes = block_bytes / element_bytes;
        MutableBytesView grouped(scratch.get(), block_bytes);
        for (unsigned plane = 0; plane < element_bytes && plane_bytes != 0; ++plane) {
            WL_TRY(decompress_plane(packed, grouped.first(plane_bytes)));
            grouped = grouped.subspan(plane_bytes);
        }
        if (grouped.size() > packed.size()) return Error{Code::malformed, "grouped data cut short"};
        std::memcpy(grouped.data(), packed.data(), grouped.size());
        packed = packed.subspan(grouped.size());
        ungroup_bytes_of(element_bytes, {scratch.get(), block_bytes}, out.data() + start);
    }
    if (!packed.empty()) return Error{Code::malformed, "grouped data is longer than announced"};
    return {};
}

}  // namespace warpline::compress
