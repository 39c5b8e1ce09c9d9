// Tests of arrays, textures and surfaces.
#include <cstring>

#include "tests/unit/softgpu_driver/library.h"

namespace softgpu_test {
namespace {

class TextureTest : public DriverTest {
protected:
    static CUarray create(size_t width, size_t height, unsigned int flags = 0, size_t depth = 0) {
        CUDA_ARRAY3D_DESCRIPTOR descriptor{width, height, depth, CU_AD_FORMAT_FLOAT, 1, flags};
        CUarray array = nullptr;
        EXPECT_CU(CU(cuArray3DCreate_v2)(&array, &descriptor));
        return array;
    }
    static CUresult create_texture(CUarray array, CUDA_TEXTURE_DESC texture, CUtexObject* object) {
        CUDA_RESOURCE_DESC resource{};
        resource.resType = CU_RESOURCE_TYPE_ARRAY;
        resource.res.array.hArray = array;
        return CU(cuTexObjectCreate)(object, &resource, &texture, nullptr);
    }
};

TEST_F(TextureTest, ArraysDescribeThemselves) {
    CUarray array = create(64, 32);
    CUDA_ARRAY_DESCRIPTOR flat{};
    CUDA_ARRAY3D_DESCRIPTOR full{};
    EXPECT_CU(CU(cuArrayGetDescriptor_v2)(&flat, array));
    EXPECT_EQ(flat.Width, 64u);
    EXPECT_EQ(flat.Height, 32u);
    EXPECT_CU(CU(cuArray3DGetDescriptor_v2)(&full, array));
    EXPECT_EQ(full.Format, CU_AD_FORMAT_FLOAT);
    EXPECT_CU(CU(cuArrayDestroy)(array));
    EXPECT_EQ(CU(cuArrayDestroy)(array), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(TextureTest, ImpossibleArraysAreRefused) {
    CUarray array = nullptr;
    auto refused = [&](CUDA_ARRAY3D_DESCRIPTOR d) { return CU(cuArray3DCreate_v2)(&array, &d) == CUDA_ERROR_INVALID_VALUE; };
    EXPECT_TRUE(refused({0, 0, 0, CU_AD_FORMAT_FLOAT, 1, 0}));
    EXPECT_TRUE(refused({8, 8, 0, CU_AD_FORMAT_FLOAT, 3, 0}));
    // Of two planes the second has half the rows and columns.
    EXPECT_TRUE(refused({8, 8, 0, CU_AD_FORMAT_NV12, 1, 0}));
    EXPECT_TRUE(refused({8, 7, 0, CU_AD_FORMAT_NV12, 3, 0}));
    EXPECT_TRUE(refused({7, 8, 0, CU_AD_FORMAT_NV12, 3, 0}));
    EXPECT_TRUE(refused({8, 8, 2, CU_AD_FORMAT_NV12, 3, 0}));
    EXPECT_TRUE(refused({8, 4, 6, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_CUBEMAP}));
    EXPECT_TRUE(refused({8, 8, 5, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_CUBEMAP}));
    EXPECT_TRUE(refused({8, 0, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_LAYERED}));
    EXPECT_TRUE(refused({8, 0, 4, CU_AD_FORMAT_FLOAT, 1, 0}));
    EXPECT_TRUE(refused({1 << 20, 0, 0, CU_AD_FORMAT_FLOAT, 1, 0}));
}

TEST_F(TextureTest, MipmapsHaveHalvedLevels) {
    CUDA_ARRAY3D_DESCRIPTOR descriptor{16, 8, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0};
    CUmipmappedArray mipmapped = nullptr;
    ASSERT_CU(CU(cuMipmappedArrayCreate)(&mipmapped, &descriptor, 10));
    CUarray level = nullptr;
    CUDA_ARRAY_DESCRIPTOR flat{};
    ASSERT_CU(CU(cuMipmappedArrayGetLevel)(&level, mipmapped, 4));  // the last: 1 x 1
    EXPECT_CU(CU(cuArrayGetDescriptor_v2)(&flat, level));
    EXPECT_EQ(flat.Width, 1u);
    EXPECT_EQ(flat.Height, 1u);
    EXPECT_EQ(CU(cuMipmappedArrayGetLevel)(&level, mipmapped, 5), CUDA_ERROR_INVALID_VALUE);
    ASSERT_CU(CU(cuMipmappedArrayGetLevel)(&level, mipmapped, 1));
    EXPECT_EQ(CU(cuArrayDestroy)(level), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU(CU(cuMipmappedArrayDestroy)(mipmapped));
    EXPECT_EQ(CU(cuArrayGetDescriptor_v2)(&flat, level), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(TextureTest, ObjectsTellWhatTheyWereMadeOf) {
    CUarray array = create(64, 32);
    CUDA_TEXTURE_DESC texture{};
    texture.flags = CU_TRSF_NORMALIZED_COORDINATES;
    texture.filterMode = CU_TR_FILTER_MODE_LINEAR;
    CUtexObject object = 0;
    ASSERT_CU(create_texture(array, texture, &object));
    EXPECT_NE(object, 0u);
    CUDA_RESOURCE_DESC resource{};
    CUDA_TEXTURE_DESC read{};
    CUDA_RESOURCE_VIEW_DESC view{};
    EXPECT_CU(CU(cuTexObjectGetResourceDesc)(&resource, object));
    EXPECT_EQ(resource.res.array.hArray, array);
    EXPECT_CU(CU(cuTexObjectGetTextureDesc)(&read, object));
    EXPECT_EQ(read.filterMode, CU_TR_FILTER_MODE_LINEAR);
    view.width = 7;
    EXPECT_CU(CU(cuTexObjectGetResourceViewDesc)(&view, object));  // DB-61: made without one
    EXPECT_EQ(view.format, CU_RES_VIEW_FORMAT_NONE);
    EXPECT_EQ(view.width, 0u);
    EXPECT_CU(CU(cuTexObjectDestroy)(object));
    EXPECT_EQ(CU(cuTexObjectGetTextureDesc)(&read, object), CUDA_ERROR_INVALID_VALUE);
    texture.addressMode[0] = static_cast<CUaddress_mode>(9);
    EXPECT_EQ(create_texture(array, texture, &object), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(create_texture(nullptr, CUDA_TEXTURE_DESC{}, &object), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(TextureTest, LinearMemoryIsChecked) {
    CUdeviceptr memory = 0;
    ASSERT_CU(CU(cuMemAlloc_v2)(&memory, 4096));
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_LINEAR;
    resource.res.linear = {memory, CU_AD_FORMAT_FLOAT, 1, 4096};
    CUDA_TEXTURE_DESC texture{};
    CUtexObject object = 0;
    EXPECT_CU(CU(cuTexObjectCreate)(&object, &resource, &texture, nullptr));
    EXPECT_CU(CU(cuTexObjectDestroy)(object));
    resource.res.linear.devPtr = memory + 4;
    EXPECT_EQ(CU(cuTexObjectCreate)(&object, &resource, &texture, nullptr), CUDA_ERROR_INVALID_VALUE);
    // Longer than the memory, but not than the limit.
    resource.res.linear = {memory, CU_AD_FORMAT_FLOAT, 1, 1 << 20};
    EXPECT_CU(CU(cuTexObjectCreate)(&object, &resource, &texture, nullptr));
    EXPECT_CU(CU(cuTexObjectDestroy)(object));
    resource.res.linear.sizeInBytes = size_t{1} << 40;
    EXPECT_EQ(CU(cuTexObjectCreate)(&object, &resource, &texture, nullptr), CUDA_ERROR_INVALID_VALUE);
    resource.res.linear = {memory + (1 << 30), CU_AD_FORMAT_FLOAT, 1, 4096};
    EXPECT_EQ(CU(cuTexObjectCreate)(&object, &resource, &texture, nullptr), CUDA_ERROR_INVALID_VALUE);
    resource.resType = CU_RESOURCE_TYPE_PITCH2D;
    resource.res.pitch2D = {memory, CU_AD_FORMAT_FLOAT, 1, 16, 8, 512};
    EXPECT_CU(CU(cuTexObjectCreate)(&object, &resource, &texture, nullptr));
    resource.res.pitch2D.pitchInBytes = 60;
    EXPECT_EQ(CU(cuTexObjectCreate)(&object, &resource, &texture, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(TextureTest, SurfacesNeedArraysThatAllowThem) {
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = create(16, 16);
    CUsurfObject object = 0;
    EXPECT_EQ(CU(cuSurfObjectCreate)(&object, &resource), CUDA_ERROR_INVALID_VALUE);
    resource.res.array.hArray = create(16, 16, CUDA_ARRAY3D_SURFACE_LDST);
    EXPECT_CU(CU(cuSurfObjectCreate)(&object, &resource));
    CUDA_RESOURCE_DESC read{};
    EXPECT_CU(CU(cuSurfObjectGetResourceDesc)(&read, object));
    EXPECT_EQ(read.res.array.hArray, resource.res.array.hArray);
    EXPECT_CU(CU(cuSurfObjectDestroy)(object));
    EXPECT_EQ(CU(cuSurfObjectGetResourceDesc)(&read, object), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuSurfObjectDestroy)(object));  // nobody looks whether it is there
}

}  // namespace
}  // namespace softgpu_test
