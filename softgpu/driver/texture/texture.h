// Textures, surfaces, and references to them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"
#include "softgpu/driver/memory/array.h"
#include "softgpu/exec/texture.h"

namespace warpline::softgpu::driver {

/// From CUDA's descriptions to what device code reads.
///
/// @errors  invalid value (formats, sizes, alignments, modes that do not go together), invalid handle (arrays)
/// @source  CUDA Driver API 13.0, Texture Object Management, cuTexObjectCreate
CUresult describe_texture(const Device& device, const CUDA_RESOURCE_DESC& resource, const CUDA_TEXTURE_DESC& texture,
                          const CUDA_RESOURCE_VIEW_DESC* view, exec::TextureDescriptor& out,
                          std::shared_ptr<const void>& memory);
CUresult describe_surface(const CUDA_RESOURCE_DESC& resource, exec::SurfaceDescriptor& out,
                          std::shared_ptr<const void>& memory);

/// A texture object: its handle for device code is its handle for the program.
struct TextureObject {
    CUDA_RESOURCE_DESC resource{};
    CUDA_TEXTURE_DESC texture{};
    CUDA_RESOURCE_VIEW_DESC view{};
    bool has_view = false;
    std::shared_ptr<const void> memory;  // keeps the array while device code may read it
    std::shared_ptr<Context> context;
};
struct SurfaceObject {
    CUDA_RESOURCE_DESC resource{};
    std::shared_ptr<const void> memory;
    std::shared_ptr<Context> context;
};

/// A texture reference of a module, or of the program's own making. Each change binds it anew: the variable in the module that
/// stands for it gets the handle of a texture with these properties.
class TextureReference {
public:
    TextureReference(std::shared_ptr<Context> context, uint64_t variable)
        : m_context(std::move(context)), m_variable(variable) {
        texture.addressMode[0] = texture.addressMode[1] = texture.addressMode[2] = CU_TR_ADDRESS_MODE_WRAP;
    }
    ~TextureReference();

    /// Binds what the fields say. Without a resource: nothing. Errors: those of describe_texture.
    CUresult bind();

    CUDA_RESOURCE_DESC resource{};
    CUDA_TEXTURE_DESC texture{};
    bool has_resource = false;
    CUarray_format format = CU_AD_FORMAT_FLOAT;  ///< of linear memory
    int channels = 1;

private:
    const std::shared_ptr<Context> m_context;
    const uint64_t m_variable;  ///< address of the module's variable, 0 for a reference that no module has
    uint64_t m_bound = 0;
    std::shared_ptr<const void> m_memory;
};

class SurfaceReference {
public:
    SurfaceReference(std::shared_ptr<Context> context, uint64_t variable)
        : m_context(std::move(context)), m_variable(variable) {}
    ~SurfaceReference();
    CUresult bind(CUarray array);
    CUarray array() const { return m_array; }

private:
    const std::shared_ptr<Context> m_context;
    const uint64_t m_variable;
    CUarray m_array = nullptr;
    uint64_t m_bound = 0;
    std::shared_ptr<const void> m_memory;
};

}  // namespace warpline::softgpu::driver
