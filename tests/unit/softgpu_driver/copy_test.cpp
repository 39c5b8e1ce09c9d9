// Tests of copies of all shapes.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "tests/unit/softgpu_driver/library.h"

namespace softgpu_test {
namespace {

class CopyTest : public DriverTest {
protected:
    void SetUp() override {
        DriverTest::SetUp();
        ASSERT_CU(CU(cuMemAlloc_v2)(&m_memory, k_bytes));
        ASSERT_CU(CU(cuMemsetD8_v2)(m_memory, 0, k_bytes));
        ASSERT_CU(CU(cuCtxSynchronize)());  // streams that do not block do not wait for it
        m_host.resize(k_bytes);
        std::iota(m_host.begin(), m_host.end(), uint8_t{0});
    }
    std::vector<uint8_t> read() {
        std::vector<uint8_t> out(k_bytes);
        EXPECT_CU(CU(cuMemcpyDtoH_v2)(out.data(), m_memory, k_bytes));
        return out;
    }
    static constexpr size_t k_bytes = 64 << 10;
    CUdeviceptr m_memory = 0;
    std::vector<uint8_t> m_host;
};

TEST_F(CopyTest, ThereAndBack) {
    EXPECT_CU(CU(cuMemcpyHtoD_v2)(m_memory, m_host.data(), k_bytes));
    EXPECT_EQ(read(), m_host);
    CUdeviceptr second = 0;
    ASSERT_CU(CU(cuMemAlloc_v2)(&second, k_bytes));
    EXPECT_CU(CU(cuMemcpyDtoD_v2)(second, m_memory, k_bytes));
    std::vector<uint8_t> out(k_bytes);
    EXPECT_CU(CU(cuMemcpy)(reinterpret_cast<CUdeviceptr>(out.data()), second, k_bytes));
    EXPECT_EQ(out, m_host);
}

TEST_F(CopyTest, RangesAreChecked) {
    EXPECT_EQ(CU(cuMemcpyHtoD_v2)(m_memory + 1, m_host.data(), k_bytes), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuMemcpyHtoD_v2)(0x1000, m_host.data(), 4), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuMemcpyHtoD_v2)(m_memory, nullptr, 4), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuMemcpyDtoH_v2)(m_host.data(), m_memory + k_bytes - 2, 4), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuMemcpyHtoD_v2)(0, nullptr, 0));
    EXPECT_EQ(CU(cuMemsetD8_v2)(m_memory, 0, k_bytes + 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuMemsetD32_v2)(m_memory + 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CopyTest, AsynchronousCopiesOfPageableMemoryTakeTheSourceAtTheCall) {
    CUmodule module = load_kernels();
    CUstream stream = nullptr, other = nullptr;
    ASSERT_CU(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    ASSERT_CU(CU(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING));
    ASSERT_CU(launch_wait(module, m_memory + 60000, stream));
    std::vector<uint8_t> source(100, 1);
    EXPECT_CU(CU(cuMemcpyHtoDAsync_v2)(m_memory, source.data(), source.size(), stream));
    std::fill(source.begin(), source.end(), uint8_t{2});
    EXPECT_CU(launch_store(module, m_memory + 60000, 1, other));
    EXPECT_CU(CU(cuStreamSynchronize)(stream));
    EXPECT_EQ(read()[99], 1);
}

TEST_F(CopyTest, FillsInEveryWidth) {
    EXPECT_CU(CU(cuMemsetD8_v2)(m_memory, 0xab, 3));
    EXPECT_CU(CU(cuMemsetD16_v2)(m_memory + 4, 0x1234, 2));
    EXPECT_CU(CU(cuMemsetD32_v2)(m_memory + 8, 0xdeadbeef, 2));
    auto out = read();
    EXPECT_EQ(out[2], 0xab);
    EXPECT_EQ(out[3], 0);
    EXPECT_EQ(out[4], 0x34);
    EXPECT_EQ(out[7], 0x12);
    EXPECT_EQ(out[15], 0xde);
    EXPECT_EQ(out[16], 0);
    EXPECT_CU(CU(cuMemsetD2D32_v2)(m_memory + 1024, 128, 7, 4, 3));
    out = read();
    EXPECT_EQ(out[1024 + 2 * 128 + 12], 7);
    EXPECT_EQ(out[1024 + 16], 0);
}

TEST_F(CopyTest, RectanglesKeepTheirShape) {
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = m_host.data();
    copy.srcPitch = 256;
    copy.srcXInBytes = 3;
    copy.srcY = 2;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = m_memory;
    copy.dstPitch = 512;
    copy.dstXInBytes = 5;
    copy.WidthInBytes = 10;
    copy.Height = 4;
    EXPECT_CU(CU(cuMemcpy2D_v2)(&copy));
    auto out = read();
    for (size_t y = 0; y < 4; ++y) {
        for (size_t x = 0; x < 10; ++x) ASSERT_EQ(out[y * 512 + 5 + x], m_host[(y + 2) * 256 + 3 + x]);
        EXPECT_EQ(out[y * 512 + 15], 0);
    }
    copy.dstPitch = 8;
    EXPECT_EQ(CU(cuMemcpy2D_v2)(&copy), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CopyTest, BoxesThroughArrays) {
    CUDA_ARRAY3D_DESCRIPTOR descriptor{};
    descriptor.Width = 8;
    descriptor.Height = 4;
    descriptor.Depth = 3;
    descriptor.Format = CU_AD_FORMAT_UNSIGNED_INT16;
    descriptor.NumChannels = 2;
    CUarray array = nullptr;
    ASSERT_CU(CU(cuArray3DCreate_v2)(&array, &descriptor));
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = m_host.data();
    copy.srcPitch = 32;
    copy.srcHeight = 4;
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = array;
    copy.WidthInBytes = 32;
    copy.Height = 4;
    copy.Depth = 3;
    EXPECT_CU(CU(cuMemcpy3D_v2)(&copy));
    std::vector<uint8_t> out(8, 0);
    CUDA_MEMCPY3D back{};
    back.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    back.srcArray = array;
    back.srcXInBytes = 4;
    back.srcY = 1;
    back.srcZ = 2;
    back.dstMemoryType = CU_MEMORYTYPE_HOST;
    back.dstHost = out.data();
    back.dstPitch = 8;
    back.dstHeight = 1;
    back.WidthInBytes = 8;
    back.Height = back.Depth = 1;
    EXPECT_CU(CU(cuMemcpy3D_v2)(&back));
    for (size_t i = 0; i < 8; ++i) EXPECT_EQ(out[i], m_host[2 * 128 + 32 + 4 + i]);
    back.srcZ = 3;
    EXPECT_EQ(CU(cuMemcpy3D_v2)(&back), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuArrayDestroy)(array));
    EXPECT_EQ(CU(cuMemcpy3D_v2)(&copy), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CopyTest, BatchesCopyEveryElement) {
    CUstream stream = nullptr;
    ASSERT_CU(CU(cuStreamCreate)(&stream, 0));
    CUdeviceptr to[] = {m_memory, m_memory + 1000}, from[2];
    from[0] = reinterpret_cast<CUdeviceptr>(m_host.data());
    from[1] = reinterpret_cast<CUdeviceptr>(m_host.data() + 100);
    size_t sizes[] = {10, 20}, first = 0;
    CUmemcpyAttributes attributes{};
    attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    EXPECT_CU(CU(cuMemcpyBatchAsync_v2)(to, from, sizes, 2, &attributes, &first, 1, stream));
    EXPECT_CU(CU(cuStreamSynchronize)(stream));
    auto out = read();
    EXPECT_EQ(out[9], m_host[9]);
    EXPECT_EQ(out[10], 0);
    EXPECT_EQ(out[1019], m_host[119]);
    EXPECT_EQ(CU(cuMemcpyBatchAsync_v2)(to, from, sizes, 2, &attributes, &first, 1, nullptr), CUDA_ERROR_INVALID_VALUE);
    to[1] = m_memory + k_bytes - 4;  // reaches beyond
    size_t failed = 99;
    EXPECT_EQ(CU(cuMemcpyBatchAsync)(to, from, sizes, 2, &attributes, &first, 1, &failed, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(failed, 1u);
}

}  // namespace
}  // namespace softgpu_test
