// cuTensorMapEncode…: what cuda.h says of the arguments.
#include <cstring>
#include <functional>

#include "tests/unit/softgpu_driver/library.h"

namespace softgpu_test {
namespace {

/// Arguments that are good in every respect; each case spoils one.
struct Arguments {
    CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    cuuint32_t rank = 3;
    uint64_t address = 0x10000;
    cuuint64_t sizes[5] = {32, 16, 8, 4, 2};
    cuuint64_t strides[5] = {128, 2048, 16384, 65536, 0};
    cuuint32_t box[5] = {8, 4, 2, 1, 1};
    cuuint32_t steps[5] = {1, 1, 1, 1, 1};
    int lower[3] = {-1, -1, -1}, upper[3] = {-1, -1, -1};
    cuuint32_t channels = 8, pixels = 64;
    CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
    CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
    CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_NONE;
    CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
    CUtensorMapIm2ColWideMode mode = CU_TENSOR_MAP_IM2COL_WIDE_MODE_W;

    void* at() const { return reinterpret_cast<void*>(address); }
    CUresult tiled(CUtensorMap* map) const {
        return CU(cuTensorMapEncodeTiled)(map, type, rank, at(), sizes, strides, box, steps, interleave, swizzle, promotion,
                                          fill);
    }
    CUresult im2col(CUtensorMap* map) const {
        return CU(cuTensorMapEncodeIm2col)(map, type, rank, at(), sizes, strides, lower, upper, channels, pixels, steps,
                                           interleave, swizzle, promotion, fill);
    }
    CUresult wide(CUtensorMap* map) const {
        return CU(cuTensorMapEncodeIm2colWide)(map, type, rank, at(), sizes, strides, lower[0], upper[0], channels, pixels,
                                               steps, interleave, mode, swizzle, promotion, fill);
    }
    /// Elements that lie with gaps in shared memory.
    void pad(CUtensorMapDataType padded) {
        type = padded;
        sizes[0] = 256;
        box[0] = channels = 128;
    }
};

using Encode = CUresult (Arguments::*)(CUtensorMap*) const;
struct Case {
    const char* name;
    Encode encode;
    CUresult expected;
    std::function<void(Arguments&)> change;
};
constexpr Encode k_tiled = &Arguments::tiled, k_im2col = &Arguments::im2col, k_wide = &Arguments::wide;
constexpr CUresult k_good = CUDA_SUCCESS, k_bad = CUDA_ERROR_INVALID_VALUE, k_not = CUDA_ERROR_NOT_SUPPORTED;

/// NC/8HWC8 and NC/16HWC16 without gaps, for f32.
void slice(Arguments& a, CUtensorMapInterleave interleave, cuuint64_t bytes) {
    a.interleave = interleave;
    a.strides[0] = bytes;
    a.strides[1] = bytes * a.sizes[1] * (a.sizes[0] * 4 / bytes);
}

const Case k_cases[] = {
    {"all is well", k_tiled, k_good, [](Arguments&) {}},
    {"one dimension", k_tiled, k_good, [](Arguments& a) { a.rank = 1; }},
    {"five dimensions", k_tiled, k_good, [](Arguments& a) { a.rank = 5; }},
    {"no dimension", k_tiled, k_bad, [](Arguments& a) { a.rank = 0; }},
    {"six dimensions", k_tiled, k_bad, [](Arguments& a) { a.rank = 6; }},
    {"address", k_tiled, k_bad, [](Arguments& a) { a.address += 8; }},
    {"type", k_tiled, k_bad, [](Arguments& a) { a.type = CUtensorMapDataType(16); }},
    {"interleave", k_tiled, k_bad, [](Arguments& a) { a.interleave = CUtensorMapInterleave(3); }},
    {"swizzle", k_tiled, k_bad, [](Arguments& a) { a.swizzle = CUtensorMapSwizzle(7); }},
    {"promotion", k_tiled, k_bad, [](Arguments& a) { a.promotion = CUtensorMapL2promotion(4); }},
    {"fill", k_tiled, k_bad, [](Arguments& a) { a.fill = CUtensorMapFloatOOBfill(2); }},
    {"NaN", k_tiled, k_good, [](Arguments& a) { a.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA; }},
    {"NaN of integers", k_tiled, k_bad,
     [](Arguments& a) {
         a.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
         a.type = CU_TENSOR_MAP_DATA_TYPE_INT32;
     }},
    {"empty dimension", k_tiled, k_bad, [](Arguments& a) { a.sizes[2] = 0; }},
    {"largest dimension", k_tiled, k_good, [](Arguments& a) { a.sizes[2] = 1ull << 32; }},
    {"too large a dimension", k_tiled, k_bad, [](Arguments& a) { a.sizes[2] = (1ull << 32) + 1; }},
    {"stride of 8", k_tiled, k_bad, [](Arguments& a) { a.strides[0] = 136; }},
    {"longest stride", k_tiled, k_good, [](Arguments& a) { a.strides[1] = (1ull << 40) - 16; }},
    {"too long a stride", k_tiled, k_bad, [](Arguments& a) { a.strides[1] = 1ull << 40; }},
    {"stride that does not count", k_tiled, k_good, [](Arguments& a) { a.strides[2] = 1; }},
    {"empty box", k_tiled, k_bad, [](Arguments& a) { a.box[1] = 0; }},
    {"largest box", k_tiled, k_good, [](Arguments& a) { a.box[1] = a.box[0] = 256; }},
    {"too large a box", k_tiled, k_bad, [](Arguments& a) { a.box[1] = 257; }},
    {"box of 24 bytes", k_tiled, k_bad, [](Arguments& a) { a.box[0] = 6; }},
    {"step of 8", k_tiled, k_good, [](Arguments& a) { a.steps[1] = 8; }},
    {"step of 9", k_tiled, k_bad, [](Arguments& a) { a.steps[1] = 9; }},
    {"no step", k_tiled, k_bad, [](Arguments& a) { a.steps[2] = 0; }},
    {"step that is ignored", k_tiled, k_good, [](Arguments& a) { a.steps[0] = 0; }},
    {"as wide as the swizzle", k_tiled, k_good, [](Arguments& a) { a.swizzle = CU_TENSOR_MAP_SWIZZLE_32B; }},
    {"wider than 32", k_tiled, k_bad, [](Arguments& a) { a.swizzle = CU_TENSOR_MAP_SWIZZLE_32B, a.box[0] = 12; }},
    {"wider than 64", k_tiled, k_bad, [](Arguments& a) { a.swizzle = CU_TENSOR_MAP_SWIZZLE_64B, a.box[0] = 20; }},
    {"wider than 128", k_tiled, k_bad, [](Arguments& a) { a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B, a.box[0] = 36; }},
    {"chunks of 64", k_tiled, k_good, [](Arguments& a) { a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B, a.box[0] = 32; }},
    {"slices of 16", k_tiled, k_good, [](Arguments& a) { slice(a, CU_TENSOR_MAP_INTERLEAVE_16B, 16); }},
    {"slices of 2 dimensions", k_tiled, k_bad, [](Arguments& a) { slice(a, CU_TENSOR_MAP_INTERLEAVE_16B, 16), a.rank = 2; }},
    {"slices of 32 unswizzled", k_tiled, k_bad, [](Arguments& a) { slice(a, CU_TENSOR_MAP_INTERLEAVE_32B, 32); }},
    {"slices of 32", k_tiled, k_good,
     [](Arguments& a) { slice(a, CU_TENSOR_MAP_INTERLEAVE_32B, 32), a.swizzle = CU_TENSOR_MAP_SWIZZLE_32B; }},
    {"slices of 32 at 16", k_tiled, k_bad,
     [](Arguments& a) { slice(a, CU_TENSOR_MAP_INTERLEAVE_32B, 32), a.swizzle = CU_TENSOR_MAP_SWIZZLE_32B, a.address += 16; }},
    {"slices with gaps", k_tiled, k_not, [](Arguments& a) { slice(a, CU_TENSOR_MAP_INTERLEAVE_16B, 16), a.strides[1] += 16; }},
    {"4 bits", k_tiled, k_good, [](Arguments& a) { a.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B, a.box[0] = 32; }},
    {"4 bits, odd", k_tiled, k_bad,
     [](Arguments& a) { a.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B, a.box[0] = 32, a.sizes[0] = 33; }},
    {"4 bits with gaps", k_tiled, k_good, [](Arguments& a) { a.pad(CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B); }},
    {"6 bits", k_tiled, k_good, [](Arguments& a) { a.pad(CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B); }},
    {"6 bits at 16", k_tiled, k_bad, [](Arguments& a) { a.pad(CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B), a.address += 16; }},
    {"6 bits, stride", k_tiled, k_bad, [](Arguments& a) { a.pad(CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B), a.strides[0] += 16; }},
    {"6 bits, size", k_tiled, k_bad, [](Arguments& a) { a.pad(CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B), a.sizes[0] = 192; }},
    {"6 bits, box", k_tiled, k_bad, [](Arguments& a) { a.pad(CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B), a.box[0] = 64; }},
    {"6 bits, swizzle", k_tiled, k_bad,
     [](Arguments& a) { a.pad(CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B), a.swizzle = CU_TENSOR_MAP_SWIZZLE_64B; }},
    {"6 bits, chunks of 64", k_tiled, k_good,
     [](Arguments& a) { a.pad(CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B), a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B; }},
    {"4 bits, chunks of 64", k_tiled, k_bad,
     [](Arguments& a) { a.pad(CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B), a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B; }},

    {"all is well", k_im2col, k_good, [](Arguments&) {}},
    {"two dimensions", k_im2col, k_bad, [](Arguments& a) { a.rank = 2; }},
    {"five dimensions", k_im2col, k_good, [](Arguments& a) { a.rank = 5; }},
    {"farthest corner of 3", k_im2col, k_good, [](Arguments& a) { a.lower[0] = -32768, a.upper[0] = 32767; }},
    {"corner of 3", k_im2col, k_bad, [](Arguments& a) { a.lower[0] = -32769; }},
    {"farthest corner of 4", k_im2col, k_good, [](Arguments& a) { a.rank = 4, a.lower[1] = -128, a.upper[0] = 127; }},
    {"corner of 4", k_im2col, k_bad, [](Arguments& a) { a.rank = 4, a.upper[1] = 128; }},
    {"farthest corner of 5", k_im2col, k_good, [](Arguments& a) { a.rank = 5, a.lower[2] = -16, a.upper[1] = 15; }},
    {"corner of 5", k_im2col, k_bad, [](Arguments& a) { a.rank = 5, a.lower[2] = -17; }},
    {"box of one", k_im2col, k_good, [](Arguments& a) { a.lower[0] = 14; }},
    {"box of none", k_im2col, k_bad, [](Arguments& a) { a.lower[0] = 15; }},
    {"no channel", k_im2col, k_bad, [](Arguments& a) { a.channels = 0; }},
    {"too many channels", k_im2col, k_bad, [](Arguments& a) { a.channels = 260; }},
    {"most pixels", k_im2col, k_good, [](Arguments& a) { a.pixels = 1024; }},
    {"too many pixels", k_im2col, k_bad, [](Arguments& a) { a.pixels = 1025; }},
    {"wider than the swizzle", k_im2col, k_bad, [](Arguments& a) { a.swizzle = CU_TENSOR_MAP_SWIZZLE_32B, a.channels = 12; }},

    {"no swizzle", k_wide, k_bad, [](Arguments&) {}},
    {"all is well", k_wide, k_good, [](Arguments& a) { a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B; }},
    {"pixels are ignored", k_wide, k_good,
     [](Arguments& a) { a.swizzle = CU_TENSOR_MAP_SWIZZLE_64B, a.mode = CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128, a.pixels = 0; }},
    {"mode", k_wide, k_bad, [](Arguments& a) { a.swizzle = CU_TENSOR_MAP_SWIZZLE_64B, a.mode = CUtensorMapIm2ColWideMode(2); }},
    {"corner", k_wide, k_bad, [](Arguments& a) { a.swizzle = CU_TENSOR_MAP_SWIZZLE_64B, a.upper[0] = 32768; }},
};

class TensorMapTest : public DriverTest {};

TEST_F(TensorMapTest, ArgumentsAreChecked) {
    for (const Case& c : k_cases) {
        Arguments arguments;
        c.change(arguments);
        CUtensorMap map, untouched;
        std::memset(&map, 0x5a, sizeof map);
        std::memcpy(&untouched, &map, sizeof map);
        const char* call = c.encode == k_tiled ? "tiled" : c.encode == k_im2col ? "im2col" : "im2col wide";
        EXPECT_EQ((arguments.*c.encode)(&map), c.expected) << call << ": " << c.name;
        EXPECT_EQ(std::memcmp(&map, &untouched, sizeof map) == 0, c.expected != CUDA_SUCCESS) << call << ": " << c.name;
    }
}

TEST_F(TensorMapTest, PointersAreChecked) {
    Arguments a;
    alignas(128) std::byte bytes[2 * sizeof(CUtensorMap)];
    EXPECT_EQ(a.tiled(nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(a.tiled(reinterpret_cast<CUtensorMap*>(bytes + 32)), CUDA_ERROR_INVALID_VALUE);
    auto* map = reinterpret_cast<CUtensorMap*>(bytes);
    auto encode = [&](const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps,
                      cuuint32_t rank) {
        return CU(cuTensorMapEncodeTiled)(map, a.type, rank, a.at(), sizes, strides, box, steps, a.interleave, a.swizzle,
                                          a.promotion, a.fill);
    };
    EXPECT_EQ(encode(nullptr, a.strides, a.box, a.steps, 3), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(encode(a.sizes, nullptr, a.box, a.steps, 3), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(encode(a.sizes, a.strides, nullptr, a.steps, 3), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(encode(a.sizes, a.strides, a.box, nullptr, 3), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(encode(a.sizes, nullptr, a.box, a.steps, 1), CUDA_SUCCESS);  // there is no stride to give
    EXPECT_EQ(CU(cuTensorMapEncodeIm2col)(map, a.type, 3, a.at(), a.sizes, a.strides, nullptr, a.upper, 8, 8, a.steps,
                                          a.interleave, a.swizzle, a.promotion, a.fill),
              CUDA_ERROR_INVALID_VALUE);
}

TEST_F(TensorMapTest, AddressesAreReplaced) {
    Arguments first, second;
    second.address = 0x7f0000;
    CUtensorMap map{}, expected{};
    EXPECT_EQ(CU(cuTensorMapReplaceAddress)(&map, second.at()), CUDA_ERROR_INVALID_VALUE);  // nothing was encoded there
    ASSERT_CU(first.tiled(&map));
    ASSERT_CU(second.tiled(&expected));
    EXPECT_EQ(CU(cuTensorMapReplaceAddress)(&map, reinterpret_cast<void*>(second.address + 8)), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuTensorMapReplaceAddress)(nullptr, second.at()), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuTensorMapReplaceAddress)(&map, second.at()));
    EXPECT_EQ(std::memcmp(&map, &expected, sizeof map), 0);
}

TEST_F(TensorMapTest, TheAttributeFollowsTheComputeCapability) {
    int major = 0, supported = -1;
    EXPECT_CU(CU(cuDeviceGetAttribute)(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    EXPECT_CU(CU(cuDeviceGetAttribute)(&supported, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 0));
    EXPECT_EQ(supported, major >= 9 ? 1 : 0);
}

}  // namespace
}  // namespace softgpu_test
