// What tests of tensors share.
#pragma once

#include <array>
#include <functional>
#include <random>

#include "softgpu/exec/tensor_map.h"
#include "tests/unit/softgpu_isa/cluster_launch.h"

/// Tensor copies: kernels, tensor maps, and what must come out, worked out in another way than the software GPU does: element
/// by element, with the positions of chunks looked up in the tables of the PTX ISA.
namespace warpline::softgpu::exec::test {

/// 16-byte chunks of eight 128-byte lines as the PTX ISA prints them, "Swizzling Modes": the chunk that lies at each place.
using SwizzleTable = std::vector<std::array<int, 8>>;
inline const SwizzleTable& swizzle_table(TensorSwizzle mode) {
    static const SwizzleTable k_none{{0, 1, 2, 3, 4, 5, 6, 7}};
    static const SwizzleTable k_32{{0, 1, 2, 3, 4, 5, 6, 7}, {1, 0, 3, 2, 5, 4, 7, 6}};
    static const SwizzleTable k_64{
        {0, 1, 2, 3, 4, 5, 6, 7}, {1, 0, 3, 2, 5, 4, 7, 6}, {2, 3, 0, 1, 6, 7, 4, 5}, {3, 2, 1, 0, 7, 6, 5, 4}};
    static const SwizzleTable k_128{{0, 1, 2, 3, 4, 5, 6, 7}, {1, 0, 3, 2, 5, 4, 7, 6}, {2, 3, 0, 1, 6, 7, 4, 5},
                                    {3, 2, 1, 0, 7, 6, 5, 4}, {4, 5, 6, 7, 0, 1, 2, 3}, {5, 4, 7, 6, 1, 0, 3, 2},
                                    {6, 7, 4, 5, 2, 3, 0, 1}, {7, 6, 5, 4, 3, 2, 1, 0}};
    static const SwizzleTable k_atom_32{
        {0, 1, 2, 3, 4, 5, 6, 7}, {2, 3, 0, 1, 6, 7, 4, 5}, {4, 5, 6, 7, 0, 1, 2, 3}, {6, 7, 4, 5, 2, 3, 0, 1}};
    static const SwizzleTable k_atom_64{{0, 1, 2, 3, 4, 5, 6, 7}, {4, 5, 6, 7, 0, 1, 2, 3}};
    switch (mode) {
        case TensorSwizzle::span_32: return k_32;
        case TensorSwizzle::span_64: return k_64;
        case TensorSwizzle::span_128: return k_128;
        case TensorSwizzle::span_128_atom_32:
        case TensorSwizzle::span_128_atom_32_flip_8: return k_atom_32;
        case TensorSwizzle::span_128_atom_64: return k_atom_64;
        case TensorSwizzle::none: break;
    }
    return k_none;
}

/// Where byte `at` of the unswizzled box lies, counted from the box, which begins in shared memory at `base`.
inline size_t swizzled_place(TensorSwizzle mode, size_t base, size_t at) {
    const SwizzleTable& table = swizzle_table(mode);
    const size_t line = (base + at) / 128, chunk = (base + at) % 128 / 16;
    const std::array<int, 8>& row = table[line % table.size()];
    size_t place = 0;
    while (row[place] != int(chunk)) ++place;
    size_t byte = at % 16;
    if (mode == TensorSwizzle::span_128_atom_32_flip_8 && line % 2 != 0) byte ^= 8;
    return line * 128 + place * 16 + byte - base;
}

/// A tiled tensor map of elements that need no packing.
struct Tensor {
    TensorType type = TensorType::u32;
    std::vector<uint64_t> sizes, strides;  ///< strides in bytes, of dimensions 1 …
    std::vector<uint32_t> box, steps;
    TensorSwizzle swizzle = TensorSwizzle::none;
    bool fill_nan = false;

