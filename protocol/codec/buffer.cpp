// Memory that grows without being cleared.
#include "protocol/codec/buffer.h"

#include <algorithm>

namespace warpline::protocol {

bool Buffer::reserve(size_t capacity_bytes) {
    if (capacity_bytes <= m_capacity) return true;
    void* grown = std::realloc(m_data, capacity_bytes);
    if (!grown) return false;
    m_data = static_cast<std::byte*>(grown);
    m_capacity = capacity_bytes;
    return true;
}

bool Buffer::resize(size_t size_bytes) {
    if (!reserve(size_bytes)) return false;
    m_size = size_bytes;
    return true;
}

bool Buffer::append(BytesView bytes) {
    if (bytes.empty()) return true;
    size_t needed = m_size + bytes.size();
    if (needed > m_capacity && !reserve(std::max(needed, m_capacity * 2))) return false;
    std::memcpy(m_data + m_size, bytes.data(), bytes.size());
    m_size = needed;
    return true;
}

}  // namespace warpline::protocol
