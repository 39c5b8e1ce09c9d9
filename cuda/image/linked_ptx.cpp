// Texts that were linked at run time, as an image that the readers of images know.
#include <cstring>

#include "cuda/image/container.h"
#include "cuda/image/image.h"

namespace warpline::cuda::image {

namespace {

void append(Bytes& out, const void* data, size_t size_bytes) {
    const auto* bytes = static_cast<const std::byte*>(data);
    out.insert(out.end(), bytes, bytes + size_bytes);
}

}  // namespace

Bytes make_linked_ptx(const std::vector<std::string>& texts) {
    Bytes image(sizeof(FatbinHeader));
    for (const std::string& text : texts) {
        const Target target = ptx_target(text);
        EntryHeader entry{};
        entry.kind = k_kind_linked_ptx;
        entry.version = 0x101;
        entry.header_bytes = sizeof entry;
        entry.payload_bytes = (text.size() / 8 + 1) * 8;  // the text ends with a zero at least
        entry.arch = target.arch;
        if (target.arch_specific) entry.flags |= k_flag_arch_specific;
        if (target.family_specific) entry.flags |= k_flag_family_specific;
        append(image, &entry, sizeof entry);
        append(image, text.data(), text.size());
        image.resize(image.size() + entry.payload_bytes - text.size());
    }
    const FatbinHeader header{k_fatbin_magic, 1, sizeof header, image.size() - sizeof header};
    std::memcpy(image.data(), &header, sizeof header);
    return image;
}

}  // namespace warpline::cuda::image
