// Images as convolutions read them: tensor maps of the im2col modes, and what a filter's tap sees of each output pixel. With
// -DWIDE the mode that stays in its row, which devices have from compute capability 10.0 on.
#include <cuda.h>

#include <cuda/barrier>
#include <utility>

#include "driver_calls.h"

using Barrier = cuda::barrier<cuda::thread_scope_block>;

static constexpr int k_channels = 16, k_width = 7, k_height = 5, k_images = 3;
static constexpr int k_pixels = 16;

struct Start {
    int w, h, n;  // the filter's corner
};

/// Where a channel of a pixel lies in shared memory. CUDA C++ Programming Guide, "TMA Swizzle": with 64 bytes, chunks of 16
/// bytes.
__device__ int place_of(int pixel, int channel) {
#ifdef WIDE
    return pixel * k_channels + (channel / 4 ^ pixel / 2 % 4) * 4 + channel % 4;
#else
    return pixel * k_channels + channel;
#endif
}

/// `k_pixels` pixels of all channels, from an output pixel on, of one tap.
__device__ void load(float* box, const CUtensorMap* map, Start at, int tap_w, int tap_h, Barrier& barrier) {
    const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(box));
    const auto bar = static_cast<unsigned>(__cvta_generic_to_shared(cuda::device::barrier_native_handle(barrier)));
    const auto w = static_cast<unsigned short>(tap_w), h = static_cast<unsigned short>(tap_h);
#ifdef WIDE
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cta.global.im2col::w.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6], "
        "{%8, %7};" ::"r"(shared),
        "l"(map), "r"(0), "r"(at.w), "r"(at.h + tap_h), "r"(at.n), "r"(bar), "h"(w), "h"(static_cast<unsigned short>(0))
        : "memory");
    (void)h;
#else
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], "
        "[%6], "
        "{%7, %8};" ::"r"(shared),
        "l"(map), "r"(0), "r"(at.w), "r"(at.h), "r"(at.n), "r"(bar), "h"(w), "h"(h)
        : "memory");
#endif
}

__global__ void columns(const __grid_constant__ CUtensorMap map, const Start* starts, int tap_w, int tap_h, float* out) {
    __shared__ alignas(1024) float box[k_pixels * k_channels];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ Barrier barrier;
    if (threadIdx.x == 0) {
        init(&barrier, blockDim.x);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    Barrier::arrival_token token;
    if (threadIdx.x == 0) {
        load(box, &map, starts[blockIdx.x], tap_w, tap_h, barrier);
        token = cuda::device::barrier_arrive_tx(barrier, 1, sizeof box);
    } else {
        token = barrier.arrive();
    }
    barrier.wait(std::move(token));
    for (int i = threadIdx.x; i < k_pixels * k_channels; i += blockDim.x)
        out[blockIdx.x * k_pixels * k_channels + i] = box[place_of(i / k_channels, i % k_channels)];
}

static std::vector<float> images() {
    std::vector<float> values(k_images * k_height * k_width * k_channels);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
    return values;
}

/// A channel at a place that may lie outside of the images, where zeros are.
static float value_at(const std::vector<float>& values, int w, int h, int n, int channel) {
    const bool inside = w >= 0 && w < k_width && h >= 0 && h < k_height && n >= 0 && n < k_images;
    return inside ? values[((n * k_height + h) * k_width + w) * k_channels + channel] : 0;
}

static const cuuint64_t k_sizes[] = {k_channels, k_width, k_height, k_images};
static const cuuint64_t k_strides[] = {k_channels * 4, k_channels * 4 * k_width, k_channels * 4 * k_width* k_height};
static const cuuint32_t k_steps[] = {1, 1, 1, 1};

static CUresult encode(CUtensorMap* map, void* memory, unsigned channels = k_channels) {
#ifdef WIDE
    static const auto call =
        find<CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*, int, int, cuuint32_t,
             cuuint32_t, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapIm2ColWideMode, CUtensorMapSwizzle,
             CUtensorMapL2promotion, CUtensorMapFloatOOBfill>("cuTensorMapEncodeIm2colWide", 12080);
    return call(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, memory, k_sizes, k_strides, -1, -1, channels, k_pixels, k_steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W, CU_TENSOR_MAP_SWIZZLE_64B,
                CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
#else
    static const auto call =
        find<CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*, const int*, const int*,
             cuuint32_t, cuuint32_t, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
             CUtensorMapFloatOOBfill>("cuTensorMapEncodeIm2col", 12000);
    const int lower[] = {-1, -1}, upper[] = {-1, -1};
    return call(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, memory, k_sizes, k_strides, lower, upper, channels, k_pixels, k_steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
#endif
}

#ifdef WIDE
// Output pixels of one row of all images, a group for each row.
static constexpr int k_boxes = k_height;
static Start start_of(int box) { return {-1, box - 1, 0}; }
static float expected(const std::vector<float>& values, int box, int pixel, int tap_w, int tap_h, int channel) {
    return value_at(values, pixel % k_width - 1 + tap_w, box - 1 + tap_h, pixel / k_width, channel);
}
#else
// Output pixels, as many as pixels of the images, are numbered through rows and images.
static constexpr int k_boxes = (k_width * k_height * k_images + k_pixels - 1) / k_pixels;
static Start start_of(int box) {
    const int first = box * k_pixels;
    return {first % k_width - 1, first / k_width % k_height - 1, first / (k_width * k_height)};
}
static float expected(const std::vector<float>& values, int box, int pixel, int tap_w, int tap_h, int channel) {
    const int number = box * k_pixels + pixel;
    return value_at(values, number % k_width - 1 + tap_w, number / k_width % k_height - 1 + tap_h,
                    number / (k_width * k_height), channel);
}
#endif

int main() {
    CHECK(cudaFree(nullptr));
#ifdef WIDE
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    if (device.major < 10) return passed("wide columns: the device has none, nothing");
#endif
    const std::vector<float> values = images();
    DeviceArray<float> memory(values), out(k_boxes * k_pixels * k_channels);
    std::vector<Start> places;
    for (int box = 0; box < k_boxes; ++box) places.push_back(start_of(box));
    DeviceArray<Start> starts(places);
    CUtensorMap map{};
    EXPECT_EQ(encode(&map, memory.data()), CUDA_SUCCESS);
    for (int tap = 0; tap < 9; ++tap) {
        columns<<<k_boxes, 32>>>(map, starts.data(), tap % 3, tap / 3, out.data());
        CHECK(cudaGetLastError());
        const std::vector<float> found = out.download();
        for (int i = 0; i < k_boxes * k_pixels * k_channels; ++i) {
            const int box = i / (k_pixels * k_channels), pixel = i / k_channels % k_pixels;
            EXPECT_EQ(found[i], expected(values, box, pixel, tap % 3, tap / 3, i % k_channels));
        }
    }
    CUtensorMap refused{};
    EXPECT_EQ(encode(&refused, reinterpret_cast<char*>(memory.data()) + 8), CUDA_ERROR_INVALID_VALUE);  // not of 16 bytes
    EXPECT_EQ(encode(&refused, memory.data(), 257), CUDA_ERROR_INVALID_VALUE);                          // more than a box has
#ifdef WIDE
    return passed("wide columns");
#else
    return passed("columns");
#endif
}
