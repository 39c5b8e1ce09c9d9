// Arrays by the driver's interface: what they say of themselves, and copies of parts of a row between arrays, device memory and
// the host, in the order of streams.
#include <cstring>

#include "driver_calls.h"

static CUarray row_of(size_t width) {
    const CUDA_ARRAY_DESCRIPTOR description{width, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1};
    CUarray array;
    DRIVER(cuArrayCreate(&array, &description));
    return array;
}

static std::vector<unsigned char> numbers(size_t count, unsigned seed) {
    Random random(seed);
    std::vector<unsigned char> bytes(count);
    for (auto& byte : bytes) byte = static_cast<unsigned char>(random.next());
    return bytes;
}

static void descriptions() {
    const CUDA_ARRAY_DESCRIPTOR flat{24, 7, CU_AD_FORMAT_UNSIGNED_INT16, 2};
    const CUDA_ARRAY3D_DESCRIPTOR layered{16, 8, 5, CU_AD_FORMAT_FLOAT, 4, CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST};
    CUarray one, other;
    DRIVER(cuArrayCreate(&one, &flat));
    DRIVER(cuArray3DCreate(&other, &layered));
    CUDA_ARRAY_DESCRIPTOR found{};
    DRIVER(cuArrayGetDescriptor(&found, one));
    EXPECT(found.Width == 24 && found.Height == 7 && found.Format == CU_AD_FORMAT_UNSIGNED_INT16 && found.NumChannels == 2);
    DRIVER(cuArrayGetDescriptor(&found, other));
    EXPECT(found.Width == 16 && found.Height == 8 && found.Format == CU_AD_FORMAT_FLOAT && found.NumChannels == 4);
    CUDA_ARRAY3D_DESCRIPTOR deep{};
    DRIVER(cuArray3DGetDescriptor(&deep, one));
    EXPECT(deep.Width == 24 && deep.Height == 7 && deep.Depth == 0 && deep.Flags == 0);
    DRIVER(cuArray3DGetDescriptor(&deep, other));
    EXPECT(deep.Depth == 5 && deep.Flags == layered.Flags && deep.Format == CU_AD_FORMAT_FLOAT && deep.NumChannels == 4);
    // A level of a mipmapped array is as large as it should be.
    const CUDA_ARRAY3D_DESCRIPTOR base{20, 9, 0, CU_AD_FORMAT_FLOAT, 1, 0};
    CUmipmappedArray pyramid;
    DRIVER(cuMipmappedArrayCreate(&pyramid, &base, 3));
    CUarray level;
    DRIVER(cuMipmappedArrayGetLevel(&level, pyramid, 2));
    DRIVER(cuArrayGetDescriptor(&found, level));
    EXPECT(found.Width == 5 && found.Height == 2);
    REFUSED(cuArrayDestroy(level), CUDA_ERROR_INVALID_HANDLE);  // it goes with the others
    DRIVER(cuArray3DGetDescriptor(&deep, level));
    EXPECT(deep.Width == 5 && deep.Height == 2);
    CHECK(cudaDeviceSynchronize());

    // What only arrays of several planes have, sparse ones, and those whose memory is mapped later.
    CUarray plane = level;
    CUDA_ARRAY_SPARSE_PROPERTIES sparse;
    CUDA_ARRAY_MEMORY_REQUIREMENTS memory;
    REFUSED(cuArrayGetPlane(&plane, one, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(plane == level);  // nothing is written beside an error
    REFUSED(cuArrayGetSparseProperties(&sparse, one), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuMipmappedArrayGetSparseProperties(&sparse, pyramid), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuArrayGetMemoryRequirements(&memory, one, 0), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuMipmappedArrayGetMemoryRequirements(&memory, pyramid, 0), CUDA_ERROR_INVALID_VALUE);
    for (CUarray array : {one, other}) DRIVER(cuArrayDestroy(array));
    DRIVER(cuMipmappedArrayDestroy(pyramid));
}

static void copy_rows(CUarray array, std::vector<unsigned char>& bytes, size_t row, bool to_array) {
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = to_array ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_ARRAY;
    copy.dstMemoryType = to_array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_HOST;
    copy.srcHost = copy.dstHost = bytes.data();
    copy.srcArray = copy.dstArray = array;
    copy.srcPitch = copy.dstPitch = copy.WidthInBytes = row;
    copy.Height = bytes.size() / row;
    DRIVER(cuMemcpy2D(&copy));
}

// A picture in two planes: the brightness of each pixel, and two channels of colour for each four.
static void planes() {
    constexpr size_t k_width = 32, k_height = 12;
    const CUDA_ARRAY3D_DESCRIPTOR description{k_width, k_height, 0, CU_AD_FORMAT_NV12, 3, 0};
    CUarray picture, parts[2], none = nullptr;
    // An H200's driver has been seen to refuse it (docs/driver-behaviour.md).
    const CUresult made = cuArray3DCreate(&picture, &description);
    if (made == CUDA_ERROR_INVALID_VALUE) return;
    DRIVER(made);
    std::vector<unsigned char> sent[2] = {numbers(k_width * k_height, 5), numbers(k_width * k_height / 2, 6)};
    for (unsigned i = 0; i < 2; ++i) {
        DRIVER(cuArrayGetPlane(&parts[i], picture, i));
        CUDA_ARRAY_DESCRIPTOR found{};
        DRIVER(cuArrayGetDescriptor(&found, parts[i]));
        EXPECT(found.Width == k_width >> i && found.Height == k_height >> i);
        EXPECT(found.Format == CU_AD_FORMAT_UNSIGNED_INT8 && found.NumChannels == i + 1);
        copy_rows(parts[i], sent[i], k_width, true);
    }
    for (int i = 0; i < 2; ++i) {
        std::vector<unsigned char> back(sent[i].size(), 0);
        copy_rows(parts[i], back, k_width, false);
        EXPECT(back == sent[i]);
    }
    REFUSED(cuArrayGetPlane(&none, picture, 2), CUDA_ERROR_INVALID_VALUE);
    EXPECT(none == nullptr);
    DRIVER(cuArrayDestroy(picture));
}

// Host to array to array to device memory, and back another way; each copy a part, at another place.
static void parts() {
    constexpr size_t k_bytes = 4000;
    const auto sent = numbers(k_bytes, 1);
    const CUarray one = row_of(k_bytes), other = row_of(k_bytes);
    DeviceArray<unsigned char> memory(k_bytes);
    const auto address = reinterpret_cast<CUdeviceptr>(memory.data());
    const std::vector<unsigned char> zeros(k_bytes, 0);
    DRIVER(cuMemcpyHtoA(other, 0, zeros.data(), k_bytes));
    DRIVER(cuMemcpyHtoA(one, 0, sent.data(), k_bytes));
    memory.upload(zeros);
    DRIVER(cuMemcpyAtoA(other, 100, one, 900, 1000));
    DRIVER(cuMemcpyAtoD(address + 7, other, 50, 1000));
    std::vector<unsigned char> found = memory.download(), expected(k_bytes, 0);
    std::memcpy(&expected[7 + 50], &sent[900], 950);
    EXPECT(found == expected);
    DRIVER(cuMemcpyDtoA(other, 3000, address + 57, 950));
    DRIVER(cuMemcpyAtoH(found.data(), other, 0, k_bytes));
    std::fill(expected.begin(), expected.end(), 0);
    std::memcpy(&expected[100], &sent[900], 1000);
    std::memcpy(&expected[3000], &sent[900], 950);
    EXPECT(found == expected);
    // Beyond the end, of either side.
    REFUSED(cuMemcpyAtoA(other, 3500, one, 0, 501), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuMemcpyAtoA(other, 0, one, 3500, 501), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuMemcpyAtoD(address, one, k_bytes, 1), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuMemcpyDtoA(one, 1, address, k_bytes), CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuMemcpyAtoH(found.data(), other, 0, k_bytes));
    EXPECT(found == expected);
    for (CUarray array : {one, other}) DRIVER(cuArrayDestroy(array));
}

// Copies of a stream that another one lets go on: nothing has happened before, all of it afterwards.
static void order() {
    constexpr size_t k_bytes = 3000;
    const auto first = numbers(k_bytes, 2), second = numbers(k_bytes, 3);
    unsigned char *source, *target;
    DRIVER(cuMemAllocHost(reinterpret_cast<void**>(&source), k_bytes));
    DRIVER(cuMemAllocHost(reinterpret_cast<void**>(&target), k_bytes));
    std::memcpy(source, second.data(), k_bytes);
    std::memset(target, 0, k_bytes);
    const CUarray array = row_of(k_bytes);
    DRIVER(cuMemcpyHtoA(array, 0, first.data(), k_bytes));
    DeviceArray<unsigned> gate(std::vector<unsigned>{0});
    const auto word = reinterpret_cast<CUdeviceptr>(gate.data());
    CUstream held, opener;
    DRIVER(cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
    DRIVER(cuStreamCreate(&opener, CU_STREAM_NON_BLOCKING));
    DRIVER(cuStreamWaitValue32(held, word, 1, CU_STREAM_WAIT_VALUE_EQ));
    DRIVER(cuMemcpyHtoAAsync(array, 1000, source, 1500, held));
    DRIVER(cuMemcpyAtoHAsync(target + 1, array, 500, 2000, held));
    for (size_t i = 0; i < k_bytes; ++i) EXPECT_EQ(target[i], 0);
    DRIVER(cuStreamWriteValue32(opener, word, 1, 0));
    DRIVER(cuStreamSynchronize(held));
    std::vector<unsigned char> expected = first;
    std::memcpy(&expected[1000], second.data(), 1500);
    EXPECT(std::memcmp(target + 1, &expected[500], 2000) == 0 && target[0] == 0 && target[2001] == 0);
    for (CUstream stream : {held, opener}) DRIVER(cuStreamDestroy(stream));
    for (unsigned char* memory : {source, target}) DRIVER(cuMemFreeHost(memory));
    DRIVER(cuArrayDestroy(array));
}

int main() {
    CHECK(cudaFree(nullptr));
    descriptions();
    planes();
    parts();
    order();
    return passed("parts of arrays");
}
