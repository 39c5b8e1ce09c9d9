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

constexpr unsigned k_window_bits = 5;  // of an exponent, in one byte with the three bits behind it
constexpr unsigned k_window = 1u << k_window_bits;

template <typename Element>
struct Float;
template <>
struct Float<uint16_t> {
    static constexpr unsigned k_fraction_bits = 7, k_exponent_bits = 8;  // bfloat16
};
template <>
struct Float<uint32_t> {
    static constexpr unsigned k_fraction_bits = 23, k_exponent_bits = 8;
};
template <>
struct Float<uint64_t> {
    static constexpr unsigned k_fraction_bits = 52, k_exponent_bits = 11;
};

/// The window that most exponents of a block are in, if they vary as those of random numbers do.
template <typename Element>
ExponentWindow find_window(const std::byte* in, size_t count) {
    constexpr size_t k_looks = 1024, k_most_outside = 2;
    constexpr unsigned k_below = 24;  // numbers spread to small ones
    constexpr unsigned k_exponents = 1u << Float<Element>::k_exponent_bits;
    if (count < k_looks) return {};
    std::array<uint16_t, k_exponents> seen{};
    const size_t stride = count / k_looks;
    for (size_t i = 0; i < k_looks; ++i) {
        Element element;
        std::memcpy(&element, in + i * stride * sizeof element, sizeof element);
        ++seen[(element >> Float<Element>::k_fraction_bits) % k_exponents];
    }
    const auto most = std::max_element(seen.begin(), seen.end());
    if (*most > k_looks / 2) return {};
    const auto lowest = static_cast<unsigned>(most - seen.begin() + k_exponents - k_below) % k_exponents;
    size_t inside = 0;
    for (unsigned i = 0; i < k_window; ++i) inside += seen[(lowest + i) % k_exponents];
    if (k_looks - inside > k_most_outside) return {};
    return {true, static_cast<uint16_t>(lowest)};
}

/// An element's bits in the order in which they are grouped.
template <typename Element, bool in_window>
struct Order {
    static constexpr unsigned k_bits = sizeof(Element) * 8;
    static constexpr unsigned k_left = in_window ? 1 + Float<Element>::k_exponent_bits - k_window_bits : 1;

    static Element there(Element element, Element base) {
        if constexpr (in_window) element = static_cast<Element>(element - base);
        return static_cast<Element>((element << k_left) | (element >> (k_bits - k_left)));
    }
    static Element back(Element element, Element base) {
        element = static_cast<Element>((element >> k_left) | (element << (k_bits - k_left)));
        if constexpr (in_window) element = static_cast<Element>(element + base);
        return element;
    }
};

// A compile-time element lets the compiler turn the loops into shuffles.
template <typename Element, bool in_window>
void group(const std::byte* in, size_t count, Element base, std::byte* __restrict out) {
    for (size_t i = 0; i < count; i++) {
        Element element;
        std::memcpy(&element, in + i * sizeof element, sizeof element);
        element = Order<Element, in_window>::there(element, base);
        for (unsigned b = 0; b < sizeof element; b++) out[b * count + i] = static_cast<std::byte>(element >> (8 * b));
    }
}
template <typename Element, bool in_window>
void ungroup(const std::byte* __restrict in, size_t count, Element base, std::byte* __restrict out) {
    for (size_t i = 0; i < count; i++) {
        Element element = 0;
        for (unsigned b = 0; b < sizeof element; b++)
            element = static_cast<Element>(element | static_cast<Element>(static_cast<Element>(in[b * count + i]) << (8 * b)));
        element = Order<Element, in_window>::back(element, base);
        std::memcpy(out + i * sizeof element, &element, sizeof element);
    }
}

