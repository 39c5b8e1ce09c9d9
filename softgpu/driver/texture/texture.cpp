// Checks descriptions of textures and surfaces, and makes descriptors of them.
#include "softgpu/driver/texture/texture.h"

#include <algorithm>
#include <cstring>

#include "softgpu/driver/context/context.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/memory/memory.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

struct Texel {
    exec::TexelType type = exec::TexelType::u8;
    uint8_t channel_bytes = 0;
    uint8_t fixed_channels = 0;  // of formats that name their channels
};

bool read_format(CUarray_format format, Texel& out) {
    using T = exec::TexelType;
    switch (format) {
        case CU_AD_FORMAT_UNSIGNED_INT8: out = {T::u8, 1, 0}; return true;
        case CU_AD_FORMAT_UNSIGNED_INT16: out = {T::u16, 2, 0}; return true;
        case CU_AD_FORMAT_UNSIGNED_INT32: out = {T::u32, 4, 0}; return true;
        case CU_AD_FORMAT_SIGNED_INT8: out = {T::s8, 1, 0}; return true;
        case CU_AD_FORMAT_SIGNED_INT16: out = {T::s16, 2, 0}; return true;
        case CU_AD_FORMAT_SIGNED_INT32: out = {T::s32, 4, 0}; return true;
        case CU_AD_FORMAT_HALF: out = {T::f16, 2, 0}; return true;
        case CU_AD_FORMAT_FLOAT: out = {T::f32, 4, 0}; return true;
        case CU_AD_FORMAT_UNORM_INT8X1: out = {T::unorm8, 1, 1}; return true;
        case CU_AD_FORMAT_UNORM_INT8X2: out = {T::unorm8, 1, 2}; return true;
        case CU_AD_FORMAT_UNORM_INT8X4: out = {T::unorm8, 1, 4}; return true;
        case CU_AD_FORMAT_UNORM_INT16X1: out = {T::unorm16, 2, 1}; return true;
        case CU_AD_FORMAT_UNORM_INT16X2: out = {T::unorm16, 2, 2}; return true;
        case CU_AD_FORMAT_UNORM_INT16X4: out = {T::unorm16, 2, 4}; return true;
        case CU_AD_FORMAT_SNORM_INT8X1: out = {T::snorm8, 1, 1}; return true;
        case CU_AD_FORMAT_SNORM_INT8X2: out = {T::snorm8, 1, 2}; return true;
        case CU_AD_FORMAT_SNORM_INT8X4: out = {T::snorm8, 1, 4}; return true;
        case CU_AD_FORMAT_SNORM_INT16X1: out = {T::snorm16, 2, 1}; return true;
        case CU_AD_FORMAT_SNORM_INT16X2: out = {T::snorm16, 2, 2}; return true;
        case CU_AD_FORMAT_SNORM_INT16X4: out = {T::snorm16, 2, 4}; return true;
        default: return false;
    }
}

CUresult set_format(CUarray_format format, unsigned int channels, exec::TextureDescriptor& out) {
    Texel texel;
    if (!read_format(format, texel)) return CUDA_ERROR_INVALID_VALUE;
    if (texel.fixed_channels != 0) channels = texel.fixed_channels;
    if (channels != 1 && channels != 2 && channels != 4) return CUDA_ERROR_INVALID_VALUE;
    out.type = texel.type;
    out.channels = static_cast<uint8_t>(channels);
    out.element_bytes = static_cast<uint8_t>(texel.channel_bytes * channels);
    return CUDA_SUCCESS;
}

exec::TextureShape shape_of(const CUDA_ARRAY3D_DESCRIPTOR& d) {
    bool layered = (d.Flags & CUDA_ARRAY3D_LAYERED) != 0, cube = (d.Flags & CUDA_ARRAY3D_CUBEMAP) != 0;
    if (cube) return layered ? exec::TextureShape::cube_layered : exec::TextureShape::cube;
    if (layered) return d.Height == 0 ? exec::TextureShape::one_layered : exec::TextureShape::two_layered;
    if (d.Depth != 0) return exec::TextureShape::three;
    return d.Height != 0 ? exec::TextureShape::two : exec::TextureShape::one;
}

uint32_t layers_of(const CUDA_ARRAY3D_DESCRIPTOR& d) {
    if ((d.Flags & CUDA_ARRAY3D_LAYERED) == 0) return 1;
    bool cube = (d.Flags & CUDA_ARRAY3D_CUBEMAP) != 0;
    return static_cast<uint32_t>(cube ? d.Depth / 6 : d.Depth);
}

