// cp.async.bulk.tensor and cp.reduce.async.bulk.tensor in tiled mode (A6).
#include <algorithm>

#include "tests/unit/softgpu_isa/tensor_fixture.h"

namespace warpline::softgpu::exec::test {
namespace {

constexpr const char* k_tx = "mbarrier::complete_tx::bytes";

std::string load_of(uint32_t rank, const std::string& mode = ".shared::cluster.global.tile") {
    return "cp.async.bulk.tensor." + std::to_string(rank) + "d" + mode + "." + k_tx + " [%box], [%map, " +
           coordinates_text(rank) + "], [%bar];";
}
std::string store_of(uint32_t rank, const std::string& opcode = "cp.async.bulk.tensor", const std::string& operation = "") {
    return opcode + "." + std::to_string(rank) + "d.global.shared::cta" + operation + ".tile.bulk_group [%map, " +
           coordinates_text(rank) + "], [%box];";
}

/// A bit pattern for what is outside of the tensor.
std::vector<uint8_t> outside(const Tensor& tensor) {
    std::vector<uint8_t> bytes(unit_bytes(tensor.type), 0);
    for (size_t i = 0; tensor.fill_nan && i < bytes.size(); ++i) bytes[i] = i % 2 == 0 ? 0xf7 : 0x7f;
    return bytes;
}

struct SwizzleCase {
    const char* name;
    TensorSwizzle swizzle;
};
class TensorLoad : public testing::TestWithParam<SwizzleCase> {};
class TensorStore : public testing::TestWithParam<SwizzleCase> {};

std::vector<int32_t> random_start(std::mt19937& random, const Tensor& tensor, bool negative) {
    std::vector<int32_t> start;
    for (size_t d = 0; d < tensor.sizes.size(); ++d) {
        const int32_t low = negative ? -int32_t(tensor.box[d]) - 2 : 0;
        start.push_back(low + int32_t(random() % (tensor.sizes[d] + 2 - low)));
    }
    return start;
}

constexpr TensorType k_types[] = {TensorType::u8,  TensorType::u16, TensorType::u32,  TensorType::s32, TensorType::u64,
                                  TensorType::s64, TensorType::f16, TensorType::bf16, TensorType::f32, TensorType::f64};

TEST_P(TensorLoad, BoxesComeAsTheReferenceSays) {
    std::mt19937 random(20 + unsigned(GetParam().swizzle));
    for (uint32_t rank = 1; rank <= 5; ++rank) {
        Device device;
        const bool cta = rank % 2 == 0;
        auto module = load_checked(
            device, load_kernel(load_of(rank, cta ? ".shared::cta.global.tile" : ".shared::cluster.global"), rank));
        ASSERT_NE(module, nullptr);
        const uint64_t out = device.allocate(40960);
        for (int turn = 0; turn < 24; ++turn) {
            Tensor tensor = random_tensor(random, rank, k_types[random() % std::size(k_types)], GetParam().swizzle);
            tensor.fill_nan = is_float(tensor.type) && random() % 2 == 0;
            const std::vector<uint8_t> memory = random_bytes(random, tensor.bytes());
            const uint64_t address = device.upload(memory);
            const std::vector<int32_t> start = random_start(random, tensor, true);
            const auto base = uint32_t(random() % 9 * 128);
            const size_t bytes = tensor.shared_bytes();
            ASSERT_LE(base + bytes, 40960u);
            EXPECT_RUNS(
                run_tensor_kernel(device, *module, tensor.map(address), out, bytes, tensor.copied_bytes(), base, start));
            std::vector<uint8_t> expected(bytes, 0xee);
            const uint32_t unit = unit_bytes(tensor.type);
            const std::vector<uint8_t> fill = outside(tensor);
            tensor.each(start, [&](size_t place, int64_t offset) {
                for (uint32_t byte = 0; byte < unit; ++byte) {
                    const size_t at = swizzled_place(tensor.swizzle, base, place + byte);
                    expected[at] = offset < 0 ? fill[byte] : memory[size_t(offset) + byte];
                }
            });
            ASSERT_EQ(device.download<uint8_t>(out, bytes), expected) << "rank " << rank << ", turn " << turn;
        }
        device.free_all();
    }
}

TEST_P(TensorStore, BoxesGoAsTheReferenceSays) {
    std::mt19937 random(40 + unsigned(GetParam().swizzle));
    for (uint32_t rank = 1; rank <= 5; ++rank) {
        Device device;
        auto module = load_checked(device, store_kernel(store_of(rank), rank));
        ASSERT_NE(module, nullptr);
        for (int turn = 0; turn < 12; ++turn) {
            const Tensor tensor = random_tensor(random, rank, k_types[random() % std::size(k_types)], GetParam().swizzle);
            std::vector<uint8_t> memory = random_bytes(random, tensor.bytes());
            const uint64_t address = device.upload(memory);
            const std::vector<int32_t> start = random_start(random, tensor, false);
            const auto base = uint32_t(random() % 9 * 128);
            const std::vector<uint8_t> box = random_bytes(random, tensor.shared_bytes());
            EXPECT_RUNS(
                run_tensor_kernel(device, *module, tensor.map(address), device.upload(box), box.size(), 0, base, start));
            tensor.each(start, [&](size_t place, int64_t offset) {
                for (uint32_t byte = 0; offset >= 0 && byte < unit_bytes(tensor.type); ++byte)
                    memory[size_t(offset) + byte] = box[swizzled_place(tensor.swizzle, base, place + byte)];
            });
            ASSERT_EQ(device.download<uint8_t>(address, memory.size()), memory) << "rank " << rank << ", turn " << turn;
        }
        device.free_all();
    }
}

const SwizzleCase k_both_ways[] = {{"none", TensorSwizzle::none},
                                   {"b32", TensorSwizzle::span_32},
                                   {"b64", TensorSwizzle::span_64},
                                   {"b128", TensorSwizzle::span_128},
                                   {"atom32", TensorSwizzle::span_128_atom_32},
                                   {"atom64", TensorSwizzle::span_128_atom_64}};
std::string name_of(const testing::TestParamInfo<SwizzleCase>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Swizzles, TensorLoad, testing::ValuesIn(k_both_ways), name_of);
INSTANTIATE_TEST_SUITE_P(LoadsOnly, TensorLoad, testing::Values(SwizzleCase{"flip", TensorSwizzle::span_128_atom_32_flip_8}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Swizzles, TensorStore, testing::ValuesIn(k_both_ways), name_of);

/// One row of four words at the tensor's start.
Tensor words() {
    Tensor tensor;
    tensor.sizes = {8, 4};
    tensor.strides = {32};
    tensor.box = {4, 2};
    tensor.steps = {1, 1};
    return tensor;
}

template <typename T>
void check_reduction(const char* operation, TensorType type, const std::function<T(T, T)>& reference) {
    Device device;
    auto module =
        load_checked(device, store_kernel(store_of(2, "cp.reduce.async.bulk.tensor", std::string(".") + operation), 2));
    ASSERT_NE(module, nullptr);
    Tensor tensor = words();
    tensor.type = type;
    tensor.sizes = {40, 3};
    tensor.strides = {40 * sizeof(T) + (16 - 40 * sizeof(T) % 16) % 16};
    tensor.box = {16, 4};
    std::mt19937 random(7);
    std::vector<T> memory(tensor.strides[0] / sizeof(T) * 3), box(64);
    for (T& value : memory) value = T(random() % 1000);
    for (T& value : box) value = T(random() % 1000);
    const uint64_t address = device.upload(memory);
    EXPECT_RUNS(run_tensor_kernel(device, *module, tensor.map(address), device.upload(box), 64 * sizeof(T), 0, 0, {28, 1}));
    for (size_t y = 1; y < 3; ++y)
        for (size_t x = 28; x < 40; ++x) {
            T& value = memory[y * tensor.strides[0] / sizeof(T) + x];
            value = reference(value, box[(y - 1) * 16 + x - 28]);
        }
    EXPECT_EQ(device.download<T>(address, memory.size()), memory) << operation << " " << int(type);
}

TEST(SoftgpuTensor, Reductions) {
    auto add = [](auto a, auto b) { return decltype(a)(a + b); };
    auto low = [](auto a, auto b) { return std::min(a, b); };
    auto high = [](auto a, auto b) { return std::max(a, b); };
    check_reduction<uint32_t>("add", TensorType::u32, add);
    check_reduction<int32_t>("add", TensorType::s32, add);
    check_reduction<uint64_t>("add", TensorType::u64, add);
    check_reduction<float>("add", TensorType::f32, add);
    check_reduction<uint32_t>("min", TensorType::u32, low);
    check_reduction<int64_t>("min", TensorType::s64, low);
    check_reduction<int32_t>("max", TensorType::s32, high);
    check_reduction<uint64_t>("max", TensorType::u64, high);
    check_reduction<uint32_t>("and", TensorType::u32, [](auto a, auto b) { return a & b; });
    check_reduction<uint64_t>("or", TensorType::u64, [](auto a, auto b) { return a | b; });
    check_reduction<int32_t>("xor", TensorType::s32, [](auto a, auto b) { return a ^ b; });
    check_reduction<uint32_t>("inc", TensorType::u32, [](auto a, auto b) { return a >= b ? 0 : a + 1; });
    check_reduction<uint32_t>("dec", TensorType::u32, [](auto a, auto b) { return a == 0 || a > b ? b : a - 1; });
}

TEST(SoftgpuTensor, ReductionsOfHalves) {
    for (auto [type, one, two, three] : {std::tuple{TensorType::f16, uint16_t{0x3c00}, uint16_t{0x4000}, uint16_t{0x4200}},
                                         std::tuple{TensorType::bf16, uint16_t{0x3f80}, uint16_t{0x4000}, uint16_t{0x4040}}}) {
        for (const char* operation : {"add", "max"}) {
            Device device;
            auto module =
                load_checked(device, store_kernel(store_of(1, "cp.reduce.async.bulk.tensor", std::string(".") + operation), 1));
            ASSERT_NE(module, nullptr);
            Tensor tensor;
            tensor.type = type;
            tensor.sizes = {8};
            tensor.box = {8};
            tensor.steps = {1};
            const uint64_t address = device.upload(std::vector<uint16_t>(8, one));
            const uint64_t box = device.upload(std::vector<uint16_t>(8, two));
            EXPECT_RUNS(run_tensor_kernel(device, *module, tensor.map(address), box, 16, 0, 0, {0}));
            const uint16_t expected = std::string(operation) == "add" ? three : two;
            EXPECT_EQ(device.download<uint16_t>(address, 8), std::vector<uint16_t>(8, expected));
        }
    }
}

TEST(SoftgpuTensor, FloatsAreConvertedAsTheTypeSays) {
    Device device;
    auto module = load_checked(device, load_kernel(load_of(1), 1));
    ASSERT_NE(module, nullptr);
    Tensor tensor;
    tensor.sizes = {4};
    tensor.box = {4};
    tensor.steps = {1};
    // A denormal; 1 and a half, one and a bit more than half of what tf32 drops; NaN.
    const std::vector<uint32_t> in{0x80000123, 0x3f801000, 0x3f803000, 0x7fc12345};
    const uint64_t address = device.upload(in), out = device.allocate(64);
    auto load_as = [&](TensorType type) {
        tensor.type = type;
        EXPECT_RUNS(run_tensor_kernel(device, *module, tensor.map(address), out, 16, 16, 0, {0}));
        return device.download<uint32_t>(out, 4);
    };
    EXPECT_EQ(load_as(TensorType::f32), in);
    EXPECT_EQ(load_as(TensorType::f32_ftz), (std::vector<uint32_t>{0x80000000, 0x3f801000, 0x3f803000, 0x7fc12345}));
    EXPECT_EQ(load_as(TensorType::tf32), (std::vector<uint32_t>{0x80000000, 0x3f800000, 0x3f804000, 0x7fffe000}));
    EXPECT_EQ(load_as(TensorType::tf32_ftz), (std::vector<uint32_t>{0x80000000, 0x3f800000, 0x3f804000, 0x7fffe000}));
}

/// 16 values of 4 or 6 bits: dense in global memory, 16 bytes in shared memory.
TEST(SoftgpuTensor, PackedElements) {
    std::mt19937 random(3);
    const std::vector<uint8_t> memory = random_bytes(random, 2 * 96 * 2);
    struct Case {
        TensorType type;
        size_t bytes;  // of 16 elements
    };
    for (const Case& c : {Case{TensorType::b4x16_p64, 8}, Case{TensorType::b6x16_p32, 12}}) {
        Device device;
        auto module = load_checked(device, load_kernel(load_of(2), 2));
        ASSERT_NE(module, nullptr);
        Tensor tensor = words();
        tensor.type = c.type;
        tensor.sizes = {256, 2};
        tensor.strides = {192};
        tensor.box = {128, 2};
        const uint64_t address = device.upload(memory), out = device.allocate(256);
        EXPECT_RUNS(run_tensor_kernel(device, *module, tensor.map(address), out, 256, 256, 0, {128, 1}));
        const auto found = device.download<uint8_t>(out, 256);
        for (size_t at = 0; at < 256; ++at) {
            const size_t unit = at / 16, byte = at % 16;
            const uint8_t value = byte >= c.bytes ? 0xee : at >= 128 ? 0 : memory[192 + (8 + unit) * c.bytes + byte];
            ASSERT_EQ(found[at], value) << at;
        }
        EXPECT_EQ(run_tensor_kernel(device, *module, tensor.map(address), out, 256, 256, 0, {64, 0}).cu_result, 715);
    }
    Device device;
    auto module = load_checked(device, store_kernel(store_of(1), 1));
    Tensor tensor;
    tensor.type = TensorType::b6x16_p32;
    tensor.sizes = {128};
    tensor.box = {128};
    tensor.steps = {1};
    std::vector<uint8_t> box(128);
    for (size_t i = 0; i < box.size(); ++i) box[i] = uint8_t(0xc0 | i % 64);  // the upper two bits are dropped
    const uint64_t address = device.allocate(96);
    EXPECT_RUNS(run_tensor_kernel(device, *module, tensor.map(address), device.upload(box), 128, 0, 0, {0}));
    const auto packed = device.download<uint8_t>(address, 96);
    for (size_t i = 0; i < 128; ++i) {
        uint32_t value = 0;
        for (size_t bit = 0; bit < 6; ++bit) value |= (uint32_t(packed[(i * 6 + bit) / 8]) >> ((i * 6 + bit) % 8) & 1) << bit;
        ASSERT_EQ(value, i % 64) << i;
    }
}

TEST(SoftgpuTensor, DenseHalvesOfBytes) {
    Device device;
    auto module = load_checked(device, load_kernel(load_of(1), 1));
    ASSERT_NE(module, nullptr);
    std::mt19937 random(5);
    const std::vector<uint8_t> memory = random_bytes(random, 32);
    Tensor tensor;
    tensor.type = TensorType::b4x16;
    tensor.sizes = {64};
    tensor.box = {32};
    tensor.steps = {1};
    const uint64_t address = device.upload(memory), out = device.allocate(16);
    EXPECT_RUNS(run_tensor_kernel(device, *module, tensor.map(address), out, 16, 16, 0, {48}));
    std::vector<uint8_t> expected(memory.begin() + 24, memory.end());
    expected.resize(16, 0);
    EXPECT_EQ(device.download<uint8_t>(out, 16), expected);
}

TEST(SoftgpuTensor, GathersFourRows) {
    Device device;
    const std::string load = std::string("cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.") + k_tx +
                             " [%box], [%map, " + coordinates_text(5) + "], [%bar];";
    auto module = load_checked(device, load_kernel(load, 5), "sm_100");
    ASSERT_NE(module, nullptr);
    std::vector<uint32_t> memory(8 * 16);
    for (size_t i = 0; i < memory.size(); ++i) memory[i] = uint32_t(i) + 1;
    Tensor tensor = words();
    tensor.sizes = {8, 16};
    tensor.box = {4, 1};
    const uint64_t address = device.upload(memory), out = device.allocate(64);
    const std::vector<int32_t> start{2, 9, 0, -1, 15};
    EXPECT_RUNS(run_tensor_kernel(device, *module, tensor.map(address), out, 64, 64, 0, start));
    const auto found = device.download<uint32_t>(out, 16);
    for (size_t i = 0; i < 16; ++i) {
        const int32_t row = start[1 + i / 4];
        EXPECT_EQ(found[i], row < 0 ? 0 : memory[size_t(row) * 8 + 2 + i % 4]) << i;
    }
    tensor.box = {4, 2};
    EXPECT_EQ(run_tensor_kernel(device, *module, tensor.map(address), out, 64, 64, 0, start).cu_result, 715);
}

TEST(SoftgpuTensor, WhatIsWrongIsAFaultThatNamesTheLine) {
    Device device;
    auto module = load_checked(device, load_kernel(load_of(2), 2));
    auto store = load_checked(device, store_kernel(store_of(2), 2));
    auto sum = load_checked(device, store_kernel(store_of(2, "cp.reduce.async.bulk.tensor", ".inc"), 2));
    ASSERT_TRUE(module != nullptr && store != nullptr && sum != nullptr);
    const Tensor tensor = words();
    const uint64_t memory = device.allocate(128), out = device.allocate(64), small = device.allocate(96);
    auto run = [&](Module& m, const TensorMap& map, uint32_t base, const std::vector<int32_t>& start) {
        Fault fault = run_tensor_kernel(device, m, map, out, 32, 32, base, start);
        EXPECT_EQ(fault.cu_result != 0, fault.text.find("line ") != std::string::npos) << fault.text;
        return fault.cu_result;
    };
    const TensorMap good = tensor.map(memory);
    EXPECT_EQ(run(*module, good, 0, {0, 0}), 0);
    EXPECT_EQ(run(*module, good, 64, {0, 0}), 716);              // the box is not at a multiple of 128 bytes
    EXPECT_EQ(run(*module, good, 1u << 20, {0, 0}), 700);        // nor in shared memory
    EXPECT_EQ(run(*module, tensor.map(small), 0, {0, 2}), 700);  // the last row does not exist
    EXPECT_EQ(run(*module, tensor.map(small), 0, {0, 4}), 0);    // what is outside of the tensor is not read
    TensorMap broken = good;
    broken.last[0] ^= 1;
    EXPECT_EQ(run(*module, broken, 0, {0, 0}), 715);
    Tensor flat = tensor;
    flat.sizes = {8};
    flat.strides = {};
    flat.box = {4};
    EXPECT_EQ(run(*module, flat.map(memory), 0, {0, 0}), 715);
    TensorMap im2col = good;
    im2col.mode = TensorMode::im2col;
    im2col.seal();
    EXPECT_EQ(run(*module, im2col, 0, {0, 0}), 715);
    EXPECT_EQ(run(*store, good, 0, {7, 3}), 0);
    EXPECT_EQ(run(*store, good, 0, {0, -1}), 715);
    TensorMap flips = good;
    flips.swizzle = TensorSwizzle::span_128_atom_32_flip_8;
    flips.seal();
    EXPECT_EQ(run(*store, flips, 0, {0, 0}), 715);
    Tensor floats = tensor;
    floats.type = TensorType::f32;
    EXPECT_EQ(run(*sum, good, 0, {0, 0}), 0);
    EXPECT_EQ(run(*sum, good, 0, {4, 3}), 0);
    EXPECT_EQ(run(*sum, good, 0, {3, 0}), 715);  // not at a multiple of 16 bytes
    Tensor narrow = tensor;                      // than the box
    narrow.sizes = {4, 4};
    narrow.box = {8, 2};
    EXPECT_EQ(run(*sum, narrow.map(memory), 0, {0, 0}), 0);
    EXPECT_EQ(run(*sum, floats.map(memory), 0, {0, 0}), 715);
}

constexpr const char* k_multicast = R"(
.visible .entry k(.param .u64 map, .param .u64 out) {
  .reg .b64 %rd<5>; .reg .b32 %r<12>; .reg .b16 %h<2>; .reg .pred %p<3>;
  .shared .align 128 .b8 tile[128]; .shared .align 8 .b64 bar;
  ld.param.u64 %rd1, [map]; ld.param.u64 %rd2, [out];
  mov.u32 %r1, tile; mov.u32 %r2, bar; mov.u32 %r3, %cluster_ctarank;
  prefetch.tensormap [%rd1];
  fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;
  mbarrier.init.shared.b64 [%r2], 1;
  mov.b32 %r4, -1; st.shared.u32 [%r1], %r4;
  fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive; barrier.cluster.wait;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 32;
  setp.ne.u32 %p1, %r3, 1;
  @%p1 bra again;
  mov.b16 %h1, 11;
  mov.b64 %rd4, 0;
  cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd1, {1, 2}];
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%r1], [%rd1, {2, 1}], [%r2], %h1, %rd4;
again:
  setp.eq.u32 %p1, %r3, 2;
  @%p1 bra done;  // the copy is not for this one
  mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0;
  @!%p2 bra again;
done:
  ld.shared.u32 %r5, [%r1];
  mul.wide.u32 %rd3, %r3, 4; add.u64 %rd3, %rd3, %rd2; st.global.u32 [%rd3], %r5;
  barrier.cluster.arrive; barrier.cluster.wait;
  ret;
}
)";

