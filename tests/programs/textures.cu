// Texture and surface objects: linear memory, 1D, 2D, 3D and layered arrays, point and linear filter, address modes, normalised
// reads.
#include "check.h"

__global__ void fetch_linear(cudaTextureObject_t t, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = tex1Dfetch<float>(t, n - 1 - i);
}
__global__ void sample(cudaTextureObject_t t, float* out, int width, int height, float shift) {
    int x = threadIdx.x, y = blockIdx.x;
    out[y * blockDim.x + x] = tex2D<float>(t, static_cast<float>(x) + shift, static_cast<float>(y) + shift);
    (void)width, (void)height;
}
__global__ void sample_bytes(cudaTextureObject_t t, float4* out) {
    out[threadIdx.x] = tex2D<float4>(t, threadIdx.x + 0.5f, 0.5f);
}
__global__ void sample_volume(cudaTextureObject_t t, int* out) {
    out[(blockIdx.x * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x] =
        tex3D<int>(t, threadIdx.x + 0.5f, threadIdx.y + 0.5f, blockIdx.x + 0.5f);
}
__global__ void sample_layers(cudaTextureObject_t t, float* out) {
    out[(blockIdx.x * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x] =
        tex2DLayered<float>(t, threadIdx.x + 0.5f, threadIdx.y + 0.5f, blockIdx.x);
}
__global__ void double_surface(cudaSurfaceObject_t s, int width) {
    int x = threadIdx.x, y = blockIdx.x;
    float v = surf2Dread<float>(s, x * 4, y);
    surf2Dwrite(v * 2 + static_cast<float>(width), s, x * 4, y);
}

static cudaTextureObject_t texture(const cudaResourceDesc& resource, cudaTextureFilterMode filter, cudaTextureAddressMode mode,
                                   cudaTextureReadMode read = cudaReadModeElementType, bool normalized = false) {
    cudaTextureDesc desc = {};
    desc.filterMode = filter;
    desc.readMode = read;
    desc.normalizedCoords = normalized;
    for (auto& m : desc.addressMode) m = mode;
    cudaTextureObject_t t;
    CHECK(cudaCreateTextureObject(&t, &resource, &desc, nullptr));
    return t;
}
static cudaResourceDesc of_array(cudaArray_t array) {
    cudaResourceDesc r = {};
    r.resType = cudaResourceTypeArray;
    r.res.array.array = array;
    return r;
}

/// Each level of a mipmapped array is an array of its own, half as large on each side.
static void levels() {
    const int width = 8, height = 6, count = 3;
    cudaChannelFormatDesc ints = cudaCreateChannelDesc<int>();
    cudaMipmappedArray_t pyramid;
    CHECK(cudaMallocMipmappedArray(&pyramid, &ints, make_cudaExtent(width, height, 0), count));
    std::vector<int> values(width * height);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i * 7);
    for (int level = 0; level < count; ++level) {
        const int columns = width >> level, rows = height >> level;
        cudaArray_t array;
        CHECK(cudaGetMipmappedArrayLevel(&array, pyramid, level));
        CHECK(cudaMemcpy2DToArrayAsync(array, 0, 0, values.data(), columns * 4, columns * 4, rows, cudaMemcpyHostToDevice));
        EXPECT_EQ(cudaMemcpy2DToArrayAsync(array, 4, 0, values.data(), columns * 4, columns * 4, rows, cudaMemcpyHostToDevice),
                  cudaErrorInvalidValue);
        std::vector<int> back(columns * rows);
        CHECK(cudaMemcpy2DFromArray(back.data(), columns * 4, array, 0, 0, columns * 4, rows, cudaMemcpyDeviceToHost));
        EXPECT(std::equal(back.begin(), back.end(), values.begin()));
    }
    cudaArray_t none;
    EXPECT_EQ(cudaGetMipmappedArrayLevel(&none, pyramid, count), cudaErrorInvalidValue);
    cudaGetLastError();
    CHECK(cudaFreeMipmappedArray(pyramid));
}

int main() {
    const int n = 1000, width = 16, height = 9;
    std::vector<float> line(n);
    for (int i = 0; i < n; ++i) line[i] = static_cast<float>(i) * 0.5f;
    DeviceArray<float> dline(line), dout(n);
    cudaResourceDesc linear = {};
    linear.resType = cudaResourceTypeLinear;
    linear.res.linear.devPtr = dline.data();
    linear.res.linear.desc = cudaCreateChannelDesc<float>();
    linear.res.linear.sizeInBytes = n * sizeof(float);
    cudaTextureObject_t t = texture(linear, cudaFilterModePoint, cudaAddressModeClamp);
    cudaResourceViewDesc view;
    CHECK(cudaGetTextureObjectResourceViewDesc(&view, t));  // though it was made without
    fetch_linear<<<8, 128>>>(t, dout.data(), n);
    CHECK(cudaGetLastError());
    auto out = dout.download();
    for (int i = 0; i < n; ++i) EXPECT_EQ(out[i], line[n - 1 - i]);
    CHECK(cudaDestroyTextureObject(t));
    // Longer than the memory, as long as nobody reads there.
    linear.res.linear.sizeInBytes = 16 * n * sizeof(float);
    t = texture(linear, cudaFilterModePoint, cudaAddressModeClamp);
    CHECK(cudaMemset(dout.data(), 0, n * sizeof(float)));
    fetch_linear<<<8, 128>>>(t, dout.data(), n);
    CHECK(cudaGetLastError());
    EXPECT(dout.download() == out);
    CHECK(cudaDestroyTextureObject(t));
    // Any allocation may be a texture, however small its neighbour is.
    DeviceArray<float> neighbour(3), small(42);
    linear.res.linear.devPtr = small.data();
    linear.res.linear.sizeInBytes = 42 * sizeof(float);
    t = texture(linear, cudaFilterModePoint, cudaAddressModeClamp);
    CHECK(cudaDestroyTextureObject(t));
    linear.res.linear.devPtr = dline.data();
    linear.res.linear.sizeInBytes = size_t{1} << 40;
    cudaTextureDesc plain = {};
    EXPECT_EQ(cudaCreateTextureObject(&t, &linear, &plain, nullptr), cudaErrorInvalidValue);
    cudaGetLastError();

    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t array;
    CHECK(cudaMallocArray(&array, &format, width, height, cudaArraySurfaceLoadStore));
    std::vector<float> plane(width * height);
    for (int i = 0; i < width * height; ++i) plane[i] = static_cast<float>((i * 37) % 64);
    CHECK(cudaMemcpy2DToArray(array, 0, 0, plane.data(), width * 4, width * 4, height, cudaMemcpyHostToDevice));
    // Beyond its end: refused by the call itself, and nothing is read for it.
    EXPECT_EQ(cudaMemcpy2DToArray(array, 4, 0, plane.data(), width * 4, width * 4, height, cudaMemcpyHostToDevice),
              cudaErrorInvalidValue);
    EXPECT_EQ(
        cudaMemcpy2DToArrayAsync(array, 0, 1, plane.data(), width * 4, width * 4, height, cudaMemcpyHostToDevice, nullptr),
        cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemcpy2DFromArray(plane.data(), width * 4, array, 0, 0, width * 4, height + 1, cudaMemcpyDeviceToHost),
              cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemcpy2DToArray(array, 0, 0, plane.data(), size_t{1} << 40, size_t{1} << 40, height, cudaMemcpyHostToDevice),
              cudaErrorInvalidValue);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
    DeviceArray<float> dplane(width * height);
    auto at = [&](int x, int y) {
        return plane[std::min(std::max(y, 0), height - 1) * width + std::min(std::max(x, 0), width - 1)];
    };
    t = texture(of_array(array), cudaFilterModePoint, cudaAddressModeClamp);
    sample<<<height, width>>>(t, dplane.data(), width, height, 2.25f);
    CHECK(cudaGetLastError());
    auto got = dplane.download();
    for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x) EXPECT_EQ(got[y * width + x], at(x + 2, y + 2));
    CHECK(cudaDestroyTextureObject(t));
    t = texture(of_array(array), cudaFilterModeLinear, cudaAddressModeClamp);
    sample<<<height, width>>>(t, dplane.data(), width, height, 1.0f);
    CHECK(cudaGetLastError());
    got = dplane.download();
    for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x)
            EXPECT_EQ(got[y * width + x], (at(x, y) + at(x + 1, y) + at(x, y + 1) + at(x + 1, y + 1)) / 4);
    CHECK(cudaDestroyTextureObject(t));
    t = texture(of_array(array), cudaFilterModePoint, cudaAddressModeBorder);
    sample<<<height, width>>>(t, dplane.data(), width, height, -1.5f);
    CHECK(cudaGetLastError());
    got = dplane.download();
    for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x) EXPECT_EQ(got[y * width + x], x < 2 || y < 2 ? 0.0f : at(x - 2, y - 2));
    CHECK(cudaDestroyTextureObject(t));

    cudaSurfaceObject_t surface;
    cudaResourceDesc resource = of_array(array);
    CHECK(cudaCreateSurfaceObject(&surface, &resource));
    double_surface<<<height, width>>>(surface, width);
    CHECK(cudaGetLastError());
    CHECK(cudaDestroySurfaceObject(surface));
    std::vector<float> doubled(width * height);
    CHECK(cudaMemcpy2DFromArray(doubled.data(), width * 4, array, 0, 0, width * 4, height, cudaMemcpyDeviceToHost));
    for (int i = 0; i < width * height; ++i) EXPECT_EQ(doubled[i], plane[i] * 2 + width);
    CHECK(cudaFreeArray(array));

    cudaChannelFormatDesc bytes = cudaCreateChannelDesc<uchar4>();
    CHECK(cudaMallocArray(&array, &bytes, 8, 1));
    std::vector<uchar4> colours(8);
    for (int i = 0; i < 8; ++i) colours[i] = make_uchar4(i * 30, 255 - i, 5, 255);
    CHECK(cudaMemcpy2DToArray(array, 0, 0, colours.data(), 32, 32, 1, cudaMemcpyHostToDevice));
    t = texture(of_array(array), cudaFilterModePoint, cudaAddressModeClamp, cudaReadModeNormalizedFloat);
    DeviceArray<float4> dcolours(8);
    sample_bytes<<<1, 8>>>(t, dcolours.data());
    CHECK(cudaGetLastError());
    auto read = dcolours.download();
    for (int i = 0; i < 8; ++i) {
        EXPECT(std::fabs(read[i].x - static_cast<float>(i * 30) / 255) < 1e-6f);
        EXPECT_EQ(read[i].w, 1.0f);
    }
    CHECK(cudaDestroyTextureObject(t));
    CHECK(cudaFreeArray(array));

    cudaChannelFormatDesc ints = cudaCreateChannelDesc<int>();
    const int depth = 4;
    CHECK(cudaMalloc3DArray(&array, &ints, make_cudaExtent(8, 6, depth)));
    std::vector<int> volume(8 * 6 * depth);
    for (size_t i = 0; i < volume.size(); ++i) volume[i] = static_cast<int>(i * 11);
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(volume.data(), 32, 8, 6);
    copy.dstArray = array;
    copy.extent = make_cudaExtent(8, 6, depth);
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    t = texture(of_array(array), cudaFilterModePoint, cudaAddressModeClamp);
    DeviceArray<int> dvolume(volume.size());
    sample_volume<<<depth, dim3(8, 6)>>>(t, dvolume.data());
    CHECK(cudaGetLastError());
    EXPECT(dvolume.download() == volume);
    CHECK(cudaDestroyTextureObject(t));
    CHECK(cudaFreeArray(array));

    CHECK(cudaMalloc3DArray(&array, &format, make_cudaExtent(8, 6, 3), cudaArrayLayered));
    std::vector<float> layers(8 * 6 * 3);
    for (size_t i = 0; i < layers.size(); ++i) layers[i] = static_cast<float>(i);
    copy = {};
    copy.srcPtr = make_cudaPitchedPtr(layers.data(), 32, 8, 6);
    copy.dstArray = array;
    copy.extent = make_cudaExtent(8, 6, 3);
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    t = texture(of_array(array), cudaFilterModePoint, cudaAddressModeClamp);
    DeviceArray<float> dlayers(layers.size());
    sample_layers<<<3, dim3(8, 6)>>>(t, dlayers.data());
    CHECK(cudaGetLastError());
    EXPECT(dlayers.download() == layers);
    CHECK(cudaDestroyTextureObject(t));
    CHECK(cudaFreeArray(array));
    levels();
    return passed("textures and surfaces");
}