exec::TextureLevel level_of(const ArrayObject& array) {
    exec::TextureLevel level;
    level.base = reinterpret_cast<std::byte*>(array.base());
    level.width = static_cast<uint32_t>(array.descriptor().Width);
    level.height = static_cast<uint32_t>(array.rows());
    level.depth = static_cast<uint32_t>(array.slices());
    level.row_pitch_bytes = array.row_pitch_bytes();
    level.slice_pitch_bytes = array.slice_pitch_bytes();
    return level;
}

CUresult add_array(CUarray handle, exec::TextureDescriptor& out, std::shared_ptr<const void>& memory) {
    auto array = process().arrays.find(handle);
    if (array == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUDA_ARRAY3D_DESCRIPTOR& d = array->descriptor();
    CU_TRY(set_format(d.Format, d.NumChannels, out));
    out.shape = shape_of(d);
    out.layers = layers_of(d);
    out.levels[0] = level_of(*array);
    memory = array->memory();
    return CUDA_SUCCESS;
}

CUresult add_mipmapped(CUmipmappedArray handle, exec::TextureDescriptor& out, std::shared_ptr<const void>& memory) {
    auto array = process().mipmapped_arrays.find(handle);
    if (array == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUDA_ARRAY3D_DESCRIPTOR& d = array->descriptor();
    CU_TRY(set_format(d.Format, d.NumChannels, out));
    out.shape = shape_of(d);
    out.layers = layers_of(d);
    out.level_count = static_cast<uint32_t>(std::min<size_t>(array->levels().size(), exec::k_max_texture_levels));
    for (uint32_t i = 0; i < out.level_count; ++i) out.levels[i] = level_of(*array->levels()[i]);
    memory = array->levels().front()->memory();
    return CUDA_SUCCESS;
}

CUresult add_linear(const Device& device, const CUDA_RESOURCE_DESC& resource, exec::TextureDescriptor& out) {
    const auto& linear = resource.res.linear;
    auto alignment = static_cast<uint64_t>(device.attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT));
    if (linear.devPtr == 0 || linear.devPtr % alignment != 0 || linear.sizeInBytes == 0) return CUDA_ERROR_INVALID_VALUE;
    CU_TRY(set_format(linear.format, linear.numChannels, out));
    // As NVIDIA's driver it lets a texture be longer than the memory: what is read beyond is told when it is read.
    CU_TRY(check_device_range(linear.devPtr, 1, Access::read));
    out.shape = exec::TextureShape::linear;
    out.program_memory = true;
    out.linear_elements = linear.sizeInBytes / out.element_bytes;
    if (out.linear_elements > static_cast<uint64_t>(device.attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    out.levels[0].base = reinterpret_cast<std::byte*>(linear.devPtr);
    out.levels[0].width = static_cast<uint32_t>(out.linear_elements);
    out.levels[0].row_pitch_bytes = linear.sizeInBytes;
    return CUDA_SUCCESS;
}

CUresult add_pitched(const Device& device, const CUDA_RESOURCE_DESC& resource, exec::TextureDescriptor& out) {
    const auto& pitched = resource.res.pitch2D;
    auto limit = [&device](CUdevice_attribute which) { return static_cast<uint64_t>(device.attribute(which)); };
    if (pitched.devPtr == 0 || pitched.devPtr % limit(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (pitched.width == 0 || pitched.height == 0) return CUDA_ERROR_INVALID_VALUE;
    CU_TRY(set_format(pitched.format, pitched.numChannels, out));
    bool fits = pitched.pitchInBytes % limit(CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT) == 0 &&
                pitched.pitchInBytes >= pitched.width * out.element_bytes &&
                pitched.pitchInBytes <= limit(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH) &&
                pitched.width <= limit(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH) &&
                pitched.height <= limit(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT);
    if (!fits) return CUDA_ERROR_INVALID_VALUE;
    uint64_t bytes = pitched.pitchInBytes * (pitched.height - 1) + pitched.width * out.element_bytes;
    CU_TRY(check_device_range(pitched.devPtr, bytes, Access::read));
    out.shape = exec::TextureShape::two;
    out.program_memory = true;
    exec::TextureLevel& level = out.levels[0];
    level.base = reinterpret_cast<std::byte*>(pitched.devPtr);
    level.width = static_cast<uint32_t>(pitched.width);
    level.height = static_cast<uint32_t>(pitched.height);
    level.row_pitch_bytes = pitched.pitchInBytes;
    level.slice_pitch_bytes = pitched.pitchInBytes * pitched.height;
    return CUDA_SUCCESS;
}

/// The format that a view gives to elements of the same size. Block-compressed ones are not decoded here.
bool view_format(CUresourceViewFormat format, Texel& texel, unsigned int& channels) {
    if (format < CU_RES_VIEW_FORMAT_UINT_1X8 || format > CU_RES_VIEW_FORMAT_FLOAT_4X32) return false;
    constexpr CUarray_format formats[] = {CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_SIGNED_INT8,    CU_AD_FORMAT_UNSIGNED_INT16,
                                          CU_AD_FORMAT_SIGNED_INT16,  CU_AD_FORMAT_UNSIGNED_INT32, CU_AD_FORMAT_SIGNED_INT32,
                                          CU_AD_FORMAT_HALF,          CU_AD_FORMAT_FLOAT};
    int index = format - CU_RES_VIEW_FORMAT_UINT_1X8;
    channels = 1U << (index % 3);
    return read_format(formats[index / 3], texel);
}

CUresult apply_view(const CUDA_RESOURCE_VIEW_DESC& view, exec::TextureDescriptor& out) {
    if (view.format != CU_RES_VIEW_FORMAT_NONE) {
        Texel texel;
        unsigned int channels = 0;
        if (!view_format(view.format, texel, channels)) return CUDA_ERROR_NOT_SUPPORTED;
        if (texel.channel_bytes * channels != out.element_bytes) return CUDA_ERROR_INVALID_VALUE;
        out.type = texel.type;
        out.channels = static_cast<uint8_t>(channels);
    }
    if (view.firstMipmapLevel > view.lastMipmapLevel || view.lastMipmapLevel >= out.level_count)
        return CUDA_ERROR_INVALID_VALUE;
    out.level_count = view.lastMipmapLevel - view.firstMipmapLevel + 1;
    std::copy_n(out.levels + view.firstMipmapLevel, out.level_count, out.levels);
    if (view.firstLayer > view.lastLayer || view.lastLayer >= out.layers) return CUDA_ERROR_INVALID_VALUE;
    uint32_t faces = out.shape == exec::TextureShape::cube_layered ? 6 : 1;
    for (uint32_t i = 0; i < out.level_count; ++i) {
        out.levels[i].base += view.firstLayer * faces * out.levels[i].slice_pitch_bytes;
    }
    out.layers = view.lastLayer - view.firstLayer + 1;
    return CUDA_SUCCESS;
}

CUresult apply_texture(const CUDA_TEXTURE_DESC& texture, exec::TextureDescriptor& out) {
    for (int i = 0; i < 3; ++i) {
        if (texture.addressMode[i] < CU_TR_ADDRESS_MODE_WRAP || texture.addressMode[i] > CU_TR_ADDRESS_MODE_BORDER) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        out.address[i] = static_cast<exec::TextureAddress>(texture.addressMode[i]);
    }
    auto valid_filter = [](CUfilter_mode mode) { return mode == CU_TR_FILTER_MODE_POINT || mode == CU_TR_FILTER_MODE_LINEAR; };
    if (!valid_filter(texture.filterMode) || !valid_filter(texture.mipmapFilterMode)) return CUDA_ERROR_INVALID_VALUE;
    out.normalised_coordinates = (texture.flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
    bool integers = out.type <= exec::TexelType::s32;
    bool wide = out.type == exec::TexelType::u32 || out.type == exec::TexelType::s32;
    // 32-bit integers are never normalised.
    out.integer_reads = integers && (wide || (texture.flags & CU_TRSF_READ_AS_INTEGER) != 0);
    out.srgb = (texture.flags & CU_TRSF_SRGB) != 0;
    out.seamless_cube = (texture.flags & CU_TRSF_SEAMLESS_CUBEMAP) != 0;
    out.linear_filter = texture.filterMode == CU_TR_FILTER_MODE_LINEAR;
    out.linear_mipmaps = texture.mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR;
    if (out.linear_filter && out.integer_reads) return CUDA_ERROR_INVALID_VALUE;
    if (out.level_count > 1 && !out.normalised_coordinates) return CUDA_ERROR_INVALID_VALUE;
    // Repetition is defined for normalised coordinates; CUDA clamps otherwise.
    for (auto& mode : out.address) {
        bool repeats = mode == exec::TextureAddress::wrap || mode == exec::TextureAddress::mirror;
        if (repeats && !out.normalised_coordinates) mode = exec::TextureAddress::clamp;
    }
    out.max_anisotropy = std::clamp(texture.maxAnisotropy, 1U, 16U);
    out.level_bias = texture.mipmapLevelBias;
    out.min_level = texture.minMipmapLevelClamp;
    out.max_level = texture.maxMipmapLevelClamp;
    std::copy_n(texture.borderColor, 4, out.border);
    return CUDA_SUCCESS;
}

void bind_variable(uint64_t variable, uint64_t handle) {
    if (variable != 0) std::memcpy(reinterpret_cast<void*>(variable), &handle, sizeof(handle));
}

}  // namespace

CUresult describe_texture(const Device& device, const CUDA_RESOURCE_DESC& resource, const CUDA_TEXTURE_DESC& texture,
                          const CUDA_RESOURCE_VIEW_DESC* view, exec::TextureDescriptor& out,
                          std::shared_ptr<const void>& memory) {
    if (resource.flags != 0) return CUDA_ERROR_INVALID_VALUE;
    switch (resource.resType) {
        case CU_RESOURCE_TYPE_ARRAY: CU_TRY(add_array(resource.res.array.hArray, out, memory)); break;
        case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: CU_TRY(add_mipmapped(resource.res.mipmap.hMipmappedArray, out, memory)); break;
        case CU_RESOURCE_TYPE_LINEAR: CU_TRY(add_linear(device, resource, out)); break;
        case CU_RESOURCE_TYPE_PITCH2D: CU_TRY(add_pitched(device, resource, out)); break;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    bool has_array = resource.resType == CU_RESOURCE_TYPE_ARRAY || resource.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    if (view != nullptr && !has_array) return CUDA_ERROR_INVALID_VALUE;
    if (view != nullptr) CU_TRY(apply_view(*view, out));
    return apply_texture(texture, out);
}

CUresult describe_surface(const CUDA_RESOURCE_DESC& resource, exec::SurfaceDescriptor& out,
                          std::shared_ptr<const void>& memory) {
    if (resource.resType != CU_RESOURCE_TYPE_ARRAY || resource.flags != 0) return CUDA_ERROR_INVALID_VALUE;
    auto array = process().arrays.find(resource.res.array.hArray);
    if (array == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if ((array->descriptor().Flags & CUDA_ARRAY3D_SURFACE_LDST) == 0) return CUDA_ERROR_INVALID_VALUE;
    exec::TextureDescriptor texture;
    CU_TRY(add_array(resource.res.array.hArray, texture, memory));
    out.shape = texture.shape;
    out.type = texture.type;
    out.channels = texture.channels;
    out.element_bytes = texture.element_bytes;
    out.layers = texture.layers;
    out.level = texture.levels[0];
    return CUDA_SUCCESS;
}

TextureReference::~TextureReference() {
    if (m_bound != 0) exec::remove_texture(m_bound);
}

CUresult TextureReference::bind() {
    if (!has_resource) return CUDA_SUCCESS;
    exec::TextureDescriptor descriptor;
    std::shared_ptr<const void> memory;
    CU_TRY(describe_texture(m_context->device(), resource, texture, nullptr, descriptor, memory));
    uint64_t handle = exec::add_texture(descriptor);
    if (handle == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    // Launches that were made before see the old binding.
    for (const FencePtr& fence : Scheduler::instance().pending(*m_context->group())) fence->wait();
    bind_variable(m_variable, handle);
    if (m_bound != 0) exec::remove_texture(m_bound);
    m_bound = handle;
    m_memory = std::move(memory);
    return CUDA_SUCCESS;
}

SurfaceReference::~SurfaceReference() {
    if (m_bound != 0) exec::remove_surface(m_bound);
}

CUresult SurfaceReference::bind(CUarray array) {
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array;
    exec::SurfaceDescriptor descriptor;
    std::shared_ptr<const void> memory;
    CU_TRY(describe_surface(resource, descriptor, memory));
    uint64_t handle = exec::add_surface(descriptor);
    if (handle == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    for (const FencePtr& fence : Scheduler::instance().pending(*m_context->group())) fence->wait();
    bind_variable(m_variable, handle);
    if (m_bound != 0) exec::remove_surface(m_bound);
    m_bound = handle;
    m_array = array;
    m_memory = std::move(memory);
    return CUDA_SUCCESS;
}

}  // namespace warpline::softgpu::driver
