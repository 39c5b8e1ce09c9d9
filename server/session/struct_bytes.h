// CUDA's structures in messages.
#pragma once

#include <vector>

#include "common/base/bytes.h"

/// Structures of CUDA's as they travel: as they lie in memory.
namespace warpline::server {

/// False if the bytes are of another length.
template <typename T>
bool read_struct(BytesView bytes, T& out) {
    return bytes.size() == sizeof(T) && read_at(bytes, 0, out);
}
template <typename T>
Bytes bytes_of(const T& value) {
    const BytesView view = as_bytes(&value, sizeof value);
    return {view.begin(), view.end()};
}
template <typename T>
Bytes bytes_of_array(const std::vector<T>& values) {
    const BytesView view = as_bytes(values.data(), values.size() * sizeof(T));
    return {view.begin(), view.end()};
}

}  // namespace warpline::server
