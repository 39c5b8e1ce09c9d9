// PTX texts as one image, and back.
#include "softgpu/driver/code/link_state.h"

#include <cstring>

namespace warpline::softgpu::driver {

namespace {

constexpr char k_state_magic[8] = {'W', 'L', 'L', 'I', 'N', 'K', '0', '1'};

struct Header {
    char magic[8];
    uint64_t total_bytes;
    uint64_t count;
};

void append(Bytes& out, const void* data, size_t size_bytes) {
    const auto* bytes = static_cast<const std::byte*>(data);
    out.insert(out.end(), bytes, bytes + size_bytes);
}

}  // namespace

Bytes make_linked_image(const std::vector<std::string>& ptx) {
    Bytes image;
    if (ptx.size() == 1) {
        append(image, ptx.front().c_str(), ptx.front().size() + 1);
        return image;
    }
    Header header{};
    std::memcpy(header.magic, k_state_magic, sizeof(k_state_magic));
    header.count = ptx.size();
    header.total_bytes = sizeof(header);
    for (const std::string& text : ptx) header.total_bytes += sizeof(uint64_t) + text.size();
    append(image, &header, sizeof(header));
    for (const std::string& text : ptx) {
        uint64_t length = text.size();
        append(image, &length, sizeof(length));
        append(image, text.data(), text.size());
    }
    return image;
}

std::optional<std::vector<std::string>> read_linked_image(const void* image) {
    // Images of other kinds may be shorter than the magic, but not if they begin like it.
    if (std::strncmp(static_cast<const char*>(image), k_state_magic, sizeof(k_state_magic)) != 0) return std::nullopt;
    Header header;
    std::memcpy(&header, image, sizeof(header));
    BytesView bytes = as_bytes(image, header.total_bytes);
    std::vector<std::string> texts;
    size_t at = sizeof(header);
    for (uint64_t i = 0; i < header.count; ++i) {
        uint64_t length = 0;
        if (!read_at(bytes, at, length) || length > bytes.size() - at - sizeof(length)) return std::vector<std::string>();
        at += sizeof(length);
        texts.emplace_back(as_text(bytes.subspan(at, length)));
        at += length;
    }
    return texts;
}

}  // namespace warpline::softgpu::driver
