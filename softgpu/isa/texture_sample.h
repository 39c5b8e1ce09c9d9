// Reading textures: coordinates, address modes, filters, formats. Source: CUDA C++ Programming Guide, "Texture Fetching", and
// the cube map table of "Texture and Surface Memory".
#pragma once

#include <cstdint>

#include "softgpu/exec/texture.h"
#include "softgpu/isa/texture_spec.h"

namespace warpline::softgpu::isa {

/// Where a lane reads. Unused coordinates are 0.
struct TexturePoint {
    float at[3] = {};
    int32_t texel[3] = {};  ///< instead of `at`, if integer_coordinates
    bool integer_coordinates = false;
    uint32_t layer = 0;
    int32_t offset[3] = {};  ///< in texels
    float level = 0;
    bool has_gradients = false;
    float along_x[3] = {}, along_y[3] = {};
};

/// What a read gives: floats as their bits, or integers, as the texture is.
struct TexelValue {
    uint32_t bits[4] = {};
};

/// Reads one texture for one instruction. Memory that a program owns is checked before each access.
class TextureReader {
public:
    TextureReader(const exec::TextureDescriptor& texture, const Warp& warp) : m_texture(texture), m_warp(warp) {}

    /// tex. False: a fault at fault_address().
    bool sample(const TextureGeometry& geometry, const TexturePoint& point, TexelValue& out);
    /// tld4: component `component` of the four texels around the point, counter-clockwise from the lower left.
    bool gather(const TextureGeometry& geometry, const TexturePoint& point, uint32_t component, TexelValue& out);
    uint64_t fault_address() const { return m_fault_address; }

private:
    struct Place {
        int64_t fixed[3] = {};  ///< coordinates in texels, times 256
        uint32_t slice = 0;     ///< layer and face
    };
    bool sample_level(const TextureGeometry& geometry, const TexturePoint& point, uint32_t level, TexelValue& out);
    bool filter(const TextureGeometry& geometry, const exec::TextureLevel& level, const Place& place, TexelValue& out);
    bool texel(const TextureGeometry& geometry, const exec::TextureLevel& level, const int64_t* index, uint32_t slice,
               TexelValue& out);
    bool read(const exec::TextureLevel& level, uint64_t x, uint64_t y, uint64_t z, TexelValue& out);
    TexelValue border() const;
    float level_of_detail(const TextureGeometry& geometry, const TexturePoint& point) const;
    Place place_of(const TextureGeometry& geometry, const TexturePoint& point, const exec::TextureLevel& level,
                   bool linear) const;

    const exec::TextureDescriptor& m_texture;
    const Warp& m_warp;
    exec::RangeCache m_range;
    uint64_t m_fault_address = 0;
};

/// Converts what lies in memory. `integers`: as they are, else normalised where the type has no meaning of its own as float.
TexelValue decode_texel(exec::TexelType type, uint32_t channels, bool integers, bool srgb, const std::byte* memory);

/// Size of an element's channel.
uint32_t channel_bytes(exec::TexelType type);

}  // namespace warpline::softgpu::isa