    uint32_t rank() const { return uint32_t(sizes.size()); }
    uint64_t bytes() const {
        uint64_t last = 0;
        for (size_t d = 1; d < sizes.size(); ++d) last += (sizes[d] - 1) * strides[d - 1];
        return last + sizes[0] * unit_bytes(type);
    }
    TensorMap map(uint64_t address) const {
        TensorMap map;
        map.address = address;
        map.rank = uint8_t(rank());
        map.type = type;
        map.swizzle = swizzle;
        map.fill_nan = fill_nan;
        for (size_t d = 0; d < sizes.size(); ++d) {
            map.last[d] = uint32_t(sizes[d] - 1);
            map.box[d] = uint16_t(box[d]);
            map.steps[d] = d == 0 ? 1 : uint8_t(steps[d]);
            if (d != 0) map.strides[d - 1] = strides[d - 1];
        }
        map.seal();
        return map;
    }
    /// Elements of the box in each dimension, and the bytes from row to row in shared memory.
    std::vector<uint32_t> counts() const {
        std::vector<uint32_t> counts;
        for (size_t d = 0; d < box.size(); ++d) counts.push_back(d == 0 ? box[d] : (box[d] + steps[d] - 1) / steps[d]);
        return counts;
    }
    size_t pitch() const { return std::max<size_t>(box[0] * unit_bytes(type), swizzle_span(swizzle)); }
    size_t rows() const {
        size_t rows = 1;
        for (size_t d = 1; d < box.size(); ++d) rows *= counts()[d];
        return rows;
    }
    size_t shared_bytes() const { return rows() * pitch(); }
    size_t copied_bytes() const { return rows() * box[0] * unit_bytes(type); }

    /// Calls visit(place in the unswizzled box, offset in global memory or -1) for each element.
    void each(const std::vector<int32_t>& start, const std::function<void(size_t, int64_t)>& visit) const {
        const std::vector<uint32_t> count = counts();
        std::vector<uint32_t> number(rank(), 0);
        for (;;) {
            size_t row = 0;
            for (size_t d = rank(); d-- > 1;) row = row * count[d] + number[d];
            int64_t offset = 0;
            bool inside = true;
            for (size_t d = 0; d < rank(); ++d) {
                const int64_t at = int64_t{start[d]} + int64_t{number[d]} * (d == 0 ? 1 : steps[d]);
                inside = inside && at >= 0 && at < int64_t(sizes[d]);
                offset += at * int64_t(d == 0 ? unit_bytes(type) : strides[d - 1]);
            }
            visit(row * pitch() + number[0] * unit_bytes(type), inside ? offset : -1);
            size_t d = 0;
            while (d < rank() && ++number[d] == count[d]) number[d++] = 0;
            if (d == rank()) return;
        }
    }
};

/// A tensor that fits into a few hundred kilobytes, and a box of at most 16 KiB of shared memory.
inline Tensor random_tensor(std::mt19937& random, uint32_t rank, TensorType type, TensorSwizzle swizzle) {
    auto between = [&](uint32_t low, uint32_t high) { return low + uint32_t(random() % (high - low + 1)); };
    Tensor tensor;
    tensor.type = type;
    tensor.swizzle = swizzle;
    const uint32_t unit = unit_bytes(type), span = swizzle_span(swizzle) != 0 ? swizzle_span(swizzle) : 256;
    const uint32_t inner = std::min(256 / (16 / unit) * (16 / unit), between(1, span / 16) * 16 / unit);
    tensor.sizes.push_back(between(1, 60));
    tensor.box.push_back(inner);
    tensor.steps.push_back(1);
    uint64_t stride = (tensor.sizes[0] * unit + 15) / 16 * 16;
    size_t rows = 1;
    for (uint32_t d = 1; d < rank; ++d) {
        stride += 16 * between(0, 2);
        tensor.strides.push_back(stride);
        tensor.sizes.push_back(between(1, 9));
        tensor.steps.push_back(between(1, 10) > 7 ? between(2, 8) : 1);
        uint32_t box = between(1, 12);
        while (rows * ((box + tensor.steps[d] - 1) / tensor.steps[d]) > 64) --box;
        rows *= (box + tensor.steps[d] - 1) / tensor.steps[d];
        tensor.box.push_back(box);
        stride *= tensor.sizes[d];
    }
    return tensor;
}

inline std::string coordinates_text(uint32_t rank) {
    std::string text;
    for (uint32_t d = 0; d < rank; ++d) text += (d == 0 ? "%c" : ", %c") + std::to_string(d);
    return "{" + text + "}";
}

/// The start of k(map, other memory, bytes to copy there or from there, bytes that the barrier waits for, offset of the box,
/// coordinates).
inline std::string head_of(uint32_t coordinates) {
    std::string text =
        ".visible .entry k(.param .align 64 .b8 map[128], .param .u64 other, .param .u32 bytes, .param .u32 wait, "
        ".param .u32 base";
    for (uint32_t d = 0; d < coordinates; ++d) text += ", .param .u32 p" + std::to_string(d);
    text += R"() {
  .reg .b64 %map, %other, %rd<4>; .reg .b32 %r<12>, %bytes, %box, %bar, %tile; .reg .b16 %h<8>; .reg .pred %p<3>;
  .reg .b32 %c<8>;
  .shared .align 1024 .b8 tile[40960]; .shared .align 8 .b64 bar;
  mov.b64 %map, map; cvta.param.u64 %map, %map;
  ld.param.u64 %other, [other]; ld.param.u32 %bytes, [bytes];
  mov.u32 %tile, tile; mov.u32 %bar, bar;
  ld.param.u32 %box, [base]; add.u32 %box, %box, %tile;
)";
    for (uint32_t d = 0; d < coordinates; ++d)
        text += "  ld.param.u32 %c" + std::to_string(d) + ", [p" + std::to_string(d) + "];\n";
    return text;
}

