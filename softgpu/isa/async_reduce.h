// Operations that asynchronous instructions apply to memory: cp.reduce.async.bulk and red.async.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace warpline::softgpu::isa {

/// to[n] = operation(to[n], from[n]) for all elements of `size_bytes` bytes, each one atomically.
using BulkReduction = void (*)(std::byte* to, const std::byte* from, uint32_t size_bytes);

/// add, min, max, inc, dec, and, or, xor.
bool is_reduction(std::string_view word);

/// Null if the type has no such operation.
BulkReduction bulk_reduction(std::string_view operation, std::string_view type);

}  // namespace warpline::softgpu::isa
