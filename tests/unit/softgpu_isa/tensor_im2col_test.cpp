// cp.async.bulk.tensor in im2col mode and with interleaved layouts (A6).
#include "tests/unit/softgpu_isa/tensor_fixture.h"

namespace warpline::softgpu::exec::test {
namespace {

/// A batch of images, channels innermost. What a convolution reads, worked out as convolutions are written: the output pixels
/// are numbered through all images, and each looks at one tap of the filter.
struct Images {
    uint32_t spatial = 2;  ///< dimensions of an image
    uint32_t channels = 8, images = 3;
    uint32_t size[3] = {7, 5, 4};
    int lower[3] = {}, upper[3] = {};
    uint32_t step[3] = {1, 1, 1};
    uint32_t channels_per_pixel = 4, pixels = 16;
    bool fill_nan = false;

    uint32_t rank() const { return spatial + 2; }
    uint64_t elements() const {
        uint64_t count = uint64_t{channels} * images;
        for (uint32_t d = 0; d < spatial; ++d) count *= size[d];
        return count;
    }
    uint32_t outputs(uint32_t d) const { return uint32_t((int64_t(size[d]) - 1 + upper[d] - lower[d]) / int64_t(step[d]) + 1); }
    TensorMap map(uint64_t address) const {
        TensorMap map;
        map.address = address;
        map.mode = TensorMode::im2col;
        map.type = TensorType::f32;
        map.rank = uint8_t(rank());
        map.fill_nan = fill_nan;
        map.box[0] = uint16_t(channels_per_pixel);
        map.box[1] = uint16_t(pixels);
        map.last[0] = channels - 1;
        uint64_t stride = channels * 4;
        for (uint32_t d = 0; d < spatial; ++d) {
            map.last[1 + d] = size[d] - 1;
            map.strides[d] = stride;
            stride *= size[d];
            map.lower[d] = int16_t(lower[d]);
            map.upper[d] = int16_t(upper[d]);
            map.steps[1 + d] = uint8_t(step[d]);
        }
        map.last[rank() - 1] = images - 1;
        map.strides[rank() - 2] = stride;
        map.steps[0] = map.steps[rank() - 1] = 1;
        map.seal();
        return map;
    }
    /// Word of pixel `number` counted from output (start) of image `image`; -1 outside.
    int64_t word(const std::vector<uint32_t>& start, uint32_t image, uint32_t number, const std::vector<uint32_t>& tap,
                 uint32_t channel) const {
        uint64_t output = 0;
        for (uint32_t d = spatial; d-- > 0;) output = output * outputs(d) + start[d];
        output += number;
        int64_t at[3] = {};
        for (uint32_t d = 0; d < spatial; ++d) {
            at[d] = lower[d] + int64_t(output % outputs(d) * step[d]) + tap[d];
            output /= outputs(d);
        }
        const uint64_t n = image + output;
        if (n >= images || channel >= channels) return -1;
        uint64_t pixel = n;
        for (uint32_t d = spatial; d-- > 0;) {
            if (at[d] < 0 || at[d] >= int64_t(size[d])) return -1;
            pixel = pixel * size[d] + uint64_t(at[d]);
        }
        return int64_t(pixel * channels + channel);
    }
};

std::string im2col_load_of(uint32_t rank) {
    std::string taps;
    for (uint32_t d = 0; d + 2 < rank; ++d) taps += (d == 0 ? "%h" : ", %h") + std::to_string(d);
    std::string text;
    for (uint32_t d = 0; d + 2 < rank; ++d)
        text += "cvt.u16.u32 %h" + std::to_string(d) + ", %c" + std::to_string(rank + d) + ";\n  ";
    return text + "cp.async.bulk.tensor." + std::to_string(rank) +
           "d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%box], [%map, " + coordinates_text(rank) +
           "], [%bar], {" + taps + "};";
}

Images random_images(std::mt19937& random, uint32_t spatial) {
    auto between = [&](int low, int high) { return low + int(random() % unsigned(high - low + 1)); };
    Images images;
    images.spatial = spatial;
    images.channels = uint32_t(between(1, 4)) * 4;
    images.images = uint32_t(between(1, 4));
    images.channels_per_pixel = uint32_t(between(1, 3)) * 4;
    images.pixels = uint32_t(between(1, 90));
    images.fill_nan = between(0, 1) != 0;
    for (uint32_t d = 0; d < spatial; ++d) {
        images.size[d] = uint32_t(between(3, 9));
        images.lower[d] = between(-2, 1);
        images.upper[d] = between(-2, 1);
        images.step[d] = uint32_t(between(1, 3));
        while (images.size[d] + images.upper[d] - images.lower[d] < 1) images.upper[d]++;
    }
    return images;
}

TEST(SoftgpuIm2col, ColumnsComeAsConvolutionsReadThem) {
    std::mt19937 random(11);
    for (uint32_t spatial = 1; spatial <= 3; ++spatial) {
        Device device;
        const uint32_t rank = spatial + 2;
        auto module = load_checked(device, load_kernel(im2col_load_of(rank), rank + spatial));
        ASSERT_NE(module, nullptr);
        const uint64_t out = device.allocate(40960);
        for (int turn = 0; turn < 40; ++turn) {
            const Images images = random_images(random, spatial);
            std::vector<uint32_t> memory(images.elements());
            for (auto& word : memory) word = uint32_t(random());
            const auto image = uint32_t(random() % (images.images + 1)), channel = uint32_t(random() % images.channels);
            std::vector<uint32_t> start, tap;
            std::vector<int32_t> operands{int32_t(channel)};
            for (uint32_t d = 0; d < spatial; ++d) {
                start.push_back(uint32_t(random()) % images.outputs(d));
                tap.push_back(uint32_t(random() % 4));
                operands.push_back(images.lower[d] + int32_t(start[d] * images.step[d]));
            }
            operands.push_back(int32_t(image));
            for (uint32_t value : tap) operands.push_back(int32_t(value));
            const size_t count = size_t{images.pixels} * images.channels_per_pixel;
            EXPECT_RUNS(
                run_tensor_kernel(device, *module, images.map(device.upload(memory)), out, count * 4, count * 4, 0, operands));
            const auto found = device.download<uint32_t>(out, count);
            for (size_t i = 0; i < count; ++i) {
                const int64_t word = images.word(start, image, uint32_t(i / images.channels_per_pixel), tap,
                                                 channel + uint32_t(i % images.channels_per_pixel));
                ASSERT_EQ(found[i], word >= 0         ? memory[size_t(word)]
                                    : images.fill_nan ? 0x7ff77ff7u
                                                      : 0u)
                    << "rank " << rank << ", turn " << turn << ", word " << i;
            }
        }
        device.free_all();
    }
}

TEST(SoftgpuIm2col, StoresWithoutOffsets) {
    Device device;
    auto module =
        load_checked(device, store_kernel("cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%map, " +
                                              coordinates_text(4) + "], [%box];",
                                          4));
    ASSERT_NE(module, nullptr);
    Images images;
    images.pixels = 50;
    std::vector<uint32_t> memory(images.elements(), 7), box(size_t{images.pixels} * 4);
    for (size_t i = 0; i < box.size(); ++i) box[i] = uint32_t(i) + 100;
    const uint64_t address = device.upload(memory), from = device.upload(box);
    EXPECT_RUNS(run_tensor_kernel(device, *module, images.map(address), from, box.size() * 4, 0, 0, {4, 6, 2, 1}));
    for (size_t i = 0; i < box.size(); ++i) {
        const int64_t word = images.word({6, 2}, 1, uint32_t(i / 4), {0, 0}, 4 + uint32_t(i % 4));
        if (word >= 0) memory[size_t(word)] = box[i];
    }
    EXPECT_EQ(device.download<uint32_t>(address, memory.size()), memory);
    images.lower[0] = -1;
    EXPECT_EQ(run_tensor_kernel(device, *module, images.map(address), from, 16, 0, 0, {0, 0, 0, 0}).cu_result, 715);
}

/// The wide mode stays in its row of the image, and goes on in the next image.
TEST(SoftgpuIm2col, WideModeKeepsTheRow) {
    Device device;
    auto module = load_checked(device,
                               load_kernel(R"(
  cvt.u16.u32 %h0, %c4; cvt.u16.u32 %h1, %c5;
  cp.async.bulk.tensor.4d.shared::cta.global.im2col::w.mbarrier::complete_tx::bytes [%box], [%map, {%c0, %c1, %c2, %c3}], [%bar], {%h0, %h1};)",
                                           6),
                               "sm_100");
    ASSERT_NE(module, nullptr);
    Images images;
    images.channels = 16;
    images.channels_per_pixel = 16;
    images.pixels = 12;
    images.lower[0] = -1;
    images.upper[0] = -1;
    TensorMap map = images.map(0);
    std::vector<uint32_t> memory(images.elements());
    for (size_t i = 0; i < memory.size(); ++i) memory[i] = uint32_t(i) + 1;
    map.address = device.upload(memory);
    map.mode = TensorMode::im2col_w;
    map.seal();
    const uint64_t out = device.allocate(4096);
    // From the last but one output of row 3 of image 0 on, tap 2.
    EXPECT_RUNS(run_tensor_kernel(device, *module, map, out, 768, 768, 0, {0, 4, 3, 0, 0, 2}));
    const auto found = device.download<uint32_t>(out, 192);
    for (size_t i = 0; i < found.size(); ++i) {
        const size_t pixel = i / 16, number = 5 + pixel, n = number / 7, w = number % 7 + 1;  // 7 outputs, from -1 on, plus 2
        const uint32_t expected = w < 7 ? memory[((n * 5 + 3) * 7 + w) * 16 + i % 16] : 0;
        ASSERT_EQ(found[i], expected) << i;
    }
    EXPECT_EQ(run_tensor_kernel(device, *module, map, out, 768, 768, 0, {0, 4, 3, 0, 1, 0}).cu_result, 801);
}

/// N C/4 H W C4: slices of 16 bytes.
TEST(SoftgpuIm2col, InterleavedSlices) {
    Device device;
    auto module = load_checked(
        device, load_kernel("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%box], [%map, " +
                                coordinates_text(4) + "], [%bar];",
                            4));
    ASSERT_NE(module, nullptr);
    constexpr uint32_t k_width = 5, k_height = 3, k_slices = 3, k_images = 2;
    TensorMap map;
    map.rank = 4;
    map.type = TensorType::u32;
    map.interleave = TensorInterleave::bytes_16;
    std::vector<uint32_t> memory(k_images * k_slices * k_height * k_width * 4);
    for (size_t i = 0; i < memory.size(); ++i) memory[i] = uint32_t(i) + 1;
    map.address = device.upload(memory);
    const uint32_t sizes[] = {k_slices * 4 - 1, k_width, k_height, k_images};  // the last channel does not exist
    const uint16_t box[] = {8, 3, 2, 2};
    for (uint32_t d = 0; d < 4; ++d) {
        map.last[d] = sizes[d] - 1;
        map.box[d] = box[d];
        map.steps[d] = 1;
    }
    map.strides[0] = 16;
    map.strides[1] = k_width * 16;
    map.strides[2] = k_slices * k_height * k_width * 16;
    map.seal();
    const uint64_t out = device.allocate(4096);
    EXPECT_RUNS(run_tensor_kernel(device, *module, map, out, 384, 384, 0, {4, 3, -1, 0}));
    const auto found = device.download<uint32_t>(out, 96);
    for (uint32_t i = 0; i < 96; ++i) {
        const uint32_t c = i % 4, w = 3 + i / 4 % 3, slice = 1 + i / 24 % 2, n = i / 48;
        const int h = int(i / 12 % 2) - 1;
        const bool inside = w < k_width && h >= 0 && slice * 4 + c < sizes[0];
        const size_t word = (((n * k_slices + slice) * k_height + size_t(std::max(h, 0))) * k_width + w) * 4 + c;
        ASSERT_EQ(found[i], inside ? memory[word] : 0) << i;
    }
    EXPECT_EQ(run_tensor_kernel(device, *module, map, out, 384, 384, 0, {2, 0, 0, 0}).cu_result, 715);
}

}  // namespace
}  // namespace warpline::softgpu::exec::test