/// The tensor map is in global memory here.
TEST(SoftgpuTensor, MulticastsToBlocksOfTheCluster) {
    Device device;
    auto module = load_checked(device, k_multicast);
    ASSERT_NE(module, nullptr);
    std::vector<uint32_t> memory(32);
    for (size_t i = 0; i < memory.size(); ++i) memory[i] = uint32_t(i);
    const TensorMap map = words().map(device.upload(memory));
    const uint64_t at = device.upload(std::vector<TensorMap>{map}), out = device.allocate(16);
    Fault fault = launch_clusters(device, *module, "k", 4, 1, 4, {at, out});
    EXPECT_EQ(fault.cu_result, 0) << fault.text;
    EXPECT_EQ(device.download<uint32_t>(out, 4), (std::vector<uint32_t>{10, 10, ~0u, 10}));
    EXPECT_EQ(launch_clusters(device, *module, "k", 4, 1, 4, {at + 8, out}).cu_result, 716);
    EXPECT_EQ(launch_clusters(device, *module, "k", 4, 1, 4, {64, out}).cu_result, 700);
    EXPECT_EQ(launch_clusters(device, *module, "k", 4, 1, 2, {at, out}).cu_result, 700);  // there is no block 3
}

}  // namespace
}  // namespace warpline::softgpu::exec::test