template <typename Element>
Element base_of(ExponentWindow window) {
    return static_cast<Element>(Element{window.lowest} << Float<Element>::k_fraction_bits);
}
template <typename Element>
void group_elements(ExponentWindow window, const std::byte* in, size_t count, std::byte* out) {
    if (window.is_used) return group<Element, true>(in, count, base_of<Element>(window), out);
    group<Element, false>(in, count, 0, out);
}
template <typename Element>
void ungroup_elements(ExponentWindow window, const std::byte* in, size_t count, std::byte* out) {
    if (window.is_used) return ungroup<Element, true>(in, count, base_of<Element>(window), out);
    ungroup<Element, false>(in, count, 0, out);
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

ExponentWindow exponent_window(unsigned element_bytes, BytesView raw) {
    const size_t count = raw.size() / element_bytes;
    if (element_bytes == 2) return find_window<uint16_t>(raw.data(), count);
    if (element_bytes == 4) return find_window<uint32_t>(raw.data(), count);
    return find_window<uint64_t>(raw.data(), count);
}

void group_bytes_of(unsigned element_bytes, ExponentWindow window, BytesView raw, std::byte* out) {
    const size_t count = raw.size() / element_bytes;
    if (element_bytes == 2) group_elements<uint16_t>(window, raw.data(), count, out);
    if (element_bytes == 4) group_elements<uint32_t>(window, raw.data(), count, out);
    if (element_bytes == 8) group_elements<uint64_t>(window, raw.data(), count, out);
    std::copy(raw.begin() + static_cast<ptrdiff_t>(count * element_bytes), raw.end(), out + count * element_bytes);
}

void ungroup_bytes_of(unsigned element_bytes, ExponentWindow window, BytesView grouped, std::byte* out) {
    const size_t count = grouped.size() / element_bytes;
    if (element_bytes == 2) ungroup_elements<uint16_t>(window, grouped.data(), count, out);
    if (element_bytes == 4) ungroup_elements<uint32_t>(window, grouped.data(), count, out);
    if (element_bytes == 8) ungroup_elements<uint64_t>(window, grouped.data(), count, out);
    std::copy(grouped.begin() + static_cast<ptrdiff_t>(count * element_bytes), grouped.end(), out + count * element_bytes);
}

// A plane that gets larger is stored. While it is packed, it has zstd's own bound, which makes zstd faster.
size_t grouped_bound(size_t raw_bytes) {
    return raw_bytes + block_count(raw_bytes) * (sizeof(uint16_t) + k_most_planes * sizeof(uint32_t)) +
           zstd_bound(k_group_block_bytes) - k_group_block_bytes + sizeof(uint32_t);
}

Result<size_t> compress_grouped(unsigned element_bytes, int level, BytesView raw, MutableBytesView out) {
    const auto scratch = make_scratch(raw.size());
    if (scratch == nullptr) return Error{Code::alloc_failed, "no memory for byte grouping"};
    size_t written = 0;
    for (size_t start = 0; start < raw.size(); start += k_group_block_bytes) {
        const BytesView block = raw.subspan(start, std::min(k_group_block_bytes, raw.size() - start));
        const ExponentWindow window = exponent_window(element_bytes, block);
        const auto header = static_cast<uint16_t>(window.is_used ? window.lowest + 1 : 0);
        std::memcpy(out.data() + written, &header, sizeof header);
        written += sizeof header;
        group_bytes_of(element_bytes, window, block, scratch.get());
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
        uint16_t header = 0;
        if (!read_at(packed, 0, header)) return Error{Code::malformed, "grouped data cut short"};
        packed = packed.subspan(sizeof header);
        const ExponentWindow window{header != 0, static_cast<uint16_t>(header - 1)};
        MutableBytesView grouped(scratch.get(), block_bytes);
        for (unsigned plane = 0; plane < element_bytes && plane_bytes != 0; ++plane) {
            WL_TRY(decompress_plane(packed, grouped.first(plane_bytes)));
            grouped = grouped.subspan(plane_bytes);
        }
        if (grouped.size() > packed.size()) return Error{Code::malformed, "grouped data cut short"};
        std::memcpy(grouped.data(), packed.data(), grouped.size());
        packed = packed.subspan(grouped.size());
        ungroup_bytes_of(element_bytes, window, {scratch.get(), block_bytes}, out.data() + start);
    }
    if (!packed.empty()) return Error{Code::malformed, "grouped data is longer than announced"};
    return {};
}

}  // namespace warpline::compress
