// Textures and surfaces as device code sees them. The driver layer fills descriptors and hands out handles; instructions (tex,
// tld4, txq, suld, sust, sured, suq) look a handle up. Plain data, no C++ library headers: included by code that is compiled
// once per CPU level.
//
// A handle is what cuTexObjectCreate and cuSurfObjectCreate return, as a 64-bit operand of the instruction. A texture or
// surface reference of a module (.texref, .surfref) is a variable of 8 bytes that holds the handle of what is bound to it, 0
// if nothing is.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warpline::softgpu::exec {

enum class TexelType : uint8_t {
    u8,
    u16,
    u32,
    s8,
    s16,
    s32,
    f16,
    f32,
    unorm8,
    unorm16,
    snorm8,
    snorm16,  ///< formats that are normalised by themselves, not by the texture's read mode
};

enum class TextureShape : uint8_t {
    linear,       ///< memory read by element index (tex1Dfetch): no filter, 0 beyond the end
    one,          ///< 1D
    two,          ///< 2D
    three,        ///< 3D
    one_layered,  ///< layers are slices
    two_layered,
    cube,          ///< 6 slices: +x -x +y -y +z -z
    cube_layered,  ///< 6 slices per layer
};

enum class TextureAddress : uint8_t { wrap, clamp, mirror, border };

/// One level of detail: rows of elements, slices of rows.
struct TextureLevel {
    std::byte* base = nullptr;
    uint32_t width = 0, height = 1, depth = 1;  ///< elements, rows, slices (layers and faces counted)
    uint64_t row_pitch_bytes = 0, slice_pitch_bytes = 0;
};

constexpr uint32_t k_max_texture_levels = 18;

struct TextureDescriptor {
    TextureShape shape = TextureShape::linear;
    TexelType type = TexelType::u8;
    uint8_t channels = 1;  ///< 1, 2, 4; missing ones read as 0, 0, and 1 for the last in the type that is read
    uint8_t element_bytes = 1;
    bool normalised_coordinates = false;  ///< 0 … 1 instead of 0 … size
    bool integer_reads = false;   ///< integers come as integers; else they are normalised to 0 … 1 or -1 … 1 (.f32 reads)
    bool srgb = false;            ///< 8-bit channels but alpha are converted from sRGB when normalised
    bool linear_filter = false;   ///< within a level
    bool linear_mipmaps = false;  ///< between levels
    bool seamless_cube = false;
    TextureAddress address[3] = {TextureAddress::clamp, TextureAddress::clamp, TextureAddress::clamp};
    uint32_t max_anisotropy = 1;
    float border[4] = {0, 0, 0, 0};
    float level_bias = 0, min_level = 0, max_level = 0;
    uint32_t layers = 1;           ///< of layered shapes
    uint64_t linear_elements = 0;  ///< of shape linear: wider than TextureLevel::width can say
    bool program_memory = false;   ///< not an array, but memory that the program can free at any time: accesses are checked
    uint32_t level_count = 1;
    TextureLevel levels[k_max_texture_levels];
};

struct SurfaceDescriptor {
    TextureShape shape = TextureShape::two;
    TexelType type = TexelType::u8;
    uint8_t channels = 1;
    uint8_t element_bytes = 1;
    uint32_t layers = 1;
    TextureLevel level;
};

/// What a handle names; null if it names nothing (the instruction faults: 700). The pointer is good until the launch ends.
/// Lock-free, from any thread.
const TextureDescriptor* find_texture(uint64_t handle);
const SurfaceDescriptor* find_surface(uint64_t handle);

/// Gives out a handle, never 0. 0 if there are too many (a million each).
uint64_t add_texture(const TextureDescriptor& descriptor);
uint64_t add_surface(const SurfaceDescriptor& descriptor);
/// The handle names nothing any more. Call when no launch that may use it is running.
void remove_texture(uint64_t handle);
void remove_surface(uint64_t handle);

}  // namespace warpline::softgpu::exec
