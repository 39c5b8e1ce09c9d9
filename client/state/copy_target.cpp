// Writing and reading rows that are not packed.
#include "client/state/copy_target.h"

#include <algorithm>
#include <cstring>

namespace warpline::client {

MutableBytesView CopyTarget::together(uint64_t offset, uint64_t bytes) const {
    const uint64_t total = total_bytes();
    if (collect || offset >= total || bytes > total - offset) return {};
    if (is_linear()) return {base + offset, bytes};
    const uint64_t row = offset / row_bytes, column = offset % row_bytes;
    if (bytes > row_bytes - column) return {};
    return {base + row / rows * slice_pitch_bytes + row % rows * pitch_bytes + column, bytes};
}

bool CopyTarget::write(uint64_t offset, BytesView bytes) const {
    if (collect) {
        if (offset > k_max_collect_bytes || bytes.size() > k_max_collect_bytes - offset) return false;
        if (collect->size() < offset + bytes.size()) collect->resize(offset + bytes.size());
        if (!bytes.empty()) std::memcpy(collect->data() + offset, bytes.data(), bytes.size());
        return true;
    }
    uint64_t total = total_bytes();
    if (offset > total || bytes.size() > total - offset) return false;
    if (is_linear()) {
        if (!bytes.empty()) std::memcpy(base + offset, bytes.data(), bytes.size());
        return true;
    }
    while (!bytes.empty()) {
        uint64_t row = offset / row_bytes;
        uint64_t column = offset % row_bytes;
        size_t count = std::min<uint64_t>(row_bytes - column, bytes.size());
        std::memcpy(base + row / rows * slice_pitch_bytes + row % rows * pitch_bytes + column, bytes.data(), count);
        offset += count;
        bytes = bytes.subspan(count);
    }
    return true;
}

void CopyTarget::gather(std::byte* out) const {
    for (uint64_t slice = 0; slice < slices; ++slice) {
        for (uint64_t row = 0; row < rows; ++row) {
            std::memcpy(out, base + slice * slice_pitch_bytes + row * pitch_bytes, row_bytes);
            out += row_bytes;
        }
    }
}

bool CopyTarget::spans(uint64_t address, uint64_t size_bytes) const {
    if (collect || total_bytes() == 0 || size_bytes == 0) return false;
    auto first = reinterpret_cast<uint64_t>(base);
    return address < first + span_bytes() && first < address + size_bytes;
}

}  // namespace warpline::client