/// Fills shared memory with 0xee, runs `load`, waits for it, and copies the box out.
inline std::string load_kernel(const std::string& load, uint32_t coordinates) {
    return head_of(coordinates) + R"(
  mov.u32 %r1, 0; mov.b32 %r2, 0xeeeeeeee;
fill:
  add.u32 %r3, %tile, %r1; st.shared.v4.u32 [%r3], {%r2, %r2, %r2, %r2};
  add.u32 %r1, %r1, 16; setp.lt.u32 %p1, %r1, 40960;
  @%p1 bra fill;
  mbarrier.init.shared.b64 [%bar], 1;
  fence.proxy.async.shared::cta;
  )" + load +
           R"(
  ld.param.u32 %r4, [wait];
  mbarrier.arrive.expect_tx.shared.b64 _, [%bar], %r4;
again:
  mbarrier.try_wait.parity.shared.b64 %p2, [%bar], 0;
  @!%p2 bra again;
  mov.u32 %r1, 0;
copy:
  add.u32 %r3, %box, %r1; ld.shared.u32 %r5, [%r3];
  cvt.u64.u32 %rd1, %r1; add.u64 %rd1, %rd1, %other; st.global.u32 [%rd1], %r5;
  add.u32 %r1, %r1, 4; setp.lt.u32 %p1, %r1, %bytes;
  @%p1 bra copy;
  ret;
}
)";
}

/// Copies memory into the box, and runs `store`.
inline std::string store_kernel(const std::string& store, uint32_t coordinates) {
    return head_of(coordinates) + R"(
  mov.u32 %r1, 0;
copy:
  add.u32 %r3, %box, %r1; cvt.u64.u32 %rd1, %r1; add.u64 %rd1, %rd1, %other;
  ld.global.u32 %r5, [%rd1]; st.shared.u32 [%r3], %r5;
  add.u32 %r1, %r1, 4; setp.lt.u32 %p1, %r1, %bytes;
  @%p1 bra copy;
  fence.proxy.async.shared::cta;
  )" + store +
           R"(
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
  ret;
}
)";
}

/// Launches such a kernel with one thread.
inline Fault run_tensor_kernel(Device& device, Module& module, const TensorMap& map, uint64_t other, size_t bytes, size_t wait,
                               uint32_t base, const std::vector<int32_t>& coordinates) {
    auto function = module.function("k");
    EXPECT_NE(function, nullptr);
    if (function == nullptr) return {1, "no such kernel"};
    std::vector<std::byte> params(function->info().param_bytes);
    size_t number = 0;
    auto put = [&](const auto& value) {
        const auto& param = function->info().params.at(number++);
        EXPECT_EQ(param.size_bytes, sizeof(value)) << "parameter " << number;
        std::memcpy(params.data() + param.offset_bytes, &value, sizeof(value));
    };
    put(map);
    put(other);
    put(uint32_t(bytes));
    put(uint32_t(wait));
    put(base);
    for (int32_t coordinate : coordinates) put(coordinate);
    Launch launch;
    launch.function = function.get();
    launch.grid = launch.block = launch.cluster = {1, 1, 1};
    launch.params = params;
    return device.engine().launch(launch);
}

inline std::vector<uint8_t> random_bytes(std::mt19937& random, size_t count) {
    std::vector<uint8_t> bytes(count);
    for (auto& byte : bytes) byte = uint8_t(random());
    return bytes;
}

}  // namespace warpline::softgpu::exec::test
