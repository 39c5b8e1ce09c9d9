// From a pointer or bytes to the entries of an image, whatever container they are in.
#include "cuda/image/image.h"

#include <cstring>
#include <new>

#include "cuda/image/container.h"

namespace warpline::cuda::image {

namespace {

Result<uint64_t> fatbin_size(const FatbinHeader& header) {
    if (header.magic != k_fatbin_magic) return Error{Code::malformed, "no fatbin where one should be"};
    if (header.header_bytes < sizeof(FatbinHeader)) return Error{Code::malformed, "fatbin header too short"};
    if (header.size_bytes > k_max_image_bytes - header.header_bytes) return Error{Code::quota, "fatbin larger than we accept"};
    return header.header_bytes + header.size_bytes;
}

Result<BytesView> fatbin_at(const void* fatbin) {
    FatbinHeader header;
    std::memcpy(&header, fatbin, sizeof header);
    uint64_t size = WL_TRY(fatbin_size(header));
    return as_bytes(fatbin, size);
}

Compression compression_of(const EntryHeader& header) {
    if (header.compressed_bytes == 0) return Compression::none;
    if (header.flags & k_flag_zstd) return Compression::zstd;
    if (header.flags & k_flag_lz4) return Compression::lz4;
    return Compression::none;
}

Result<Entry> read_entry(const EntryHeader& header, BytesView payload, bool relocatable) {
    Entry entry;
    entry.alone = header.kind == k_kind_linked_ptx;
    if (header.kind == k_kind_ptx || entry.alone) entry.kind = EntryKind::ptx;
    if (header.kind == k_kind_cubin) entry.kind = EntryKind::cubin;
    entry.compression = compression_of(header);
    entry.arch_specific = (header.flags & k_flag_arch_specific) != 0;
    entry.family_specific = (header.flags & k_flag_family_specific) != 0;
    entry.relocatable = relocatable || entry.alone;
    entry.raw_kind = header.kind;
    entry.arch = header.arch;
    entry.flags = header.flags;
    if (entry.compression == Compression::none) {
        entry.stored = payload;
        entry.raw_bytes = payload.size();
    } else {
        if (header.compressed_bytes > payload.size()) return Error{Code::malformed, "compressed code exceeds its entry"};
        entry.stored = payload.first(header.compressed_bytes);
        entry.raw_bytes = header.raw_bytes;
    }
    return entry;
}

// What a bare cubin or PTX text is, as the only entry of its image.
Entry bare_entry(Container container, BytesView bytes) {
    Entry entry;
    entry.kind = container == Container::cubin ? EntryKind::cubin : EntryKind::ptx;
    entry.raw_kind = container == Container::cubin ? k_kind_cubin : k_kind_ptx;
    Target target = container == Container::cubin ? cubin_target(bytes) : ptx_target(as_text(bytes));
    entry.arch = target.arch;
    entry.arch_specific = target.arch_specific;
    entry.family_specific = target.family_specific;
    entry.raw_bytes = bytes.size();
    entry.stored = bytes;
    return entry;
}

}  // namespace

std::string_view Payload::text() const {
    std::string_view text = as_text(view());
    return text.substr(0, text.find('\0'));
}

// Lists the entries of a fatbin. An entry that does not fit is an error: a driver could not load the rest either.
Result<void> Image::add_part(BytesView bytes, bool relocatable) {
    FatbinHeader header;
    if (!read_at(bytes, 0, header)) return Error{Code::malformed, "fatbin cut short"};
    uint64_t size = WL_TRY(fatbin_size(header));
    if (size > bytes.size()) return Error{Code::malformed, "fatbin cut short"};
    bytes = bytes.first(size);
    auto part = static_cast<uint32_t>(m_parts.size());
    m_parts.push_back(bytes);

    uint64_t offset = header.header_bytes;
    while (offset < size) {
        EntryHeader entry_header;
        if (!read_at(bytes, offset, entry_header)) return Error{Code::malformed, "fatbin entry cut short"};
        uint64_t left = size - offset;
        if (entry_header.header_bytes < sizeof(EntryHeader) || entry_header.header_bytes > left)
            return Error{Code::malformed, "fatbin entry header of a wrong size"};
        if (entry_header.payload_bytes > left - entry_header.header_bytes)
            return Error{Code::malformed, "fatbin entry exceeds the fatbin"};
        if (m_entries.size() == k_max_entries) return Error{Code::quota, "fatbin with too many entries"};
        BytesView payload = bytes.subspan(offset + entry_header.header_bytes, entry_header.payload_bytes);
        m_entries.push_back(WL_TRY(read_entry(entry_header, payload, relocatable)));
        m_part_of_entry.push_back(part);
        offset += entry_header.header_bytes + entry_header.payload_bytes;
    }
    return {};
}

Result<Image> Image::from_wrapper(const void* code) {
    Wrapper wrapper;
    std::memcpy(&wrapper, code, sizeof wrapper);
    if (wrapper.data == nullptr) return Error{Code::malformed, "fatbin wrapper without a fatbin"};
    Image image;
    image.m_in_wrapper = true;
    WL_TRY(image.add_part(WL_TRY(fatbin_at(wrapper.data)), false));
    if (wrapper.version == 1) return image;
    if (wrapper.version != 2) return Error{Code::unsupported, "fatbin wrapper of an unknown version", wrapper.version};
    // Version 2: `data` is the device-linked fatbin, and an array of the translation units that it was linked from follows.
    uint64_t total = image.bytes().size();
    const void* const* units = static_cast<const void* const*>(wrapper.filename_or_fatbins);
    for (uint32_t i = 0; units != nullptr && units[i] != nullptr; i++) {
        if (i == k_max_entries) return Error{Code::quota, "fatbin wrapper with too many units"};
        BytesView unit = WL_TRY(fatbin_at(units[i]));
        total += unit.size();
        if (total > k_max_image_bytes) return Error{Code::quota, "image larger than we accept"};
        WL_TRY(image.add_part(unit, true));
    }
    return image;
}

Result<Image> Image::from_pointer(const void* code) {
    if (code == nullptr) return Error{Code::bad_argument, "no image"};
    uint32_t magic = 0;
    // PTX text may be shorter than a magic number: no byte after its terminating zero is read.
    size_t readable = strnlen(static_cast<const char*>(code), sizeof magic);
    std::memcpy(&magic, code, readable);
    if (magic == k_wrapper_magic) return from_wrapper(code);
    Image image;
    if (magic == k_fatbin_magic) {
        WL_TRY(image.add_part(WL_TRY(fatbin_at(code)), false));
        return image;
    }
    if (magic == k_elf_magic) {
        uint64_t size = WL_TRY(elf_size(static_cast<const std::byte*>(code), k_max_image_bytes));
        image.set_bare(Container::cubin, as_bytes(code, size));
        return image;
    }
    size_t length = strnlen(static_cast<const char*>(code), k_max_image_bytes);
    if (!looks_like_ptx(as_bytes(code, length))) return Error{Code::malformed, "neither fatbin nor cubin nor PTX", magic};
    if (length == k_max_image_bytes) return Error{Code::quota, "PTX larger than we accept"};
    image.set_bare(Container::ptx, as_bytes(code, length));
    return image;
}

Result<Image> Image::from_bytes(BytesView bytes) {
    if (bytes.empty()) return Error{Code::malformed, "empty image"};
    if (bytes.size() > k_max_image_bytes) return Error{Code::quota, "image larger than we accept"};
    uint32_t magic = 0;
    read_at(bytes, 0, magic);
    Image image;
    if (magic == k_fatbin_magic) {
        WL_TRY(image.add_part(bytes, false));
        for (BytesView rest = bytes.subspan(image.bytes().size()); !rest.empty();) {
            WL_TRY(image.add_part(rest, true));
            rest = rest.subspan(image.m_parts.back().size());
        }
        return image;
    }
    if (magic == k_elf_magic) {
        uint64_t size = WL_TRY(elf_size(bytes.data(), bytes.size()));
        image.set_bare(Container::cubin, bytes.first(size));
        return image;
    }
    if (!looks_like_ptx(bytes)) return Error{Code::malformed, "neither fatbin nor cubin nor PTX", magic};
    if (const void* end = std::memchr(bytes.data(), 0, bytes.size()))
        bytes = bytes.first(static_cast<const std::byte*>(end) - bytes.data());
    image.set_bare(Container::ptx, bytes);
    return image;
}

void Image::set_bare(Container container, BytesView bytes) {
    m_container = container;
    m_parts = {bytes};
    m_entries = {bare_entry(container, bytes)};
    m_part_of_entry = {0};
}

uint64_t Image::upload_bytes() const {
    uint64_t total = 0;
    for (BytesView part : m_parts) total += part.size();
    return total;
}

Result<void> Image::own() {
    if (!m_owned.empty()) return {};
    Bytes owned;
    try {
        // A terminating zero, so that PTX can be handed to a driver as it is.
        owned.reserve(upload_bytes() + 1);
    } catch (const std::bad_alloc&) {
        return Error{Code::alloc_failed, "no memory for a copy of the image"};
    }
    std::vector<const std::byte*> old_starts;
    for (BytesView part : m_parts) {
        old_starts.push_back(part.data());
        owned.insert(owned.end(), part.begin(), part.end());
    }
    owned.push_back(std::byte{0});
    std::vector<size_t> new_starts;
    size_t start = 0;
    for (BytesView& part : m_parts) {
        new_starts.push_back(start);
        part = BytesView(owned).subspan(start, part.size());
        start += part.size();
    }
    for (size_t i = 0; i < m_entries.size(); i++) {
        uint32_t part = m_part_of_entry[i];
        BytesView& stored = m_entries[i].stored;
        stored = BytesView(owned).subspan(new_starts[part] + (stored.data() - old_starts[part]), stored.size());
    }
    m_owned = std::move(owned);
    return {};
}

}  // namespace warpline::cuda::image
