// Bytes of messages.
#pragma once

#include <cstdlib>
#include <utility>
#include <vector>

#include "common/base/bytes.h"

namespace warpline::protocol {

/// Bytes on the heap, aligned for Cap'n Proto and, unlike std::vector, not cleared when made. Moves, does not copy.
class Buffer {
public:
    Buffer() = default;
    ~Buffer() { std::free(m_data); }
    Buffer(Buffer&& other) noexcept { swap(other); }
    Buffer& operator=(Buffer&& other) noexcept {
        swap(other);
        return *this;
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    /// Makes room for at least this many bytes in all and keeps the contents. False if there is no memory.
    [[nodiscard]] bool reserve(size_t capacity_bytes);
    /// Sets the size; new bytes have no particular value. False if there is no memory.
    [[nodiscard]] bool resize(size_t size_bytes);
    /// Appends a copy. False if there is no memory.
    [[nodiscard]] bool append(BytesView bytes);
    void clear() { m_size = 0; }

    std::byte* data() { return m_data; }
    const std::byte* data() const { return m_data; }
    size_t size() const { return m_size; }
    size_t capacity() const { return m_capacity; }
    bool empty() const { return m_size == 0; }
    BytesView view() const { return {m_data, m_size}; }
    MutableBytesView mutable_view() { return {m_data, m_size}; }

    void swap(Buffer& other) noexcept {
        std::swap(m_data, other.m_data);
        std::swap(m_size, other.m_size);
        std::swap(m_capacity, other.m_capacity);
    }

private:
    std::byte* m_data = nullptr;
    size_t m_size = 0;
    size_t m_capacity = 0;
};

}  // namespace warpline::protocol
