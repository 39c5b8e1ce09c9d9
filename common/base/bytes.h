// Bytes, views of them, and text seen as such.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace warpline {

using Bytes = std::vector<std::byte>;
using BytesView = std::span<const std::byte>;
using MutableBytesView = std::span<std::byte>;

inline BytesView as_bytes(std::string_view text) { return {reinterpret_cast<const std::byte*>(text.data()), text.size()}; }
inline BytesView as_bytes(const void* data, size_t size_bytes) { return {static_cast<const std::byte*>(data), size_bytes}; }
inline std::string_view as_text(BytesView bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// Reads a trivially copyable value at an offset, or nothing if it does not fit: the only way we read foreign bytes.
template <typename T>
bool read_at(BytesView bytes, size_t offset, T& out) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return false;
    std::memcpy(&out, bytes.data() + offset, sizeof(T));
    return true;
}

}  // namespace warpline
